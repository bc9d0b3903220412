// Reports the outcome for each kernel and kind, for people and for programs.
#ifndef TALLY_TOOLS_PTXOPT_REPORT_H
#define TALLY_TOOLS_PTXOPT_REPORT_H

#include "job.h"

#include <memory>
#include <string>
#include <vector>

namespace tally::ptxopt {

/// Returns one JSON document, "schema": 1, keys in a fixed order. Per architecture: registers of
/// the user's kernel and of the variant (of the costlier entry where a kind has two), bytes spilled
/// by the variant, and the blocks of each that an SM holds. For an emitted checkpoint variant,
/// "saved" is the number of bytes that a stopped block leaves in the save area; a launch's dynamic
/// shared memory adds to it.
std::string jsonReport(const std::vector<std::unique_ptr<Job>> &jobs);

/// Returns a table with a line per kernel and kind.
std::string textReport(const std::vector<std::unique_ptr<Job>> &jobs);

} // namespace tally::ptxopt

#endif
