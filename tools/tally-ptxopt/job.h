// One input of the tool and its results.
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

/// An input, its kernels, and the code that ptxas made of them.
struct Job {
  std::string input;  ///< as given
  std::string part;   ///< for a container: which of its PTX, "compute_90"
  std::string output; ///< path, "-" for standard output; empty: written as part of another file
  ptx::Module module;
  std::vector<ptx::RewrittenKernel> kernels;
  std::uint64_t sourceHash = 0; ///< bundle::hashOf() of the input
  std::vector<AssemblyTarget> targets;
  std::map<Architecture, Assembled> assembled;
  /// Registers of the compiler's machine code, by function, where that code is available.
  std::map<Architecture, std::map<std::string, std::uint32_t, std::less<>>> usersRegisters;

  /// For a fatbin's entry: machine code exists as a fallback, so a module that ptxas rejects is no
  /// Error.
  bool keepsMachineCode = false;
  std::map<Architecture, std::string> rejected; ///< then: ptxas's message on the module itself
  /// Jobs of the other PTX in the same fatbin, or of the same LLVM module. All siblings have a
  /// kernel's variant or none has it, since the driver chooses which is loaded.
  std::vector<Job *> siblings;

  Job(std::string input, ptx::Module module) : input(std::move(input)), module(std::move(module)) {}

  /// Whether any kernel has a variant.
  bool hasVariants() const {
    for (const ptx::RewrittenKernel &kernel : kernels)
      for (const ptx::Variant &variant : kernel.variants)
        if (variant.verdict.status == Status::Emitted)
          return true;
    return false;
  }
};

/// Parses and rewrites the PTX `text`, which messages call `input`. Errors are rendered: ready to
/// print.
Result<std::unique_ptr<Job>> makeJob(const Options &options, const std::string &input,
                                     const std::string &text);

/// Makes the job of one input of the command line, whose contents are `text`; sets output and
/// targets.
Result<std::unique_ptr<Job>> startJob(const Options &options, const std::string &input,
                                      const std::string &text);

/// Writes the job's output: PTX, a bundle (of its siblings too), or the description of the kernels.
Result<void> writeJob(const Options &options, const Job &job);

} // namespace tally::ptxopt

#endif
