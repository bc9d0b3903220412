// persistent: the launch has as many blocks as workers are wanted. Each worker takes virtual blocks
// from a counter until none is left or it is told to yield.
//
// Effect. The body becomes a loop's body. Every exit from it (ret, exit, its end) leads to
// the loop's head. There thread 0 polls, takes an index and decodes it into shared memory, and the
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
// Where the address of the slots would cost a register there is a single place for the ids, and the
// block meets again when it has read them. In other codings, and where a thread may exit or park,
// each use of an id reads it from shared memory; the block then meets by barrier.sync before thread
// 0's turn, and once behind it. %nctaid is read from the parameters. Counters advance by inc and
// dec with a limit that they never reach, as ptxas turns an add into a longer, warp-wide form. Code
// for rare requests stands behind the body: thread 0 first compares the control word with the word
// that asks nothing.
//
// Where threads may leave the body without the rest of their warp (analysis/loop_plan.h, spends), a
// launch has a worker for each block, so there is no loop except in codings that ask for it:
//
//   after    if (thread 0) { leave = control.epoch > launch.epoch;
//                            if (!leave) { i = atomicInc(&state.next_block);
//                                          leave = i >= launch.blocks; decode i; } }
//            bar.sync; read leave and the ids; if (leave) return;
//            <body>
//
// In those codings, and where threads may leave the body while other threads still meet in it:
//
//   spends   each way out of the body has code of its own: if (activemask is not the whole warp)
//            { spent = 1; exit; }; the loop's head, when all have met: if (spent) leave.
//   parks    (only with spends) full-block barriers become barrier.red.or(true), and each way out
//            goes on with park: barrier.red.or(false), again while it says true, which then is the
//            meeting. With barrier reductions in the body each of these gets a second phase,
//            barrier.red.popc, for the user's value.
//   needsWholeWarpRows  before the meeting: if (%ntid.x % 32) exit;
//
// Invariants. A worker polls before it takes an index and runs each index that it has taken, so
// each virtual block runs exactly once, completely. Thread 0 takes an index while others may still
// be in the last block only where nothing in the body can end the worker. The body's threads all
// reach the head or exit. A barrier of the body pairs with the loop's barrier only as parking means
// it. The next virtual block touches shared memory only when all threads have arrived; before that
// the threads wait for non-bulk cp.async. A worker waits for no other. Only a greater epoch makes a
// launch leave blocks over: workers that may spend themselves are as many as blocks, and the width
// never makes the last worker leave.
//
// Refuses, besides what guard refuses: arrivals at barriers, barriers with a thread count and an
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
