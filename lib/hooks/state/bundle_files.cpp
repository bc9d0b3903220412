#include "state/bundle_files.h"

#include "tally/bundle/bundle_reader.h"
#include "tally/bundle/elf.h"
#include "tally/bundle/fatbin.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

namespace tally::hooks {

namespace {

/// A file's mapped bytes: of a program of a gigabyte only the section table and `.tally` are read.
class MappedFile {
public:
  explicit MappedFile(const std::string &path) {
    int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status{};
    if (file >= 0 && ::fstat(file, &status) == 0 && status.st_size > 0) {
      size = static_cast<std::size_t>(status.st_size);
      memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    }
    if (memory == MAP_FAILED)
      failure = std::strerror(errno);
    if (file >= 0)
      ::close(file);
  }
  ~MappedFile() {
    if (memory != MAP_FAILED)
      ::munmap(memory, size);
  }
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const std::string &error() const { return failure; }
  std::string_view bytes() const { return {static_cast<const char *>(memory), size}; }

private:
  void *memory = MAP_FAILED;
  std::size_t size = 0;
  std::string failure;
};

/// The file that the loader mapped at `address`. The loader has no name for the main program, and
/// the path that started it need not exist any more.
std::string pathOf(const void *address) {
  Dl_info info{};
  link_map *map = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void **>(&map), RTLD_DL_LINKMAP) == 0 || !map ||
      !map->l_name || map->l_name[0] == '\0')
    return "/proc/self/exe";
  return map->l_name;
}

/// The path as a user knows it.
std::string shown(const std::string &path) {
  char target[4096];
  ssize_t length = path == "/proc/self/exe" ? ::readlink(path.c_str(), target, sizeof target) : -1;
  return length > 0 ? std::string(target, static_cast<std::size_t>(length)) : path;
}

} // namespace

const BundleFiles::File &BundleFiles::fileOf(const void *address) {
  std::string path = pathOf(address);
  std::unique_lock lock(mutex);
  std::unique_ptr<File> &file = files[path];
  if (file)
    return *file;
  file = std::make_unique<File>();
  file->path = shown(path);
  MappedFile mapped(path);
  if (!mapped.error().empty()) {
    file->error = mapped.error();
    return *file;
  }
  auto sections = bundle::findSections(mapped.bytes(), ".tally");
  if (!sections) {
    file->error = sections.error().message;
    return *file;
  }
  for (std::string_view section : *sections) {
    file->hasSection = true;
    auto bundles = bundle::readBundles(section);
    if (!bundles) {
      file->error = bundles.error().message;
      break;
    }
    std::move(bundles->begin(), bundles->end(), std::back_inserter(file->bundles));
  }
  return *file;
}

BundleFiles::Lookup BundleFiles::find(const void *address, const void *container) {
  const File &file = fileOf(address);
  if (!file.error.empty())
    return {Outcome::Damaged, nullptr, file.path + ": " + file.error};
  if (!file.hasSection)
    return {Outcome::NoSection, nullptr, file.path};
  std::optional<std::string_view> bytes = bundle::fatbinAt(container);
  if (!bytes)
    return {Outcome::NoMatch, nullptr, file.path};
  std::uint64_t hash = bundle::hashOf(*bytes);
  auto found = std::find_if(file.bundles.begin(), file.bundles.end(),
                            [&](const bundle::Bundle &each) { return each.moduleHash == hash; });
  if (found == file.bundles.end())
    return {Outcome::NoMatch, nullptr, file.path};
  return {Outcome::Found, &*found, file.path};
}

} // namespace tally::hooks
