// The checked-in tables of test/execution: the expected verdict of every own kernel, and its
// launches.
#ifndef TALLY_UNITTESTS_VERIFY_TABLE_H
#define TALLY_UNITTESTS_VERIFY_TABLE_H

#include "tally/bundle/bundle.h"

#include <filesystem>
#include <string>
#include <vector>

namespace tally::verify {

/// Returns the lines of a table, split into fields at blanks; skips empty lines and lines that
/// begin with `#`.
std::vector<std::vector<std::string>> readTable(const std::filesystem::path &path);

/// Returns the project's root; the paths in the tables are relative to it.
std::filesystem::path sourceRoot();

/// All .ptx files of test/kernels and examples, relative to the root, sorted.
std::vector<std::string> ownPtxFiles();

/// Compares the bundle of `file` with the rows of test/execution/verdicts.txt for that file.
/// Returns a sentence for each difference and for each missing row.
std::vector<std::string> differencesOfVerdicts(const std::string &file,
                                               const bundle::Bundle &bundle);

std::string readText(const std::filesystem::path &path);

} // namespace tally::verify

#endif
