// Whether a body can be looped over: do all threads of a block, or of a warp, meet where the
// user's barriers and the loop's own need them to?
#ifndef TALLY_PTX_ANALYSIS_BARRIERS_H
#define TALLY_PTX_ANALYSIS_BARRIERS_H

#include "tally/ptx/analysis/function_facts.h"
#include "tally/ptx/analysis/uniformity.h"

#include <vector>

namespace tally::ptx {

/// What the convergence of a kernel's body allows.
struct Convergence {
  std::vector<Finding> findings;
  /// The body may be looped over only where %ntid.x is a multiple of 32: a warp operation stands
  /// under a decision that is the warp's own only then.
  bool needsWholeWarpRows = false;
};

/// Checks the barriers of a kernel whose threads, in the variant, do not exit but wait at a loop's
/// head for the rest of the block.
///
/// In the user's kernel a thread that has exited no longer counts at a barrier. In the variant it
/// waits in one, and the hardware would pair that with a barrier of the body. So:
///
/// * Every thread must reach every block barrier of the body equally often. Sufficient: no block
///   barrier, or all decisions on whether it runs (its iterated control dependence, which early
///   exits and loop exits are part of, and its guard) are uniform over the block. Full-block forms
///   with a constant id only. With an endless loop post-dominance proves nothing: refused.
/// * A warp operation with a member mask may name threads that have exited (CUDA C++ Programming
///   Guide, warp functions: "all non-exited threads named in mask"). Sufficient: the decisions on
///   whether it runs are the same for the warp.
Convergence checkConvergence(const Cfg &cfg, const ControlDependence &dependence,
                             const Uniformity &uniformity, const FunctionFacts &facts);

} // namespace tally::ptx

#endif
