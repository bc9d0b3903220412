// What became of each kernel and kind, for people and for programs.
#ifndef TALLY_TOOLS_PTXOPT_REPORT_H
#define TALLY_TOOLS_PTXOPT_REPORT_H

#include "job.h"

#include <memory>
#include <string>
#include <vector>

namespace tally::ptxopt {

/// One JSON document, "schema": 1, keys in a fixed order. Per architecture: registers of the user's
/// kernel and of the variant (of the costlier entry where a kind has two), bytes spilled by the
/// variant, and the blocks that an SM holds of each. Of an emitted checkpoint variant "saved": what
/// a block that stops leaves in the save area, in bytes; a launch's dynamic shared memory adds to
/// it.
std::string jsonReport(const std::vector<std::unique_ptr<Job>> &jobs);

/// A table, a line per kernel and kind.
std::string textReport(const std::vector<std::unique_ptr<Job>> &jobs);

} // namespace tally::ptxopt

#endif
