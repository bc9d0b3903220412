// Merges variants into a fatbin: rewrites its PTX and assembles its machine code anew from the PTX.
#ifndef TALLY_TOOLS_PTXOPT_FATBIN_MERGE_H
#define TALLY_TOOLS_PTXOPT_FATBIN_MERGE_H

#include "job.h"
#include "options.h"

#include "tally/bundle/fatbin.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptxopt {

/// Why an entry is kept as it is.
enum class Kept {
  NoKernels,     ///< nothing was written for the entry's PTX
  NoMatchingPtx, ///< no PTX of the virtual architecture that the machine code was made from
  NotAssembled,  ///< no ptxas, or --no-assemble
  Rejected,      ///< ptxas or the parser rejects the PTX as it came
  Scrambled,     ///< code for link-time optimisation
  Unknown        ///< an entry of a kind that tally does not know
};

/// Returns the name in reports and messages: "no-matching-ptx".
std::string_view codeOf(Kept kept);

/// The plan for one entry.
struct EntryPlan {
  bundle::FatbinEntry entry;
  Job *job = nullptr; ///< job of the PTX; for machine code the job of its PTX; null: kept
  std::optional<Architecture> arch; ///< for machine code with a job
  Kept kept = Kept::NoKernels;      ///< for an entry without a job
  std::string message;              ///< details beyond `kept`
};

/// The plan for one container. The bytes that it was read from must outlive it.
struct FatbinPlan {
  std::string name; ///< for messages: "a.o"
  bundle::FatbinContainer container;
  std::vector<EntryPlan> entries;
  std::vector<Job *> jobs;
  std::vector<AssemblyTarget> added; ///< machine code that --arch asks for and the container lacks
  std::vector<Job *> addedFrom;      ///< the job of each added target
};

/// A merged container and the contents of its bundle.
struct MergedFatbin {
  bool changed = false; ///< else no kernel has a variant, and the container is unchanged
  std::string container;
  std::vector<bundle::Kernel> kernels;
};

/// Rewrites the PTX of a container and decides on its machine code. Appends the jobs, ready to be
/// assembled, to `jobs`.
Result<FatbinPlan> planFatbin(const Options &options, const std::string &name,
                              bundle::FatbinContainer container,
                              std::vector<std::unique_ptr<Job>> &jobs);

/// Returns the container with the assembled code.
Result<MergedFatbin> mergeFatbin(const FatbinPlan &plan);

/// Returns sentences for the user about entries with kernels that were kept.
std::vector<std::string> remarksOn(const FatbinPlan &plan);

} // namespace tally::ptxopt

#endif
