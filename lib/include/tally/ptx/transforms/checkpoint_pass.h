// checkpoint: workers that take virtual blocks from a counter, as persistent's do, and that can
// stop inside of a block: at the head of a loop its threads save what is live, and leave; a later
// launch of the same entry goes on there.
//
// What it does, beside persistent's loop (persistent_pass.h), where a loop's head is a point
// (analysis/checkpoint_plan.h):
//
//   before   LOOP: <turn>; @more bra LOOP;
//   after    LOOP: if ((budget -= turn's cycles) < 0) {        // behind the body
//                    budget = polls' distance; asked = word read last time says so; word = control;
//                    if (asked && control says so) { save live registers, the point; leave }
//                  }
//            go:   <turn>; @more bra LOOP;
//
// The word is read one poll before it is looked at, in its low half, which is a hint: what it asks
// is looked up in the whole word before anything is saved.
//
// Where threads of a block work together they stop in one turn: `asked` is that of any of them, by
// a barrier reduction. A barrier that the loop has anyway carries it:
//
//   before   LOOP: <part>; bar.sync 0; <part>; @more bra LOOP;
//   after    LOOP: if (asked) { asked = barrier.red.or(control says so); if (asked) save, leave; }
//            go:   <part>; barrier.red.or asked, 0, word says so; word = control; <part>; ...
//
// To leave (Transfer::Save): copies in flight are waited for, the block meets, shared and local
// memory and the registers go to the worker's slot, thread 0 writes the slot's header and counts
// the worker as saved. Threads that stop one by one say so in a shared word and exit; behind the
// block's meeting at the loop's head the others look there, and if any has stopped they write that
// they had left the block, and leave. What such a thread reads of the control word goes through its
// own memory before it is judged: else ptxas draws the warps of the loop apart
// (docs/design/transforms-inside.md).
//
// To return: thread 0 finds the header of its slot and publishes that block's ids in place of a new
// one's. What was saved is loaded, the rest is made again, and each thread comes in at the head of
// the loop that it stopped at, where the first poll finds nothing asked. So it runs at least to the
// next poll, whatever the epoch says. Into a loop within others it comes by way of their heads
// (lib/ptx/transforms/saved_block.h).
//
// Invariants. One entry both saves and restores, so addresses of shared and local memory in
// registers stay what they were. A block is in one slot, or taken and running, or done. Whether a
// block saves is decided by an exact look at the word: a greater epoch, and the mode CHECKPOINT.
// The registers that a restored block holds at a point are those that it held there.
//
// Refuses, beside what persistent refuses: kernels without a loop that has such a head, values of
// the place or the time a block runs at, waits between blocks, parts of warps that leave alone.
//
//   tally-ptxopt kernels.ptx --variants=checkpoint -S -o -
#ifndef TALLY_PTX_TRANSFORMS_CHECKPOINT_PASS_H
#define TALLY_PTX_TRANSFORMS_CHECKPOINT_PASS_H

#include "tally/ptx/transforms/pass.h"

namespace tally::ptx {

class CheckpointPass final : public Pass {
public:
  Kind kind() const override { return Kind::Checkpoint; }
  std::vector<EditedText> run(const PassInput &input) const override;
  std::vector<Coding> codings(const PassInput &input) const override;
  SaveSizes saveSizes(const PassInput &input) const override;
};

} // namespace tally::ptx

#endif
