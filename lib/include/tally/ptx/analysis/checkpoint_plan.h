// Where a block of a kernel may stop, what it has to save there, and how its threads agree on it.
#ifndef TALLY_PTX_ANALYSIS_CHECKPOINT_PLAN_H
#define TALLY_PTX_ANALYSIS_CHECKPOINT_PLAN_H

#include "tally/ptx/analysis/poll_sites.h"
#include "tally/ptx/ir/module.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace tally::ptx {

/// Where something can be done for all that enter a loop, and for nobody that goes round it.
struct Entrance {
  /// The first of the head's labels, where no way round the loop falls through to them.
  std::optional<std::uint32_t> label;
  std::vector<std::uint32_t> branches; ///< into the loop, to one of these labels
};

/// The head of a loop, where a thread stops and later goes on.
struct SavePoint {
  std::uint32_t statement = 0; ///< the first of the loop's header behind its label
  /// A barrier of the whole block in the loop that carries the poll; without one the block, or the
  /// thread, polls for itself at the loop's head.
  std::optional<std::uint32_t> barrier;
  std::uint32_t turns = 1;      ///< of which one polls
  std::uint32_t turnCycles = 1; ///< what one turn is estimated to take
  StripLoop strip;              ///< of so many turns, where there can be; no barrier then
  /// The next loop around this one, by its number in CheckpointPlan::passages.
  std::optional<unsigned> passage;
  TurnRegister turn; ///< tells that turn, where there is one
  /// Of the registers that are live there, first those that stand in one operand together, as a
  /// matrix operation's do, in the order in which the loop reads them: ptxas moves neighbouring
  /// words together, and an order that is not theirs costs moves in each turn.
  std::vector<RegisterId> saved;
  /// Of those, what is one value for the block, ascending; none unless
  /// CheckpointPlan::keepsAligned.
  std::vector<RegisterId> alike;
  std::vector<std::uint32_t> recomputed; ///< statements that make the others anew, in order
  Entrance entrance;                     ///< of the loop: before it they stand
};

/// A loop around the loops of points. Who goes on at one of those comes in at this loop's head, as
/// everybody does, and from there straight to the inner loop. So the variant's loops have one head
/// each, as the user's have.
struct Passage {
  std::uint32_t statement = 0;    ///< the first of the loop's header behind its label
  std::optional<unsigned> around; ///< the next one around it, by its number
  std::optional<unsigned> point;  ///< at this loop's head, where there is one

  /// Registers that are live at its head, ascending: who goes on inside has them before the loop.
  std::vector<RegisterId> live;

  // Of an outermost one:
  Entrance entrance;
  /// As SavePoint::recomputed, for points inside: what parameters, ids and constants make.
  std::vector<std::uint32_t> recomputed;
};

/// How a kernel is checkpointed. No points: it is refused.
struct CheckpointPlan {
  /// The block's threads stop at one point together, since they share memory or synchronise;
  /// otherwise each stops where it polls.
  bool byBlock = false;
  /// Each loop of the body has one head, and so has each of the variant.
  bool keepsAligned = false;
  std::vector<SavePoint> points; ///< by place
  std::vector<Passage> passages; ///< outer before inner
  /// Shared variables of known size that the kernel or a callee names, and one of those whose size
  /// the launch says: they all begin at one place.
  std::vector<const Variable *> shared;
  const Variable *dynamicShared = nullptr;
  std::vector<const Variable *> local; ///< the entry's own
};

} // namespace tally::ptx

#endif
