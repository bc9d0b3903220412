#include "library_search.h"

#include "elf_file.h"
#include "text.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <set>

namespace tally::launcher {

namespace {

namespace fs = std::filesystem;

/// Returns the folders of a DT_RPATH or DT_RUNPATH of the file at `path`.
std::vector<std::string> foldersOf(std::string_view text, const std::string &path) {
  std::vector<std::string> folders = split(text, ":");
  std::string origin = fs::path(path).parent_path().string();
  for (std::string &folder : folders)
    for (std::string_view token : {"${ORIGIN}", "$ORIGIN"})
      for (std::size_t at = 0; (at = folder.find(token, at)) != std::string::npos;
           at += origin.size())
        folder.replace(at, token.size(), origin);
  return folders;
}

/// The folders compiled into glibc, here and in other distributions.
constexpr std::array defaultFolders = {"/lib64",
                                       "/usr/lib64",
#if defined(__x86_64__)
                                       "/lib/x86_64-linux-gnu",
                                       "/usr/lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
                                       "/lib/aarch64-linux-gnu",
                                       "/usr/lib/aarch64-linux-gnu",
#endif
                                       "/lib",
                                       "/usr/lib"};

/// From glibc's dl-cache.h. Offsets count from the header on.
struct CacheEntry {
  std::int32_t flags;
  std::uint32_t name, path, osVersion;
  std::uint64_t hwcap;
};

} // namespace

LoaderCache readLoaderCache(std::string_view bytes) {
  // A number in the header, behind the magic, counts the entries. An old cache may come first.
  constexpr std::string_view magic = "glibc-ld.so.cache1.1";
  constexpr std::size_t headerBytes = 48;
  LoaderCache cache;
  std::size_t start = bytes.find(magic);
  if (start == std::string_view::npos)
    return cache;
  bytes.remove_prefix(start);
  auto count = structureAt<std::uint32_t>(bytes, magic.size());
  for (std::size_t i = 0; count && i < *count; ++i) {
    auto entry = structureAt<CacheEntry>(bytes, headerBytes + i * sizeof(CacheEntry));
    if (!entry)
      break;
    cache.emplace(textAt(bytes, entry->name), textAt(bytes, entry->path));
  }
  return cache;
}

LibrarySearch::LibrarySearch(std::string_view libraryPath, LoaderCache cache)
    : libraryPath(split(libraryPath, ":;")), cache(std::move(cache)) {}

LibrarySearch LibrarySearch::ofProcess() {
  const char *path = std::getenv("LD_LIBRARY_PATH");
  MappedFile cache("/etc/ld.so.cache");
  return {path ? path : "", readLoaderCache(cache.bytes())};
}

std::vector<std::string> LibrarySearch::findAll(std::string_view name,
                                                const std::vector<std::string> &before,
                                                const std::vector<std::string> &behind) const {
  std::vector<std::string> found;
  std::set<fs::path> seen;
  auto add = [&](const std::string &path) {
    std::error_code none;
    fs::path real = fs::canonical(path, none);
    if (none || seen.contains(real))
      return;
    MappedFile file(path);
    auto program = readProgram(file.bytes());
    if (!program || !program->isNative)
      return;
    seen.insert(real);
    found.push_back(path);
  };
  if (name.find('/') != std::string_view::npos) {
    add(std::string(name));
    return found;
  }
  auto addIn = [&](const auto &folders) {
    for (const auto &folder : folders)
      add(std::string(folder) + "/" + std::string(name));
  };
  addIn(before);
  addIn(libraryPath);
  addIn(behind);
  for (auto [each, end] = cache.equal_range(name); each != end; ++each)
    add(each->second);
  addIn(defaultFolders);
  return found;
}

std::vector<std::string> LibrarySearch::closureOf(const std::string &path) const {
  std::vector<std::string> closure = {path};
  std::set<std::string, std::less<>> asked;
  std::vector<std::string> inherited; // DT_RPATH also counts for the libraries of libraries
  for (std::size_t i = 0; i < closure.size(); ++i) {
    const std::string from = closure[i];
    MappedFile file(from);
    DynamicSection dynamic = readDynamic(file.bytes());
    std::vector<std::string> before, behind = foldersOf(dynamic.runpath, from);
    if (dynamic.runpath.empty()) {
      before = foldersOf(dynamic.rpath, from);
      if (i == 0)
        inherited = before;
      before.insert(before.end(), inherited.begin(), inherited.end());
    }
    for (const std::string &name : dynamic.needed) {
      if (!asked.insert(name).second)
        continue;
      std::vector<std::string> found = findAll(name, before, behind);
      if (!found.empty())
        closure.push_back(found.front());
    }
  }
  return closure;
}

} // namespace tally::launcher
