// Assembles jobs: several runs of ptxas at a time, and the handling of code that ptxas rejects.
#ifndef TALLY_TOOLS_PTXOPT_ASSEMBLY_H
#define TALLY_TOOLS_PTXOPT_ASSEMBLY_H

#include "assemble.h"
#include "job.h"
#include "options.h"

#include <memory>
#include <string>
#include <vector>

namespace tally::ptxopt {

/// Runs ptxas for one job's module and one architecture. Thread-safe.
class ModuleAssembler {
public:
  ModuleAssembler(const Assembler &assembler, const AssemblyTarget &target)
      : assembler(assembler), target(target) {}

  /// `ptx` is the module's text with other entries, or a part of the text.
  Result<Assembled> assemble(std::string ptx) const {
    return assembler.assemble({std::move(ptx), target});
  }
  const Architecture &architecture() const { return target.arch; }

private:
  const Assembler &assembler;
  const AssemblyTarget &target;
};

/// Returns the targets of a module that came as PTX: those of --arch, else sm_90 or the module's
/// own.
Result<std::vector<AssemblyTarget>> targetsOf(const Options &options, const Job &job);

/// Assembles all jobs for their targets. A variant that ptxas rejects becomes failed and is taken
/// out. If ptxas rejects the module itself, its message is an Error or, with Job::keepsMachineCode,
/// kept in the job. Where the options allow it, the first target decides on the codings (choose.h).
Result<void> assembleJobs(const Options &options, std::vector<std::unique_ptr<Job>> &jobs);

} // namespace tally::ptxopt

#endif
