// The loop of workers around a body (lib/include/tally/ptx/transforms/persistent_pass.h). Each kind
// with workers passes its differences as text.
#ifndef TALLY_LIB_PTX_TRANSFORMS_PERSISTENT_LOOP_H
#define TALLY_LIB_PTX_TRANSFORMS_PERSISTENT_LOOP_H

#include "emit.h"
#include "tally/ptx/transforms/editor.h"
#include "tally/ptx/transforms/pass.h"

#include <string>
#include <vector>

namespace tally::ptx {

/// The parts that one kind adds to the loop, as instructions that end in "\n\t"; names as in
/// emit.h.
struct WorkerParts {
  std::string declarations; ///< declarations of the registers that the other parts use
  std::string blockStart;   ///< before the body, in each thread and each round
  /// Thread 0's code where the control word does not have its usual value and the launch's epoch
  /// has not passed. %tally_d0 is the word, %tally_word its low half. Ends in a branch: to
  /// $tally_index, to take the next block; to $tally_take, to poll again; to $tally_last, to leave;
  /// or to $tally_publish, to leave when the worker no longer counts as live.
  std::string asked;
  /// Code of a thread 0 whose worker no longer counts as live, before it publishes that the worker
  /// leaves. %tally_d2 is the launch's state. Falls through, or goes to $tally_publish.
  std::string stay;
};

/// Returns the ways to write the loop, the default first.
std::vector<Coding> workerCodings(const PassInput &input, Kind kind);

/// Makes the entry that `editor` edits an entry of `kind`. Other edits of the body must not touch
/// statements that the loop replaces: ret, exit, full-block barriers, calls, reads of grid
/// registers.
void writeWorkers(FunctionEditor &editor, const PassInput &input, Kind kind,
                  const WorkerParts &parts);

/// Returns the virtual ids that the body or a clone reads.
emit::IdWords usedIds(const PassInput &input);

/// Sets %tally_other and counts this worker as live, by an instruction under a guard.
std::string enter();
/// Stands behind enter() and other code that thread 0 runs once: leads into the loop, and sets
/// %tally_other again, from values that ptxas cannot know to be the same. ptxas turns some guards
/// into branches, and would send thread 0 from the last of them to its first turn, and the other
/// threads behind that. The loop would then have two entrances, and ptxas would not reconverge the
/// warp before the block's meeting.
std::string toFirstTurn();
/// $tally_spent tells whether threads have exited that the worker would need for another block.
/// Thread 0 clears it when a worker begins.
std::string nobodySpent();
/// Sets $tally_spent before a thread exits. The fence makes the word visible to threads that meet
/// later. All such threads store the same value, by a strong store: two weak stores would be a
/// race.
std::string saySpent();
/// Behind a meeting: branches to `label` if $tally_spent is set. The next store to it comes behind
/// a later meeting.
std::string ifSpent(std::string_view label);
/// Counts the worker off the live workers, behind emit::loadState() or similar.
std::string countOut();

/// Thread 0's code in each round, from $tally_take on: polls, takes an index, and publishes its
/// `ids`, in $tally_block or `inSlot`.
std::string leaderTakes(const PassInput &input, emit::IdWords ids, bool inSlot = false);

/// All threads of the block meet. Threads arrive from every exit of the body, perhaps not as one
/// warp: the aligned form would then be undefined (PTX ISA, barrier).
std::string meet(const PassInput &input);

/// WorkerParts::asked for a kind whose workers leave where fewer are wanted than live, if that
/// still holds when the worker is counted off. Workers that may spend themselves never leave so:
/// each is needed for one of the remaining blocks.
std::string leaveIfSurplus(const PassInput &input);

} // namespace tally::ptx

#endif
