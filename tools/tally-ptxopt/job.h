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
  std::string part;   ///< of a container: which of its PTX, "compute_90"
  std::string output; ///< path, "-" for standard output; empty: written with something else
  ptx::Module module;
  std::vector<ptx::RewrittenKernel> kernels;
  std::uint64_t sourceHash = 0; ///< bundle::hashOf() the input
  std::vector<AssemblyTarget> targets;
  std::map<Architecture, Assembled> assembled;
  /// What the compiler's machine code takes, by function, where it is at hand.
  std::map<Architecture, std::map<std::string, std::uint32_t, std::less<>>> usersRegisters;

  /// Of a fatbin's entry: there is machine code to fall back on, so that a module that ptxas
  /// rejects is no Error.
  bool keepsMachineCode = false;
  std::map<Architecture, std::string> rejected; ///< then: what ptxas said of the module itself
  /// The other PTX of the same fatbin, or of the same LLVM module. A kernel's variants are in all
  /// or in none, since the driver chooses which is loaded.
  std::vector<Job *> siblings;

  Job(std::string input, ptx::Module module) : input(std::move(input)), module(std::move(module)) {}

  /// Whether any kernel has one.
  bool hasVariants() const {
    for (const ptx::RewrittenKernel &kernel : kernels)
      for (const ptx::Variant &variant : kernel.variants)
        if (variant.verdict.status == Status::Emitted)
          return true;
    return false;
  }
};

/// Parses and rewrites `text`, PTX that is called `input` in messages. Errors are rendered: ready
/// to print.
Result<std::unique_ptr<Job>> makeJob(const Options &options, const std::string &input,
                                     const std::string &text);

/// The same of one input of the command line, of which `text` was read; sets output and targets.
Result<std::unique_ptr<Job>> startJob(const Options &options, const std::string &input,
                                      const std::string &text);

/// Writes the job's output: PTX, a bundle (of its siblings too), or what is said of the kernels.
Result<void> writeJob(const Options &options, const Job &job);

} // namespace tally::ptxopt

#endif
