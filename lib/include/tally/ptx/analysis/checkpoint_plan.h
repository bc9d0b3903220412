// The places where a block of a kernel may stop, the values that it saves there, and the agreement
// of its threads to stop.
#ifndef TALLY_PTX_ANALYSIS_CHECKPOINT_PLAN_H
#define TALLY_PTX_ANALYSIS_CHECKPOINT_PLAN_H

#include "tally/ptx/analysis/poll_sites.h"
#include "tally/ptx/ir/module.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace tally::ptx {

/// A place in front of a loop: control passes it when it enters the loop, and not between turns.
struct Entrance {
  /// The first label of the loop's head, where no block of the loop falls through to the head.
  std::optional<std::uint32_t> label;
  std::vector<std::uint32_t> branches; ///< branches into the loop, to one of the head's labels
};

/// The head of a loop, where a thread stops and later resumes.
struct SavePoint {
  std::uint32_t statement = 0; ///< the first statement of the loop's header behind its label
  /// A barrier of the whole block in the loop that carries the poll. Without it the block, or the
  /// thread, polls at the loop's head.
  std::optional<std::uint32_t> barrier;
  std::uint32_t turns = 1;      ///< one turn in this many polls
  std::uint32_t turnCycles = 1; ///< estimated cycles of one turn
  StripLoop strip;              ///< strips, where the loop can be cut; then there is no `barrier`
  /// The innermost loop around this loop, an index into CheckpointPlan::passages.
  std::optional<unsigned> passage;
  TurnRegister turn; ///< tells the turn that polls, where there is such a register
  /// The live registers that the block saves. First come registers of one operand, such as a matrix
  /// operation's, in the order in which the loop reads them: ptxas moves neighbouring words
  /// together, and any other order costs moves in each turn.
  std::vector<RegisterId> saved;
  /// The registers of `saved` with one value for the block, ascending; empty unless
  /// CheckpointPlan::keepsAligned.
  std::vector<RegisterId> alike;
  std::vector<std::uint32_t> recomputed; ///< statements that compute the others, in order
  Entrance entrance; ///< entrance of the loop; the recomputed statements stand before it
};

/// A loop around the loops of points. A block that resumes at an inner point enters this loop at
/// its head, as every block does, and branches from there to the inner loop. So each loop of the
/// variant has one head, as in the user's kernel.
struct Passage {
  std::uint32_t statement = 0;    ///< the first statement of the loop's header behind its label
  std::optional<unsigned> around; ///< the innermost passage around this passage, by index
  std::optional<unsigned> point;  ///< the point at this loop's head, if any, by index

  /// Live registers at the head, ascending. A block that resumes inside has them before the loop.
  std::vector<RegisterId> live;

  // For an outermost passage:
  Entrance entrance;
  /// Like SavePoint::recomputed, for points inside: values made of parameters, ids and constants.
  std::vector<std::uint32_t> recomputed;
};

/// The plan for a kernel's checkpoints. Without points the kernel is refused.
struct CheckpointPlan {
  /// The block's threads stop together at one point, since they share memory or synchronise.
  /// Otherwise each thread stops where it polls.
  bool byBlock = false;
  /// Each loop of the body has a single head, and so has each loop of the variant.
  bool keepsAligned = false;
  std::vector<SavePoint> points; ///< points by position in the text
  std::vector<Passage> passages; ///< outer before inner
  /// Shared variables of known size that the kernel or a callee names, and `dynamicShared`, one of
  /// the variables whose size the launch sets: these all begin at one address.
  std::vector<const Variable *> shared;
  const Variable *dynamicShared = nullptr;
  std::vector<const Variable *> local; ///< the entry's own local variables
};

} // namespace tally::ptx

#endif
