// The checked-in tables of test/execution: what is expected of every own kernel, and how it is run.
#ifndef TALLY_UNITTESTS_VERIFY_TABLE_H
#define TALLY_UNITTESTS_VERIFY_TABLE_H

#include "tally/bundle/bundle.h"

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

/// What the bundle of `file` says otherwise than the rows of test/execution/verdicts.txt for that
/// file, and rows that one of them lacks; each as a sentence.
std::vector<std::string> differencesOfVerdicts(const std::string &file,
                                               const bundle::Bundle &bundle);

std::string readText(const std::filesystem::path &path);

} // namespace tally::verify

#endif
