// persistent: a launch of as many blocks as there are workers wanted; each worker takes virtual
// blocks from a counter until there are none left or it is told to yield.
//
// What it does. The body becomes a loop's. Every way out of it (ret, exit, its end) leads to the
// loop's head, where thread 0 polls, takes an index and decodes it into shared memory, and the
// block meets.
//
//   before   <body>
//   after    if (thread 0) ++state.live_workers;
//            loop: if (thread 0) { leave = control.epoch > launch.epoch || surplus;
//                                  if (!leave) { i = atomicInc(&state.next_block);
//                                                leave = i >= launch.blocks; decode i; }
//                                  if (leave) --state.live_workers; }
//            barrier.sync;                      // all threads are done with the last block
//            read leave and the ids; slot ^= 8; // thread 0 writes the next ones in the other slot
//            if (leave) return;
//            <body, ret and exit as branches to loop>
//
// Where the slots' address would cost a register there is one place for the ids, and the block
// meets again when it has read them. In other codings, and where a thread may exit or park, the ids
// are read from shared memory at each use; then the block meets by barrier.sync before thread 0's
// turn, and once behind it. %nctaid is read from the parameters. Counters are advanced by inc and
// dec with a limit that is never reached, as ptxas turns an add into a longer, warp-wide form. What
// is rarely asked stands behind the body: thread 0 compares the control word with the one that asks
// nothing.
//
// Where part of a warp may leave the body alone (analysis/loop_plan.h, spends) a launch has a
// worker for each block, so there is no loop but in codings that ask for it:
//
//   after    if (thread 0) { leave = control.epoch > launch.epoch;
//                            if (!leave) { i = atomicInc(&state.next_block);
//                                          leave = i >= launch.blocks; decode i; } }
//            bar.sync; read leave and the ids; if (leave) return;
//            <body>
//
// In those, and where threads may leave the body while others still meet in it:
//
//   spends   each way out of the body has code of its own: if (activemask is not the whole warp)
//            { spent = 1; exit; }; the loop's head, when all have met: if (spent) leave.
//   parks    (only with spends) full-block barriers become barrier.red.or(true), and each way out
//            goes on with park: barrier.red.or(false), again while it says true, which then is the
//            meeting. With barrier reductions in the body each of these gets a second phase,
//            barrier.red.popc, for the user's value.
//   needsWholeWarpRows  before the meeting: if (%ntid.x % 32) exit;
//
// Invariants. Poll before taking: an index once taken is run, so each virtual block runs exactly
// once, whole. Thread 0 takes one while others may still be in the last block only where nothing in
// the body can end the worker. The body's threads all come to the head or really exit; no barrier
// of the body pairs with the loop's but as parking means it. Shared memory of one virtual block is
// not touched by the next before all threads have arrived; non-bulk cp.async is waited for before
// that. A worker waits for nobody. Only a greater epoch makes a launch leave blocks over: workers
// that may spend themselves are as many as blocks, and the last worker never leaves by the width.
//
// Refuses, beside what guard refuses: arrivals at barriers, barriers with a thread count and an
// unknown id, barriers or exit in callees, mbarriers, bulk copies, asynchronous matrix operations,
// setmaxnreg, stack allocation; parking and spending in modules before sm_70.
//
//   tally-ptxopt kernels.ptx --variants=persistent -S -o -
#ifndef TALLY_PTX_TRANSFORMS_PERSISTENT_PASS_H
#define TALLY_PTX_TRANSFORMS_PERSISTENT_PASS_H

#include "tally/ptx/transforms/pass.h"

namespace tally::ptx {

class PersistentPass final : public Pass {
public:
  Kind kind() const override { return Kind::Persistent; }
  std::vector<EditedText> run(const PassInput &input) const override;
  std::vector<Coding> codings(const PassInput &input) const override;
};

} // namespace tally::ptx

#endif
