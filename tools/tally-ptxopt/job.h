// One input on its way through the tool.
#ifndef TALLY_TOOLS_PTXOPT_JOB_H
#define TALLY_TOOLS_PTXOPT_JOB_H

#include "assemble.h"
#include "options.h"

#include "tally/ptx/transforms/rewriter.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tally::ptxopt {

/// An input, its kernels, and what ptxas made of them.
struct Job {
  std::string input;  ///< as given
  std::string output; ///< path, "-" for standard output
  ptx::Module module;
  std::vector<ptx::RewrittenKernel> kernels;
  std::map<std::uint32_t, Assembled> assembled; ///< by architecture

  Job(std::string input, ptx::Module module) : input(std::move(input)), module(std::move(module)) {}
};

/// Reads, parses and rewrites one input. Errors are rendered: ready to print.
Result<std::unique_ptr<Job>> startJob(const Options &options, const std::string &input);

/// An Error if two jobs would write one file.
Result<void> checkOutputs(const std::vector<std::unique_ptr<Job>> &jobs);

/// Assembles all jobs for their architectures, several at a time. Variants that ptxas rejects
/// become failed and are taken out; what it says of the module itself is an Error.
Result<void> assembleJobs(const Options &options, std::vector<std::unique_ptr<Job>> &jobs);

/// Writes the job's output: PTX, a bundle, or what is said of the kernels.
Result<void> writeJob(const Options &options, const Job &job);

} // namespace tally::ptxopt

#endif
