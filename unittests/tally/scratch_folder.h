// A folder for one test, with files of any mode.
#ifndef TALLY_UNITTESTS_TALLY_SCRATCH_FOLDER_H
#define TALLY_UNITTESTS_TALLY_SCRATCH_FOLDER_H

#include "../support/files.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>

namespace tally::launcher {

class ScratchFolder {
public:
  /// Makes a file and returns its path.
  std::string file(const std::string &name, const std::string &bytes, mode_t mode = 0755) const {
    std::string at = made.file(name);
    std::ofstream(at, std::ios::binary) << bytes;
    chmod(at.c_str(), mode);
    return at;
  }
  std::string folder(const std::string &name) const {
    std::filesystem::create_directory(made.file(name));
    return made.file(name);
  }

private:
  test::TemporaryFolder made;

public:
  const std::string path = made.path;
};

} // namespace tally::launcher

#endif
