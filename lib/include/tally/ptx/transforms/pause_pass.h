// pause: persistent, whose warps also look at the control word inside of long loops, and nap where
// they are for as long as its mode says so.
//
// What it does. The loop of workers is persistent's (persistent_pass.h) without its elastic width:
// where the epoch has not passed and the mode is PAUSE, thread 0 naps before it takes a block. In
// the loops that analysis/poll_sites.h names, by the period of PollRules:
//
//   look(mode):  if (mode == PAUSE) while (mode = control.mode, mode == PAUSE) nap;
//                mode = control.mode;   // a load: what it gives is looked at by the next poll
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
// Where the launch says so (params.stay) a worker that takes no further block stays while others
// have some, so that no SM is emptied before all are: the request's blocks would all go there.
//
//   last:    <thread 0, in its turn>  --state.live_workers;
//            while (control.mode == PAUSE ||
//                   (state.live_workers != 0 && control.epoch <= launch.epoch)) nap;
//            <says that the worker leaves, which the others wait for>
//
// mode, left and turns are registers of tally's, set anew for each virtual block; mode begins as
// RUN. A poll uses what the one before it has loaded, so nobody waits for the load, and a request
// is seen after two periods at most; between two strips it waits for it, and strips are five long.
//
// Invariants. Nothing of the user's is changed: the polls write tally's registers and read the
// control word. Nobody leaves, so whatever the user's threads wait for, at barriers too, comes when
// the mode changes, and the mode always does: the runtime sets a deadline. No epoch is looked at
// inside of a block, so a block that has begun runs to its end in the launch that began it. Before
// a block persistent's argument holds: it is taken under an epoch that has not passed, or left
// over. Who stays waits for workers that have started, and for none that has not: it stays since no
// block is left, or the epoch has passed and those that start now take none. Workers that may spend
// themselves do not stay. Since PAUSE without a new epoch leaves no block over, taking it back
// loses nothing.
//
// The branch of a Latch is taken by all threads of a block together (analysis/poll_plan.h). With
// one that is not, threads of a warp that have come to the poll would wait for the others to come
// there too, by ptxas's ordering, while those wait for them at a shuffle inside of the loop.
//
// Refuses, beside what persistent refuses: kernels without a long loop, modules without nanosleep.
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
