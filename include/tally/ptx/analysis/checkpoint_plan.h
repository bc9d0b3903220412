// Where a block of a kernel may stop, what it has to save there, and how its threads agree on it.
#ifndef TALLY_PTX_ANALYSIS_CHECKPOINT_PLAN_H
#define TALLY_PTX_ANALYSIS_CHECKPOINT_PLAN_H

#include "tally/ptx/analysis/poll_sites.h"
#include "tally/ptx/ir/module.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace tally::ptx {

/// The head of a loop, where a thread stops and later goes on.
struct SavePoint {
  std::uint32_t statement = 0; ///< the first of the loop's header behind its label
  /// A barrier of the whole block in the loop that carries the poll; without one the block, or the
  /// thread, polls for itself at the loop's head.
  std::optional<std::uint32_t> barrier;
  std::uint32_t turns = 1;      ///< of which one polls
  std::uint32_t turnCycles = 1; ///< what one turn is estimated to take
  StripLoop strip;              ///< of so many turns, where there can be; no barrier then
  /// Points, by their number in the plan, whose strips are of loops around this one's: who goes on
  /// here does not come by where they begin.
  std::vector<unsigned> stripsAround;
  TurnRegister turn; ///< tells that turn, where there is one
  /// Of the registers that are live there, first those that stand in one operand together, as a
  /// matrix operation's do, in the order in which the loop reads them: ptxas moves neighbouring
  /// words together, and an order that is not theirs costs moves in each turn.
  std::vector<RegisterId> saved;
  /// Of those, what is one value for the block, ascending; none unless
  /// CheckpointPlan::keepsAligned.
  std::vector<RegisterId> alike;
  std::vector<std::uint32_t> recomputed; ///< statements that make the others anew, in order
  /// The first of the head's labels, where no way round the loop falls through to them: what is
  /// recomputed stands before it, for those who enter the loop and those who go on in it alike.
  std::optional<std::uint32_t> entrance;
  std::vector<std::uint32_t> entering; ///< branches into the loop to one of these labels
};

/// How a kernel is checkpointed. No points: it is refused.
struct CheckpointPlan {
  /// The block's threads stop at one point together, since they share memory or synchronise;
  /// otherwise each stops where it polls.
  bool byBlock = false;
  /// The loops of all points stand in no other loop of the body, and each loop of the body has one
  /// head: who goes on at a point makes no loop one that is entered at two places.
  bool keepsAligned = false;
  std::vector<SavePoint> points; ///< by place
  /// Shared variables of known size that the kernel or a callee names, and one of those whose size
  /// the launch says: they all begin at one place.
  std::vector<const Variable *> shared;
  const Variable *dynamicShared = nullptr;
  std::vector<const Variable *> local; ///< the entry's own
};

} // namespace tally::ptx

#endif
