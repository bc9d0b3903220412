// What the persistent variant's loop needs so that the body's barriers and warp operations mean in
// it what they mean in the user's kernel.
#ifndef TALLY_PTX_ANALYSIS_LOOP_PLAN_H
#define TALLY_PTX_ANALYSIS_LOOP_PLAN_H

namespace tally::ptx {

/// Found by checkConvergence (barriers.h), carried out by PersistentPass. Nothing set: the threads
/// meet at the loop's head as they come.
struct LoopPlan {
  /// Warps that left the body keep taking part in its full-block barriers: each becomes a reduction
  /// that says whether anybody is still in the body. Only with `spends`.
  bool parks = false;
  /// With `parks`: the body also holds barrier reductions of its own, so each barrier has a second
  /// phase for the user's value.
  bool reduces = false;
  /// A warp goes to the loop's head only as a whole. A part of one that leaves alone really exits,
  /// and its worker takes no other virtual block.
  bool spends = false;
  /// The same, told by the block's shape: only where %ntid.x is a multiple of 32 do threads go to
  /// the loop's head; elsewhere all exit, and a worker runs one virtual block. Never with `spends`.
  bool needsWholeWarpRows = false;
  /// See mayPartWarps (barriers.h).
  bool partsWarps = false;
  /// Id of the loop's own barrier: one that the body names with no thread count.
  unsigned barrier = 0;
};

} // namespace tally::ptx

#endif
