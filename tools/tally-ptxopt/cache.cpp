#include "cache.h"

#include "files.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace tally::ptxopt {
namespace {

/// First line of every entry; the number changes with the format and with the ptxas options that
/// tally uses.
constexpr llvm::StringLiteral cacheMagic = "tally assembly 1\n";

std::string hashOf(llvm::StringRef bytes) {
  auto digest = llvm::SHA256::hash(llvm::arrayRefFromStringRef(bytes));
  return llvm::toHex(digest, /*LowerCase=*/true);
}

/// Returns `name registers spills shared` of each entry, an empty line, and the cubin.
std::string payloadOf(const Assembled &assembled) {
  std::string text;
  for (const auto &[name, usage] : assembled.entries)
    text +=
        fmt::format("{} {} {} {}\n", name, usage.registers, usage.spillBytes, usage.sharedBytes);
  return text + "\n" + assembled.cubin;
}

std::optional<Assembled> readPayload(llvm::StringRef payload) {
  Assembled assembled;
  for (;;) {
    auto [line, rest] = payload.split('\n');
    payload = rest;
    if (line.empty())
      break;
    llvm::SmallVector<llvm::StringRef, 4> words;
    line.split(words, ' ');
    EntryUsage usage;
    if (words.size() != 4 || words[1].getAsInteger(10, usage.registers) ||
        words[2].getAsInteger(10, usage.spillBytes) || words[3].getAsInteger(10, usage.sharedBytes))
      return std::nullopt;
    assembled.entries[words[0].str()] = usage;
  }
  assembled.cubin = payload.str();
  return assembled;
}

std::optional<Assembled> readEntry(llvm::StringRef bytes) {
  if (!bytes.consume_front(cacheMagic))
    return std::nullopt;
  auto [hash, payload] = bytes.split('\n');
  return hash == hashOf(payload) ? readPayload(payload) : std::nullopt;
}

} // namespace

Result<std::shared_ptr<AssemblyCache>> AssemblyCache::open(const std::string &directory,
                                                           std::uint64_t maxBytes) {
  if (std::error_code error = llvm::sys::fs::create_directories(directory))
    return Error{directory + ": " + error.message()};
  return std::shared_ptr<AssemblyCache>(new AssemblyCache(directory, maxBytes));
}

std::string AssemblyCache::keyOf(const std::string &ptxas, const AssembleRequest &request) {
  llvm::SmallString<128> real;
  llvm::sys::fs::file_status status;
  if (llvm::sys::fs::real_path(ptxas, real))
    real = ptxas;
  std::string program(real);
  if (!llvm::sys::fs::status(real, status))
    program += fmt::format(" {} {}", status.getSize(),
                           status.getLastModificationTime().time_since_epoch().count());
  llvm::SHA256 hash;
  auto add = [&](llvm::StringRef part) {
    hash.update(fmt::format("{} ", part.size()));
    hash.update(part);
  };
  add(cacheMagic);
  add(program);
  add(request.target.arch.name());
  for (const std::string &option : request.target.options)
    add(option);
  add(request.ptx);
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

// pruneCache() considers only files with this prefix, so no other file in the directory is ever
// removed.
std::string AssemblyCache::pathOf(const std::string &key) const {
  llvm::SmallString<128> path(directory);
  llvm::sys::path::append(path, "llvmcache-" + key);
  return std::string(path);
}

std::optional<Assembled> AssemblyCache::find(const std::string &key) const {
  std::string path = pathOf(key);
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNull=*/false);
  if (!buffer)
    return std::nullopt;
  auto assembled = readEntry((*buffer)->getBuffer());
  if (!assembled) {
    llvm::errs() << "tally-ptxopt: warning: " + path + " is damaged: assembling again\n";
    (void)llvm::sys::fs::remove(path);
  }
  return assembled;
}

void AssemblyCache::store(const std::string &key, const Assembled &assembled) {
  std::string payload = payloadOf(assembled);
  std::string bytes = cacheMagic.str() + hashOf(payload) + "\n" + payload;
  stored = true;
  if (auto written = writeOutput(pathOf(key), bytes); !written && !warned.exchange(true))
    llvm::errs() << "tally-ptxopt: warning: cache: " + written.error().message + "\n";
}

void AssemblyCache::prune() const {
  if (!stored || maxBytes == 0)
    return;
  llvm::CachePruningPolicy policy;
  policy.Interval = std::chrono::seconds(0);
  policy.Expiration = std::chrono::seconds(0);
  policy.MaxSizePercentageOfAvailableSpace = 0;
  policy.MaxSizeBytes = maxBytes;
  llvm::pruneCache(directory, policy);
}

std::string defaultCacheDirectory() {
  llvm::SmallString<128> path;
  if (!llvm::sys::path::cache_directory(path))
    return {};
  llvm::sys::path::append(path, "tally");
  return std::string(path);
}

} // namespace tally::ptxopt
