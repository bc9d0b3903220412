#include "preload_library.h"

#include <cstdlib>
#include <filesystem>

namespace tally::launcher {

namespace fs = std::filesystem;

std::string launcherFolder() {
  std::error_code none;
  fs::path self = fs::read_symlink("/proc/self/exe", none);
  return none ? std::string() : self.parent_path().string();
}

std::vector<std::string> preloadLibraryPlaces() {
  const char *given = std::getenv("TALLY_PRELOAD_LIBRARY");
  if (given && *given)
    return {given};
  std::vector<std::string> places;
  std::string folder = launcherFolder();
  const std::string name = "/tally/libtally_preload.so";
  places.push_back(folder + "/../lib" + name);
  if (const std::string installed = TALLY_LIBRARY_FOLDER; installed != "lib")
    places.push_back(folder + "/../" + installed + name);
  // An installed launcher must not take a library from its build tree.
  const std::string build = TALLY_BUILD_FOLDER;
  if (folder.starts_with(build + "/"))
    places.emplace_back(TALLY_PRELOAD_BUILD_PATH);
  return places;
}

Result<std::string> findPreloadLibrary() {
  std::string looked;
  for (const std::string &place : preloadLibraryPlaces()) {
    std::error_code none;
    fs::path path = fs::canonical(place, none);
    if (!none && fs::is_regular_file(path, none)) {
      if (path.string().find_first_of(": ") != std::string::npos)
        return Error{path.string() +
                     ": LD_PRELOAD cannot hold a path with a space or a colon; move "
                     "the library, and say where by TALLY_PRELOAD_LIBRARY"};
      return path.string();
    }
    looked += (looked.empty() ? "" : ", ") + fs::path(place).lexically_normal().string();
  }
  return Error{"there is no library to preload; looked for: " + looked};
}

} // namespace tally::launcher
