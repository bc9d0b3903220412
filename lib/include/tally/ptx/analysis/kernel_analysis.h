// The facts of a kernel that a pass needs: the sound kinds, and the statements to rewrite.
#ifndef TALLY_PTX_ANALYSIS_KERNEL_ANALYSIS_H
#define TALLY_PTX_ANALYSIS_KERNEL_ANALYSIS_H

#include "tally/bundle/bundle.h"
#include "tally/ptx/analysis/checkpoint_plan.h"
#include "tally/ptx/analysis/loop_plan.h"
#include "tally/ptx/analysis/module_facts.h"
#include "tally/ptx/analysis/poll_plan.h"

#include <vector>

namespace tally::ptx {

/// Limit on static shared memory of an entry, the user's and tally's together.
inline constexpr std::uint32_t staticSharedLimit = 48 * 1024;

/// The verdict of the analyses on one kernel.
struct KernelAnalysis {
  const FunctionFacts *facts = nullptr; ///< facts of the entry itself
  std::vector<Finding> findings;        ///< the entry's and its callees', by weight and place
  const CallGraph *calls = nullptr; ///< call graph of the module; null when the entry calls nothing
  /// Callees that read grid registers, directly or through their callees: variants call their
  /// clones.
  std::vector<const Function *> cloned;
  /// The result does not depend, bit for bit, on the order in which blocks and threads run, if the
  /// kernel has no data race: the kernel has no floating-point atomics, no atomics whose result is
  /// used, no mix of reductions, and no reads of other blocks' progress, clocks or physical ids.
  bool bitwiseStable = false;
  LoopPlan loop;                ///< for kinds with workers
  std::vector<PollPoint> polls; ///< poll points in the body's loops, for pause
  CheckpointPlan checkpoint;    ///< set where Kind::Checkpoint is not refused
  bool usesClusters = false;    ///< the kernel or a callee names a cluster feature
  bool readsSharedSize = false; ///< the kernel or a callee reads %dynamic_smem_size
  /// Whether the kernel or a callee may change variables, see variable_writes.h.
  bool changesVariables = false;
  /// Bytes of tally's shared variable: 16, or 32 where clones read the ids from it. 128 where the
  /// kernel has dynamic shared memory, and 1,024 where tensor operations rely on the addresses of
  /// the user's variables: in these two cases it is aligned to its size and stands before the
  /// user's variables (docs/design/transforms.md, guard).
  std::uint32_t tallySharedBytes = 16;
  /// For guard: whether the variant can do without tally's shared variable
  /// (docs/design/transforms.md, guard), and whether it must, because the kernel reads the size of
  /// its shared memory or has none to spare.
  bool mayAvoidShared = false, mustAvoidShared = false;
  /// Class of waits of the entry and its callees; see WaitFacts.
  bundle::Waits waits = bundle::Waits::None;
  std::uint8_t gridRank = 3;
  bool waitsAreAssumed = false;        ///< see assumesInOrder
  bool copiesAsync = false;            ///< cp.async in the entry or a callee
  std::uint32_t staticSharedBytes = 0; ///< the entry's, and of variables that it or a callee names

  /// Returns the finding that refuses `kind`, or null.
  const Finding *refusal(Kind kind) const;
};

/// Analyses `function`, an entry with a body. Facts that only kinds outside of `kinds` need are not
/// computed. `assumesInOrder`: the user asserts that the kernel's blocks wait only for blocks of
/// lower linear id. `pollRules`: for kinds that poll in loops.
KernelAnalysis analyzeKernel(ModuleFacts &modules, const Function &function, KindSet kinds,
                             bool assumesInOrder = false, const PollRules &pollRules = {});

} // namespace tally::ptx

#endif
