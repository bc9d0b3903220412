// A table of launches: many runs of tally-verify in one process, which saves time most of all on a
// GPU.
#ifndef TALLY_VERIFY_LAUNCHES_H
#define TALLY_VERIFY_LAUNCHES_H

#include "tally/support/result.h"

#include <string>
#include <vector>

namespace tally::verify {

/// One line of the table: arguments for a run of tally-verify.
struct LaunchLine {
  std::string text;                   ///< as it stands in the table
  std::vector<std::string> arguments; ///< the file, --kernel=NAME and the options
};

/// Reads a table: in each line a file (relative to the table's folder), a kernel and options. Skips
/// empty lines and lines that begin with #. The error names the file, or the line.
Result<std::vector<LaunchLine>> readLaunches(const std::string &table);

} // namespace tally::verify

#endif
