#include "table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
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

namespace {

std::string rowOf(const std::string &file, const bundle::Kernel &kernel) {
  std::string row = file + " " + kernel.name;
  row += kernel.bitwiseStable ? " stable" : " order-dependent";
  for (Kind kind : allKinds) {
    const Verdict *verdict = kernel.verdict(kind);
    row += " ";
    if (!verdict)
      row += "none";
    else
      row += verdict->status == Status::Emitted ? "emitted" : verdict->reason;
  }
  return row;
}

} // namespace

std::vector<std::string> differencesOfVerdicts(const std::string &file,
                                               const bundle::Bundle &bundle) {
  std::map<std::string, std::string> expected; // kernel -> the whole row
  std::vector<std::string> differences;
  for (const auto &row : readTable(sourceRoot() / "test/execution/verdicts.txt")) {
    if (row[0] != file)
      continue;
    std::string text = row[0];
    for (std::size_t i = 1; i < row.size(); ++i)
      text += " " + row[i];
    if (row.size() != 3 + allKinds.size() || !expected.emplace(row[1], text).second)
      differences.push_back("a second or damaged row: " + text);
  }
  for (const bundle::Kernel &kernel : bundle.kernels) {
    std::string actual = rowOf(file, kernel);
    auto row = expected.find(kernel.name);
    if (row == expected.end()) {
      differences.push_back("not in the table: " + actual);
      continue;
    }
    if (row->second != actual)
      differences.push_back("expected " + row->second + ", got " + actual);
    expected.erase(row);
  }
  for (const auto &[kernel, row] : expected)
    differences.push_back("no such kernel: " + row);
  return differences;
}

} // namespace tally::verify
