// Assembling jobs: several runs of ptxas at a time, and what to do about what ptxas rejects.
#ifndef TALLY_TOOLS_PTXOPT_ASSEMBLY_H
#define TALLY_TOOLS_PTXOPT_ASSEMBLY_H

#include "assemble.h"
#include "job.h"
#include "options.h"

#include <memory>
#include <string>
#include <vector>

namespace tally::ptxopt {

/// ptxas for one job's module and one architecture. Thread-safe.
class ModuleAssembler {
public:
  ModuleAssembler(const Assembler &assembler, const Job &job, std::uint32_t arch);

  /// `ptx` is the module's text with other entries, or a part of it.
  Result<Assembled> assemble(std::string ptx) const {
    return assembler.assemble({std::move(ptx), name, debug});
  }
  const std::string &architecture() const { return name; }

private:
  const Assembler &assembler;
  std::string name; ///< "sm_90a"
  bool debug = false;
};

/// Assembles all jobs for their architectures. Variants that ptxas rejects become failed and are
/// taken out; what it says of the module itself is an Error. Where the options let it, the first
/// architecture decides on the codings (choose.h).
Result<void> assembleJobs(const Options &options, std::vector<std::unique_ptr<Job>> &jobs);

} // namespace tally::ptxopt

#endif
