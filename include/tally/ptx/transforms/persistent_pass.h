// persistent: a launch of as many blocks as there are workers wanted; each worker takes virtual
// blocks from a counter until there are none left or it is told to yield.
//
// What it does. The body becomes a loop's. Every way out of it (ret, exit, its end) leads to the
// loop's head, where the block meets; thread 0 polls, takes an index, decodes it into shared
// memory, and the block meets again.
//
//   before   <body>
//   after    loop: barrier.sync 0;                     // all threads are done with the last block
//            if (thread 0) { leave = control.epoch > launch.epoch;
//                            if (!leave) { i = atomicInc(&state.next_block);
//                                          leave = i >= launch.blocks; decode i; } }
//            bar.sync 0; if (leave) return;
//            <body, ret and exit as branches to loop>
//
// %ctaid is read from shared memory at each use and %nctaid from the parameters: that costs fewer
// registers than keeping them. The counter is advanced by atom.inc with a limit that is never
// reached, as ptxas turns an add into a longer, warp-wide form.
//
// Invariants. Poll before taking: an index once taken is run, so each virtual block runs exactly
// once, whole. The body's threads all arrive at the head, since nothing else lets them leave; that
// no barrier of the body pairs with the loop's is shown by analysis/barriers.h. Shared memory of
// one virtual block is not touched by the next before all threads have arrived; non-bulk cp.async
// is waited for before that. A worker waits for nobody.
//
// Where a warp operation stands under a decision that is the warp's own only in rows of whole warps
// (analysis/barriers.h), a launch with another shape runs one virtual block per worker and then
// really exits. The host sees blocks left over and launches again, as after a yield.
//
// Refuses, beside what guard refuses: barriers not shown to be reached by all threads, forms of
// barriers with a count or a run-time id, masked warp operations that exited threads may be named
// in, barriers, exit or masked warp operations in callees, mbarriers, bulk copies, asynchronous
// matrix operations, setmaxnreg, stack allocation.
//
//   tally-ptxopt kernels.ptx --variants=persistent -S -o -
#ifndef TALLY_PTX_TRANSFORMS_PERSISTENT_PASS_H
#define TALLY_PTX_TRANSFORMS_PERSISTENT_PASS_H

#include "tally/ptx/transforms/pass.h"

namespace tally::ptx {

class PersistentPass final : public Pass {
public:
  Kind kind() const override { return Kind::Persistent; }
  std::vector<std::string> run(const PassInput &input) const override;
  std::vector<Coding> codings(const PassInput &input) const override;
};

} // namespace tally::ptx

#endif
