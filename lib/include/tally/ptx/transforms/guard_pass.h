// guard: the grid is launched as it is; each block polls once on entry and, told to yield, puts its
// id on a list and leaves. The resume entry runs the blocks of such a list.
//
// What it does. First entry: thread 0 polls, tells the block by a reduction of the barrier at which
// all meet, or through a shared word, and appends the block's linear id when it yields; then the
// user's body, unchanged.
//
//   before   <body>
//   after    stay = true;
//            if (thread 0) { stay = control.epoch <= launch.epoch;
//                            if (!stay) list_out[atomicAdd(&state.yielded, 1)] = linear id; }
//            if (!bar.red.and(stay)) return;
//            <body>
//
// Where all that stands before the body's first barrier vanishes with a block that leaves
// (analysis/opening.h), the block agrees at that barrier:
//
//   before   <loads, copies and stores to shared memory> bar.sync 0; <body>
//   after    if (thread 0) load control;
//            <loads, copies and stores to shared memory>
//            if (thread 0) shared = control.epoch > launch.epoch;
//            bar.sync 0; if (shared) { wait for copies; list it; return; }
//            <body>
//
// Where the body opens with loads of global memory, these and the poll are under way together, and
// the block agrees behind them, before anything that shows. Or each warp polls for itself, and goes
// through all that stands before the first thing that shows, its loops too, without a meeting:
//
//   before   <loads, arithmetic, loops> store; <body>
//   after    load control; <opening>
//            yield = any lane of the warp (control.epoch > launch.epoch);
//            if (!yield) <loops>
//            if (bar.red.or(yield)) { list it; return; }
//            store; <body>
//
// Resume entry: a row of physical blocks, the i-th of which stands for virtual block list_in[i].
// Thread 0 polls and decodes the linear id into shared memory; each read of %ctaid becomes a load
// from there, each read of %nctaid the user's extent.
//
// Of a kernel whose blocks wait for lower ones (analysis/waits.h) there is one entry, launched as a
// row, at first and to resume: thread 0 polls and, if the block stays, takes its virtual id from a
// counter. So whatever yields, the blocks that run are the lowest that have not run.
//
//   after    if (thread 0) { shared = control.epoch > launch.epoch;
//                            if (!shared) decode atomicInc(&state.next_block); }
//            bar.sync 0; if (shared) return;
//            <body>
//
// Invariants. The decision is taken before anything shows and once for the whole block, so a block
// runs whole or not at all; its id then is in list_out exactly once. Nothing loops, so what a body
// does with barriers, mbarriers, register reallocation or copies in flight is as in the user's
// kernel. All threads stand at the variant's barrier 0 before any thread comes to one of the
// body's, which so may be the same. The shared variable has 16 bytes at an alignment of 16 so that
// the user's variables behind it, dynamic ones included, keep the alignment that 16-byte accesses
// need even where they declare less.
//
// In clusters the first block polls for all, and all threads read its flag between two barriers of
// the cluster; a list's id is a cluster's. Beside tensor operations the shared variable takes 1,024
// bytes, before all others (docs/design/transforms.md).
//
// Refuses, beside what every kind refuses: unknown opcodes, kernels that read the size of their
// shared memory, and static shared memory at the limit.
//
//   tally-ptxopt kernels.ptx --variants=guard -S -o -
#ifndef TALLY_PTX_TRANSFORMS_GUARD_PASS_H
#define TALLY_PTX_TRANSFORMS_GUARD_PASS_H

#include "tally/ptx/transforms/pass.h"

namespace tally::ptx {

class GuardPass final : public Pass {
public:
  Kind kind() const override { return Kind::Guard; }
  std::vector<EditedText> run(const PassInput &input) const override;
  std::vector<Coding> codings(const PassInput &input) const override;
};

} // namespace tally::ptx

#endif
