// The loop of workers around a body (lib/include/tally/ptx/transforms/persistent_pass.h), for the
// kinds that have one: what they differ in is given as text.
#ifndef TALLY_LIB_PTX_TRANSFORMS_PERSISTENT_LOOP_H
#define TALLY_LIB_PTX_TRANSFORMS_PERSISTENT_LOOP_H

#include "emit.h"
#include "tally/ptx/transforms/editor.h"
#include "tally/ptx/transforms/pass.h"

#include <string>
#include <vector>

namespace tally::ptx {

/// What one kind adds to the loop, as instructions that end in "\n\t"; names as emit.h has them.
struct WorkerParts {
  std::string declarations; ///< of registers that the other parts use
  std::string blockStart;   ///< before the body, in each thread and each round
  /// What thread 0 does where the control word is not what it mostly is and the launch's epoch has
  /// not passed. %tally_d0 is the word, %tally_word its low half. Ends in a branch: to
  /// $tally_index, to take the next block; to $tally_take, to poll again; to $tally_last, to leave;
  /// or to $tally_publish, to leave when it is no longer counted as live.
  std::string asked;
  /// What thread 0 does that is no longer counted as live, before it says that the worker leaves.
  /// %tally_d2 is the launch's state. Falls through, or goes to $tally_publish.
  std::string stay;
};

/// The ways to write the loop, the default one first.
std::vector<Coding> workerCodings(const PassInput &input, Kind kind);

/// Makes the entry that `editor` edits one of `kind`. What else is edited in the body must be no
/// statement that the loop replaces: ways out, full-block barriers, calls, reads of grid registers.
void writeWorkers(FunctionEditor &editor, const PassInput &input, Kind kind,
                  const WorkerParts &parts);

/// Which virtual ids the body or a clone reads.
emit::IdWords usedIds(const PassInput &input);

/// Sets %tally_other and counts this worker among the live ones, by an instruction under a guard.
std::string enter();
/// Behind enter(), and what else thread 0 alone does once: into the loop, with %tally_other anew,
/// of what ptxas cannot know to be the same. It makes branches of some guards, and would send
/// thread 0 from the last of them to its first turn, and the others behind that; the loop had two
/// ways in then, in which ptxas does not bring the warp together before the block's meeting.
std::string toFirstTurn();
/// $tally_spent says whether threads have exited that the worker would need for another block.
/// Where a worker begins, in thread 0: none has.
std::string nobodySpent();
/// Before a thread exits so. The fence makes the word seen by those who meet after it. All that do
/// store the same; by a strong store, as two weak ones would be a race.
std::string saySpent();
/// Behind a meeting, a branch to `label`. The next to say so comes behind a later meeting.
std::string ifSpent(std::string_view label);
/// Counts it off them, behind emit::loadState() or the like.
std::string countOut();

/// What thread 0 does in each round, from $tally_take on: polls and takes an index, whose `ids` it
/// publishes, in $tally_block or `inSlot`.
std::string leaderTakes(const PassInput &input, emit::IdWords ids, bool inSlot = false);

/// All threads of the block meet. Threads arrive from every way out of the body, perhaps not as one
/// warp any more: the aligned form is undefined then (PTX ISA, barrier).
std::string meet(const PassInput &input);

/// WorkerParts::asked of a kind whose workers leave where fewer are wanted than live, if it is
/// still so when a worker is taken off the count. Workers that may spend themselves are needed for
/// the blocks that are left, each of them.
std::string leaveIfSurplus(const PassInput &input);

} // namespace tally::ptx

#endif
