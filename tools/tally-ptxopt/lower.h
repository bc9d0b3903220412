// Takes LLVM modules for NVPTX as input: LLVM's back end lowers them to PTX.
#ifndef TALLY_TOOLS_PTXOPT_LOWER_H
#define TALLY_TOOLS_PTXOPT_LOWER_H

#include "job.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptxopt {

/// Returns the PTX of an LLVM module (bitcode or text) for sm_`arch`. Errors name `input`.
Result<std::string> lowerToPtx(const std::string &input, std::string_view bytes,
                               std::uint32_t arch);

/// Lowers an input for each architecture that the options ask for, the lowest first, and appends a
/// job for each to `jobs`. The first job has the output: a bundle with the PTX and code of all
/// jobs.
Result<void> startLoweredJobs(const Options &options, const std::string &input,
                              std::string_view bytes, std::vector<std::unique_ptr<Job>> &jobs);

} // namespace tally::ptxopt

#endif
