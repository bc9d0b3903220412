// Checks whether a kernel's body can run in a loop, and at what cost: all threads of a block, or of
// a warp, must meet where the user's barriers and the loop's own barrier need them.
#ifndef TALLY_PTX_ANALYSIS_BARRIERS_H
#define TALLY_PTX_ANALYSIS_BARRIERS_H

#include "tally/ptx/analysis/function_facts.h"
#include "tally/ptx/analysis/loop_plan.h"
#include "tally/ptx/analysis/uniformity.h"

#include <vector>

namespace tally::ptx {

/// The result of the check of a kernel's convergence.
struct Convergence {
  std::vector<Finding> findings;
  LoopPlan plan;
};

/// Checks the barriers and warp operations of a kernel. In the user's kernel a thread that has
/// exited no longer counts at a barrier or in a member mask. In the variant the thread does not
/// exit but waits at the loop's head for the rest of the block, so it still counts. So:
///
/// * A full-block barrier costs nothing where all threads reach it equally often: every decision on
///   whether it runs (its guard, and its iterated control dependence, which includes early exits
///   and loop exits) is uniform over the block. Otherwise, or with an endless loop, where
///   post-dominance proves nothing, the variant needs LoopPlan::parks and with it LoopPlan::spends.
/// * A barrier with a thread count never counted exited threads, but it counts whole warps. It
///   needs an id that the loop does not use, and no part of its warp may be at the loop's head.
/// * A warp operation with a member mask needs the same of its warp (CUDA C++ Programming Guide,
///   warp functions: "all non-exited threads named in mask"). It needs no change where the
///   decisions on it are the same for the warp, or where its mask names only threads that come to
///   it: the threads that activemask found, or the threads for which a ballot found the condition
///   that it stands under. Otherwise the variant needs LoopPlan::spends.
/// * `arrive` may leave an arrival pending; the end of a block drops it, and a loop would not.
///
/// LoopPlan::parks and LoopPlan::spends need threads of a warp that progress independently (sm_70)
/// and activemask (PTX 6.2): older modules are refused.
Convergence checkConvergence(const Module &module, const Cfg &cfg,
                             const ControlDependence &dependence, const Uniformity &uniformity,
                             const FunctionFacts &facts);

/// Whether a warp may diverge ahead of one of the body's barriers such that ptxas may leave it
/// diverged if it takes that barrier for a promise of convergence (docs/design/transforms.md,
/// persistent). That can happen in a loop that threads of a block may leave in different turns, in
/// a callee, or in the loop that ptxas makes of some atomics on shared memory. Behind other
/// branches ptxas has been seen to reconverge the warp.
bool mayPartWarps(const Cfg &cfg, const ControlDependence &dependence,
                  const Uniformity &uniformity);

/// Whether `module` may use activemask, and threads of a warp progress independently in its code.
bool canSpend(const Module &module);

} // namespace tally::ptx

#endif
