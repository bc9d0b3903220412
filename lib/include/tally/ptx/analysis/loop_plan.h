// The code that the persistent variant's loop needs so that the body's barriers and warp operations
// keep their meaning of the user's kernel.
#ifndef TALLY_PTX_ANALYSIS_LOOP_PLAN_H
#define TALLY_PTX_ANALYSIS_LOOP_PLAN_H

namespace tally::ptx {

/// checkConvergence (barriers.h) makes the plan, and PersistentPass carries it out. With nothing
/// set the threads meet at the loop's head as they come.
struct LoopPlan {
  /// Warps that left the body still take part in its full-block barriers: each barrier becomes a
  /// reduction that tells whether any thread is still in the body. Only with `spends`.
  bool parks = false;
  /// With `parks`: the body also holds barrier reductions of its own, so each barrier has a second
  /// phase for the user's value.
  bool reduces = false;
  /// A warp goes to the loop's head only as a whole. Threads that leave without the rest of their
  /// warp exit, and their worker takes no other virtual block.
  bool spends = false;
  /// Like `spends`, decided by the block's shape: threads go to the loop's head only where %ntid.x
  /// is a multiple of 32; elsewhere all exit, and a worker runs one virtual block. Never with
  /// `spends`.
  bool needsWholeWarpRows = false;
  /// See mayPartWarps (barriers.h).
  bool partsWarps = false;
  /// Id of the loop's own barrier: the body names this id with no thread count.
  unsigned barrier = 0;
};

} // namespace tally::ptx

#endif
