// A table of launches: many runs of tally-verify in one process, which on a GPU saves the most
// time.
#ifndef TALLY_VERIFY_LAUNCHES_H
#define TALLY_VERIFY_LAUNCHES_H

#include "tally/support/result.h"

#include <string>
#include <vector>

namespace tally::verify {

/// One line: what tally-verify would be called with.
struct LaunchLine {
  std::string text;                   ///< as it stands in the table
  std::vector<std::string> arguments; ///< the file, --kernel=NAME and the options
};

/// Reads a table: in each line a file (relative to the table's folder), a kernel and options.
/// Empty lines and those that begin with # are left out. The error names the file, or the line.
Result<std::vector<LaunchLine>> readLaunches(const std::string &table);

} // namespace tally::verify

#endif
