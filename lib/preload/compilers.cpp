#include "compilers.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tally::preload {

namespace {

using Meet = void (*)(void *library);

/// Returns nullptr where the library is no compiler.
Meet meetingOf(std::string_view path) {
  std::string_view file = path.substr(path.rfind('/') + 1); // npos + 1 is 0
  if (file.starts_with("libnvrtc.so"))
    return &meetNvrtc;
  return file.starts_with("libnvJitLink.so") ? &meetJitLink : nullptr;
}

/// The loaded compilers; empty where no library was loaded since the last call.
std::vector<std::string> loadedCompilers() {
  struct Found {
    std::vector<std::string> paths;
    bool isFirst = true;
  } found;
  auto look = [](dl_phdr_info *info, std::size_t, void *data) {
    static unsigned long long seen = 0; // number of libraries loaded so far
    auto *all = static_cast<Found *>(data);
    if (std::exchange(all->isFirst, false) &&
        std::exchange(seen, info->dlpi_adds) == info->dlpi_adds)
      return 1;
    std::string_view path = info->dlpi_name ? info->dlpi_name : "";
    if (meetingOf(path))
      all->paths.emplace_back(path);
    return 0;
  };
  dl_iterate_phdr(look, &found);
  return found.paths;
}

} // namespace

void meetCompilers() { meetCompiler("", RTLD_NOLOAD); }

void meetCompiler(const char *name, int mode) {
  static std::mutex meeting;
  // This function runs before dlopen, and calls dlopen itself.
  static thread_local bool isUnderWay = false;
  if (std::exchange(isUnderWay, true))
    return;
  bool willLoad = meetingOf(name) && std::strchr(name, '/') && (mode & RTLD_NOLOAD) == 0;
  void *loaded = willLoad ? dlopen(name, RTLD_LAZY | RTLD_LOCAL) : nullptr;
  static std::vector<std::string> met; // guarded by `meeting`
  std::unique_lock lock(meeting);
  for (const std::string &path : loadedCompilers()) {
    if (std::find(met.begin(), met.end(), path) != met.end())
      continue;
    // The library stays loaded: its exports now lead to the hooks.
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
    if (!library)
      continue;
    met.push_back(path);
    meetingOf(path)(library);
  }
  lock.unlock();
  if (loaded)
    dlclose(loaded);
  isUnderWay = false;
}

} // namespace tally::preload
