// The checked-in tables of test/execution: what is expected of every own kernel, and how it is run.
#ifndef TALLY_UNITTESTS_VERIFY_TABLE_H
#define TALLY_UNITTESTS_VERIFY_TABLE_H

#include <filesystem>
#include <string>
#include <vector>

namespace tally::verify {

/// The lines of a table as fields between blanks; empty lines and those that begin with `#` are
/// left out.
std::vector<std::vector<std::string>> readTable(const std::filesystem::path &path);

/// The project's root, in which the tables' paths are.
std::filesystem::path sourceRoot();

/// All .ptx files of test/kernels and examples, relative to the root, sorted.
std::vector<std::string> ownPtxFiles();

std::string readText(const std::filesystem::path &path);

} // namespace tally::verify

#endif
