// All that a pass needs to know of a kernel: which kinds are sound, and what to rewrite.
#ifndef TALLY_PTX_ANALYSIS_KERNEL_ANALYSIS_H
#define TALLY_PTX_ANALYSIS_KERNEL_ANALYSIS_H

#include "tally/bundle/bundle.h"
#include "tally/ptx/analysis/checkpoint_plan.h"
#include "tally/ptx/analysis/loop_plan.h"
#include "tally/ptx/analysis/module_facts.h"
#include "tally/ptx/analysis/poll_plan.h"

#include <vector>

namespace tally::ptx {

/// Static shared memory of an entry, the user's and tally's.
inline constexpr std::uint32_t staticSharedLimit = 48 * 1024;

/// The verdict of the analyses on one kernel.
struct KernelAnalysis {
  const FunctionFacts *facts = nullptr; ///< of the entry itself
  std::vector<Finding> findings;        ///< the entry's and its callees', by weight and place
  const CallGraph *calls = nullptr;     ///< of the module; null when the entry calls nothing
  /// Callees that read grid registers, or call who does: variants call clones of them.
  std::vector<const Function *> cloned;
  /// The result does not depend on the order in which blocks and threads run, bit for bit, if the
  /// kernel has no data race: no floating-point atomics, no atomics whose result is used, no mix of
  /// reductions, no reads of other blocks' progress, clocks or places.
  bool bitwiseStable = false;
  LoopPlan loop;                 ///< for kinds with workers
  std::vector<PollPoint> polls;  ///< for pause: in the body's loops
  CheckpointPlan checkpoint;     ///< where that kind is not refused
  bool usesClusters = false;     ///< the kernel or a callee names a cluster feature
  bool readsSharedSize = false;  ///< likewise, reads %dynamic_smem_size
  bool changesVariables = false; ///< likewise, see variable_writes.h
  /// Bytes of tally's shared variable: 16, or 32 where clones read the ids from it; 128 where the
  /// kernel has dynamic shared memory, and 1,024 where tensor operations rely on where the user's
  /// variables lie: these two are aligned so, and stand before the user's
  /// (docs/design/transforms.md, guard).
  std::uint32_t tallySharedBytes = 16;
  /// guard: can do without tally's shared variable (docs/design/transforms.md, guard); must, as
  /// the kernel reads the size of its shared memory or leaves no room.
  bool mayAvoidShared = false, mustAvoidShared = false;
  bundle::Waits waits = bundle::Waits::None; ///< of the entry and its callees; see WaitFacts
  std::uint8_t gridRank = 3;
  bool waitsAreAssumed = false;        ///< see assumesInOrder
  bool copiesAsync = false;            ///< cp.async in the entry or a callee
  std::uint32_t staticSharedBytes = 0; ///< of the entry and what it and its callees name

  /// The finding that refuses `kind`, or null.
  const Finding *refusal(Kind kind) const;
};

/// Analyses `function`, an entry with a body. `kinds` says which kinds are asked for: what only
/// others need is not computed. `assumesInOrder`: the user says that the kernel's blocks wait only
/// for blocks of lower linear id. `pollRules`: for kinds that poll in loops.
KernelAnalysis analyzeKernel(ModuleFacts &modules, const Function &function, KindSet kinds,
                             bool assumesInOrder = false, const PollRules &pollRules = {});

} // namespace tally::ptx

#endif
