// guard: the grid is launched as it is. Each block polls once on entry; told to yield, it appends
// its id to a list and leaves. The resume entry runs the blocks of such a list.
//
// Effect. First entry: thread 0 polls. It tells the block by a reduction of the barrier at
// which all threads meet, or through a shared word. If the block yields, thread 0 appends its
// linear id to the list. The user's body follows unchanged.
//
//   before   <body>
//   after    stay = true;
//            if (thread 0) { stay = control.epoch <= launch.epoch;
//                            if (!stay) list_out[atomicAdd(&state.yielded, 1)] = linear id; }
//            if (!bar.red.and(stay)) return;
//            <body>
//
// Where everything before the body's first barrier vanishes with a block that leaves
// (analysis/opening.h), the block agrees at that barrier:
//
//   before   <loads, copies and stores to shared memory> bar.sync 0; <body>
//   after    if (thread 0) load control;
//            <loads, copies and stores to shared memory>
//            if (thread 0) shared = control.epoch > launch.epoch;
//            bar.sync 0; if (shared) { wait for copies; list it; return; }
//            <body>
//
// Where the body opens with loads of global memory, the loads and the poll are in flight together,
// and the block agrees behind them, before any visible effect. Or each warp polls for itself, and
// executes everything before the first visible effect, loops included, without a meeting:
//
//   before   <loads, arithmetic, loops> store; <body>
//   after    load control; <opening>
//            yield = any lane of the warp (control.epoch > launch.epoch);
//            if (!yield) <loops>
//            if (bar.red.or(yield)) { list it; return; }
//            store; <body>
//
// Resume entry: a row of physical blocks; the i-th stands for virtual block list_in[i]. Thread 0
// polls and decodes the linear id into shared memory. Each read of %ctaid becomes a load from
// there, each read of %nctaid the user's extent.
//
// A kernel whose blocks wait for lower blocks (analysis/waits.h) has one entry, launched as a row
// at first and to resume. Thread 0 polls and, if the block stays, takes its virtual id from a
// counter. So whichever blocks yield, the blocks that run are the lowest that have not run.
//
//   after    if (thread 0) { shared = control.epoch > launch.epoch;
//                            if (!shared) decode atomicInc(&state.next_block); }
//            bar.sync 0; if (shared) return;
//            <body>
//
// Invariants. The whole block takes one decision before any visible effect, so a block runs
// completely or not at all; if not, its id is in list_out exactly once. The variant adds no loop,
// so barriers, mbarriers, register reallocation and copies in flight behave as in the user's
// kernel. All threads meet at the variant's barrier 0 before any thread reaches a barrier of the
// body, so the body may use barrier 0 too. The shared variable has 16 bytes at an alignment of 16:
// then the user's variables behind it, dynamic shared memory included, keep the alignment that
// 16-byte accesses need even where they declare less.
//
// In clusters the first block polls for all blocks, and all threads read its flag between two
// barriers of the cluster; a list then holds ids of clusters. Beside tensor operations the shared
// variable takes 1,024 bytes, in front of all others (docs/design/transforms.md).
//
// Refuses, besides what every kind refuses: unknown opcodes, kernels that read the size of their
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
