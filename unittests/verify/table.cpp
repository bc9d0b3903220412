#include "table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace tally::verify {

namespace fs = std::filesystem;

fs::path sourceRoot() { return TALLY_SOURCE_ROOT; }

std::string readText(const fs::path &path) {
  std::ifstream stream(path, std::ios::binary);
  REQUIRE_MESSAGE(stream.good(), path.string());
  std::ostringstream text;
  text << stream.rdbuf();
  return std::move(text).str();
}

std::vector<std::vector<std::string>> readTable(const fs::path &path) {
  std::istringstream text(readText(path));
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(text, line);) {
    std::istringstream fields(line);
    std::vector<std::string> row;
    for (std::string field; fields >> field;)
      row.push_back(field);
    if (!row.empty() && !row.front().starts_with('#'))
      rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> ownPtxFiles() {
  std::vector<std::string> files;
  for (const char *folder : {"test/kernels", "examples"})
    for (const fs::directory_entry &entry : fs::recursive_directory_iterator(sourceRoot() / folder))
      if (entry.path().extension() == ".ptx")
        files.push_back(fs::relative(entry.path(), sourceRoot()).generic_string());
  std::ranges::sort(files);
  return files;
}

} // namespace tally::verify
