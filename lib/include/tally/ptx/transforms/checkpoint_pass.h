// checkpoint: workers that take virtual blocks from a counter, as in persistent, and that can stop
// inside a block. At the head of a loop the block's threads save the live registers and memory, and
// leave. A later launch of the same entry resumes there.
//
// Effect besides persistent's loop (persistent_pass.h), where a loop's head is a save point
// (analysis/checkpoint_plan.h):
//
//   before   LOOP: <turn>; @more bra LOOP;
//   after    LOOP: if ((budget -= turn's cycles) < 0) {        // behind the body
//                    budget = polls' distance; asked = word read last time says so; word = control;
//                    if (asked && control says so) { save live registers, the point; leave }
//                  }
//            go:   <turn>; @more bra LOOP;
//
// A poll looks at the word that the poll before has read. It looks at the low half only, as a hint:
// before the block saves anything, it reads the whole word.
//
// Where threads of a block work together they stop in one turn: a barrier reduction sets `asked` if
// any thread saw the request. If the loop has a barrier of its own, that barrier carries the
// reduction:
//
//   before   LOOP: <part>; bar.sync 0; <part>; @more bra LOOP;
//   after    LOOP: if (asked) { asked = barrier.red.or(control says so); if (asked) save, leave; }
//            go:   <part>; barrier.red.or asked, 0, word says so; word = control; <part>; ...
//
// To leave (Transfer::Save): the thread waits for copies in flight and the block meets. Shared and
// local memory and the registers go to the worker's slot. Thread 0 writes the slot's header and
// counts the worker as saved. A thread that stops alone sets a shared word and exits. Behind the
// block's meeting at the loop's head the other threads read that word; if it is set they record
// that they had left the block, and leave. A thread that stops alone passes the control word
// through its own memory before it tests it: otherwise ptxas lets the warps of the loop diverge
// (docs/design/transforms-inside.md).
//
// To return: thread 0 finds the header of its slot and publishes the saved block's ids in place of
// a new block's. Each thread loads what it saved, recomputes the rest, and continues at the head of
// the loop at which it stopped, where the first poll finds no request. So it runs at least to the
// next poll, whatever the epoch is. It enters a nested loop through the heads of the enclosing
// loops (lib/ptx/transforms/saved_block.h).
//
// Invariants. One entry both saves and restores, so addresses of shared and local memory in
// registers stay valid. A block is in one slot, or taken and running, or done. A block saves only
// after an exact look at the word: a greater epoch, and the mode CHECKPOINT. At a point a restored
// block holds the same register values as before.
//
// Refuses, besides what persistent refuses: kernels without a loop with such a head, values that
// depend on the SM or the time, waits between blocks, threads that leave without the rest of their
// warp.
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
