// Whether a body can be looped over, and at what price: do all threads of a block, or of a warp,
// meet where the user's barriers and the loop's own need them to?
#ifndef TALLY_PTX_ANALYSIS_BARRIERS_H
#define TALLY_PTX_ANALYSIS_BARRIERS_H

#include "tally/ptx/analysis/function_facts.h"
#include "tally/ptx/analysis/loop_plan.h"
#include "tally/ptx/analysis/uniformity.h"

#include <vector>

namespace tally::ptx {

/// What the convergence of a kernel's body allows.
struct Convergence {
  std::vector<Finding> findings;
  LoopPlan plan;
};

/// Checks the barriers and warp operations of a kernel whose threads, in the variant, do not exit
/// but wait at a loop's head for the rest of the block. In the user's kernel a thread that has
/// exited no longer counts at a barrier or in a member mask. In the variant it still does. So:
///
/// * A full-block barrier costs nothing where all threads reach it equally often: all decisions on
///   whether it runs (its iterated control dependence, which early exits and loop exits are part
///   of, and its guard) are uniform over the block. Otherwise, or with an endless loop, where
///   post-dominance proves nothing: LoopPlan::parks, and spends with it.
/// * A barrier with a thread count never counted threads that had exited, but counts their warp
///   whole. It needs an id that the loop does not use, and no part of its warp at the loop's head.
/// * A warp operation with a member mask needs the same of its warp (CUDA C++ Programming Guide,
///   warp functions: "all non-exited threads named in mask"). Nothing to do where the decisions on
///   it are the same for the warp, or its mask names only threads that come to it: those that
///   activemask found, or that a ballot found to hold the condition it stands under. Otherwise:
///   LoopPlan::spends.
/// * `arrive` may leave an arrival pending, which the end of a block drops and a loop would not.
///
/// Both need threads of a warp that progress independently (sm_70) and activemask (PTX 6.2): older
/// modules are refused.
Convergence checkConvergence(const Module &module, const Cfg &cfg,
                             const ControlDependence &dependence, const Uniformity &uniformity,
                             const FunctionFacts &facts);

/// Whether a warp may come apart ahead of one of the body's barriers in a way after which ptxas may
/// leave it so, if it takes that barrier for a promise (docs/design/transforms.md, persistent): in
/// a loop that threads of a block may leave in different turns, in a callee, or in the loop that
/// ptxas makes of some atomics on shared memory. Behind other branches it has been seen to bring a
/// warp together.
bool mayPartWarps(const Cfg &cfg, const ControlDependence &dependence,
                  const Uniformity &uniformity);

/// Whether `module` may use activemask, and threads of a warp progress independently in its code.
bool canSpend(const Module &module);

} // namespace tally::ptx

#endif
