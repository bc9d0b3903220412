// A fatbin with variants in it: its PTX rewritten, its machine code assembled anew from that.
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
  Unknown        ///< of a kind that tally does not know
};

/// As reports and messages name it: "no-matching-ptx".
std::string_view codeOf(Kept kept);

/// What becomes of one entry.
struct EntryPlan {
  bundle::FatbinEntry entry;
  Job *job = nullptr;               ///< of PTX its own; of machine code that of its PTX; null: kept
  std::optional<Architecture> arch; ///< of machine code that has a job
  Kept kept = Kept::NoKernels;      ///< without a job
  std::string message;              ///< what there is to say beyond `kept`
};

/// What becomes of one container. The bytes that it was read from must outlive it.
struct FatbinPlan {
  std::string name; ///< for messages: "a.o"
  bundle::FatbinContainer container;
  std::vector<EntryPlan> entries;
  std::vector<Job *> jobs;
  std::vector<AssemblyTarget> added; ///< machine code that --arch asks for beyond what is there
  std::vector<Job *> addedFrom;      ///< of each of those
};

/// A merged container, and what a bundle says of it.
struct MergedFatbin {
  bool changed = false; ///< else no kernel has a variant, and the container is as it was
  std::string container;
  std::vector<bundle::Kernel> kernels;
};

/// Rewrites the PTX of a container and decides on its machine code. The jobs made are put behind
/// `jobs`, ready to be assembled.
Result<FatbinPlan> planFatbin(const Options &options, const std::string &name,
                              bundle::FatbinContainer container,
                              std::vector<std::unique_ptr<Job>> &jobs);

/// The container with what was assembled.
Result<MergedFatbin> mergeFatbin(const FatbinPlan &plan);

/// Sentences about entries that were kept though there are kernels in them, for the user to read.
std::vector<std::string> remarksOn(const FatbinPlan &plan);

} // namespace tally::ptxopt

#endif
