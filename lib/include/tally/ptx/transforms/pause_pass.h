// pause: persistent, with warps that also read the control word inside long loops, and nap there as
// long as the mode is PAUSE.
//
// Effect. The loop of workers is persistent's (persistent_pass.h) without its elastic width:
// where the epoch has not passed and the mode is PAUSE, thread 0 naps before it takes a block. In
// the loops that analysis/poll_sites.h selects, by the period of PollRules:
//
//   look(mode):  if (mode == PAUSE) while (mode = control.mode, mode == PAUSE) nap;
//                mode = control.mode;   // a load: the next poll tests the loaded value
//
//   Strip    L:  <an inner loop of so many turns>
//            if (p) { while (mode = control.mode, mode == PAUSE) nap; goto L; }
//            in a loop inside of another also before the first strip
//   Header   L:  <behind its label:> left -= cycles; if (left < 0) { left = period; look(mode); }
//            or  if ((i & mask) == 0) look(mode);  // i: a register that counts the turns
//            or  look(mode);                        // where one turn is as long as the period
//   Latch    <before the branch back, if (p) goto L:>
//            if ((i & mask) != 0 && p) goto L;      // or: turns -= cycles; if (turns > 0 && p)
//            if (p) look(mode);
//            if (p) goto L;
//
// Where the launch sets params.stay, a worker that takes no further block stays while other workers
// have blocks. So no SM is empty before all are: all blocks of the request would go to that SM.
//
//   last:    <thread 0, in its turn>  --state.live_workers;
//            while (control.mode == PAUSE ||
//                   (state.live_workers != 0 && control.epoch <= launch.epoch)) nap;
//            <says that the worker leaves, which the others wait for>
//
// mode, left and turns are registers of tally's, set anew for each virtual block; mode begins as
// RUN. A poll uses the mode that the poll before has loaded, so no thread waits for the load. Polls
// lie two and a half periods apart, so one sees a request after five at most. Between two strips
// the thread waits for its load; a strip is five periods long (PollRules).
//
// Invariants. The polls write only tally's registers and read the control word, so they change
// nothing of the user's. No thread leaves, so whatever the user's threads wait for, at barriers
// too, comes when the mode changes; and the mode always changes: the runtime sets a deadline. No
// poll inside a block looks at the epoch, so a block that has begun runs to its end in its launch.
// Before a block persistent's argument holds: the worker takes it under an epoch that has not
// passed, or leaves it over. A worker that stays waits only for workers that have started: it stays
// because no block is left, or because the epoch has passed and workers that start now take none.
// Workers that may spend themselves do not stay. PAUSE without a new epoch leaves no block over, so
// taking PAUSE back loses nothing.
//
// All threads of a block take the branch of a Latch together (analysis/poll_plan.h). With a
// divergent branch, threads of a warp at the poll would wait for the others to arrive there, by
// ptxas's ordering, while the others wait for them at a shuffle inside the loop.
//
// Refuses, besides what persistent refuses: kernels without a long loop, modules without nanosleep.
//
//   tally-ptxopt kernels.ptx --variants=pause -S -o -
#ifndef TALLY_PTX_TRANSFORMS_PAUSE_PASS_H
#define TALLY_PTX_TRANSFORMS_PAUSE_PASS_H

#include "tally/ptx/transforms/pass.h"

namespace tally::ptx {

class PausePass final : public Pass {
public:
  Kind kind() const override { return Kind::Pause; }
  std::vector<EditedText> run(const PassInput &input) const override;
  std::vector<Coding> codings(const PassInput &input) const override;
};

} // namespace tally::ptx

#endif
