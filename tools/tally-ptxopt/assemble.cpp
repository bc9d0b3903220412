#include "assemble.h"

#include "cache.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <array>
#include <limits>

namespace tally::ptxopt {
namespace {

/// A temporary file in the system's directory for them; the destructor removes it.
class ScratchFile {
public:
  explicit ScratchFile(const char *extension) : remover() {
    error = llvm::sys::fs::createTemporaryFile("tally", extension, path);
    if (!error)
      remover.setFile(path);
  }
  llvm::SmallString<128> path;
  std::error_code error;

private:
  llvm::FileRemover remover;
};

std::string readAll(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNull=*/false);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

/// Returns the first line of ptxas's output that contains error or fatal, without the scratch
/// file's name.
std::string firstComplaint(llvm::StringRef output) {
  while (!output.empty()) {
    auto [line, rest] = output.split('\n');
    output = rest;
    if (line.contains("error") || line.contains("fatal"))
      return line.contains("; ") ? line.split("; ").second.trim().str() : line.trim().str();
  }
  return "ptxas failed without a message";
}

/// Returns the unsigned number before `word` in `line`, or 0.
std::uint32_t numberBefore(llvm::StringRef line, llvm::StringRef word) {
  std::size_t at = line.find(word);
  if (at == llvm::StringRef::npos)
    return 0;
  llvm::StringRef head = line.take_front(at).rtrim();
  llvm::StringRef digits = head.take_back(head.size() - (head.find_last_not_of("0123456789") + 1));
  std::uint32_t number = 0;
  return digits.getAsInteger(10, number) ? 0 : number;
}

/// Memory of ptxas 13.0 per byte of text: 30 bytes, or 76 with threads (measured with 32 MB of
/// variants of ggml's mmvf.cu).
constexpr std::uint64_t memoryPerByte = 30, memoryPerSplitByte = 76;
/// One thread assembles longer texts: builds that run many jobs at once gain nothing from more
/// threads and pay in memory.
constexpr std::size_t mostSplitBytes = std::size_t{6} << 20;

} // namespace

std::uint64_t availableMemory() {
  constexpr std::uint64_t unknown = std::numeric_limits<std::uint64_t>::max();
  auto file = llvm::MemoryBuffer::getFileAsStream("/proc/meminfo");
  if (!file)
    return unknown;
  llvm::StringRef line = (*file)->getBuffer();
  line = line.drop_front(std::min(line.size(), line.find("MemAvailable:"))).split('\n').first;
  std::uint64_t kibibytes = 0;
  llvm::StringRef digits = line.split(':').second.trim().split(' ').first;
  return digits.getAsInteger(10, kibibytes) ? unknown : kibibytes << 10;
}

std::map<std::string, EntryUsage, std::less<>> parseUsage(std::string_view output) {
  std::map<std::string, EntryUsage, std::less<>> entries;
  EntryUsage *current = nullptr;
  llvm::StringRef rest(output);
  while (!rest.empty()) {
    auto [line, after] = rest.split('\n');
    rest = after;
    if (line.contains("Compiling entry function '")) {
      current = &entries[line.split('\'').second.split('\'').first.str()];
    } else if (line.contains("Function properties for ")) {
      // Lines of callees with their own spills follow; only the entry's line counts for the entry.
      llvm::StringRef name = line.split("Function properties for ").second.trim();
      auto found = entries.find(name);
      if (found != entries.end())
        current = &found->second;
    } else if (current && line.contains("bytes spill stores")) {
      current->spillBytes +=
          numberBefore(line, " bytes spill stores") + numberBefore(line, " bytes spill loads");
    } else if (current && line.contains("Used ") && line.contains(" registers")) {
      current->registers = numberBefore(line, " registers");
      current->sharedBytes = numberBefore(line, " bytes smem");
    }
  }
  return entries;
}

Result<Assembled> Assembler::assemble(const AssembleRequest &request) const {
  if (!cache)
    return run(request);
  std::string key = AssemblyCache::keyOf(ptxas, request);
  if (auto known = cache->find(key))
    return std::move(*known);
  auto assembled = run(request);
  if (assembled)
    cache->store(key, *assembled);
  return assembled;
}

Result<Assembled> Assembler::run(const AssembleRequest &request) const {
  ScratchFile input("ptx"), output("cubin"), messages("txt");
  for (const ScratchFile *file : {&input, &output, &messages})
    if (file->error)
      return Error{"no temporary file: " + file->error.message()};
  {
    std::error_code error;
    llvm::raw_fd_ostream stream(input.path, error);
    if (!error)
      stream << llvm::StringRef(request.ptx).rtrim('\0'); // nvrtc's ends in one, ptxas minds
    stream.flush();
    if (error || stream.has_error()) {
      Error failure{std::string(input.path) + ": cannot be written"};
      stream.clear_error();
      return failure;
    }
  }
  std::string archOption = "-arch=" + request.target.arch.name();
  std::string threadsOption = "--split-compile=" + std::to_string(threads);
  llvm::SmallVector<llvm::StringRef, 8> arguments = {ptxas,      "-v", archOption,
                                                     input.path, "-o", output.path};
  bool splits = false;
  for (llvm::StringRef option : request.target.options) {
    arguments.push_back(option);
    splits |= option.contains("split-compile");
  }
  if (!splits && threads > 1 && request.ptx.size() <= mostSplitBytes) {
    arguments.push_back(threadsOption);
    splits = true;
  }
  MemoryBudget::Share share(*memory,
                            request.ptx.size() * (splits ? memoryPerSplitByte : memoryPerByte));
  std::array<std::optional<llvm::StringRef>, 3> redirects = {
      llvm::StringRef(""), messages.path.str(), messages.path.str()};
  std::string why;
  int status = llvm::sys::ExecuteAndWait(ptxas, arguments, std::nullopt, redirects, 0, 0, &why);
  if (status < 0)
    return Error{ptxas + ": " + why};
  std::string text = readAll(messages.path);
  if (status != 0)
    return Error{firstComplaint(text)};
  return Assembled{readAll(output.path), parseUsage(text)};
}

} // namespace tally::ptxopt
