// A folder of a test's own.
#ifndef TALLY_UNITTESTS_TALLY_SCRATCH_FOLDER_H
#define TALLY_UNITTESTS_TALLY_SCRATCH_FOLDER_H

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>

namespace tally::launcher {

class ScratchFolder {
public:
  ScratchFolder() {
    char name[] = "/tmp/tally-launcher-XXXXXX";
    path = mkdtemp(name) ? name : "";
  }
  ~ScratchFolder() {
    std::error_code none;
    std::filesystem::remove_all(path, none);
  }
  ScratchFolder(const ScratchFolder &) = delete;
  ScratchFolder &operator=(const ScratchFolder &) = delete;

  /// The path of a file that is made.
  std::string file(const std::string &name, const std::string &bytes, mode_t mode = 0755) const {
    std::string at = path + "/" + name;
    std::ofstream(at, std::ios::binary) << bytes;
    chmod(at.c_str(), mode);
    return at;
  }
  std::string folder(const std::string &name) const {
    std::filesystem::create_directory(path + "/" + name);
    return path + "/" + name;
  }

  std::string path;
};

} // namespace tally::launcher

#endif
