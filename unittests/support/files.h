// Files of tests.
#ifndef TALLY_UNITTESTS_SUPPORT_FILES_H
#define TALLY_UNITTESTS_SUPPORT_FILES_H

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace tally::test {

/// An empty folder for one test; the destructor removes it.
struct TemporaryFolder {
  /// Throws std::system_error where the folder cannot be made.
  TemporaryFolder() {
    std::string name = std::filesystem::temp_directory_path() / "tally-test-XXXXXX";
    if (!mkdtemp(name.data()))
      throw std::system_error(errno, std::generic_category(), name);
    path = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  std::string file(const std::string &name) const { return path / name; }

  std::filesystem::path path;
};

/// Returns the file's contents; empty where there is no such file.
inline std::string contents(const std::string &path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

} // namespace tally::test

#endif
