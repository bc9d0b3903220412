// When a run is asked to yield, under which schedule, and how its launches are shaped: everything
// that one run of a variant depends on, so that a failing run can be named and repeated.
//
// The requests that `--yield=every` makes:
//  - At(k), for each k below the number of polls of a quiet run: raised at the k-th poll of the
//    whole grid, withdrawn only when the launch has left.
//  - Always: every launch is asked at every poll. A launch that is denied its first poll runs
//    nothing, and all later launches would run nothing either. So launches alternate: one is denied
//    every poll (and must lose nothing), the next passes its first poll and is denied all others.
//    So each second launch runs one block and the run ends.
//  - RaisedAndWithdrawn(k), for each k: raised at poll k, withdrawn at poll k + 1, while the launch
//    is still running. A random schedule, another for each k. For persistent once more with a
//    single worker: of several workers, the workers that miss so short a request finish the grid.
//  - Random(seed), 20 times: at each poll the request is raised or withdrawn with a probability
//    drawn from the seed, under a random schedule of warps and blocks. Every third launch passes
//    its first poll, so that the run ends.
//  - Widths(seed), 20 times, for persistent: as Random, and the workers wanted change at random
//    too: from none to more than there are, or no limit. Every third launch passes its first poll
//    without a limit, so that the run ends.
//  - LateWrite(k), for k = 0, the middle, and never: the control word is behind the launch's epoch
//    until poll k. No block may yield: the request that wrote the word is over.
//  - Pause(k), for pause and each k (at most 64 of them): the mode is PAUSE from poll k until some
//    tens of polls later, under the word's old epoch. No worker may leave a block over. Again and
//    again with random schedules, and with one worker.
//  - PauseAndRaise(k), likewise: a request under which the mode is PAUSE; after some tens of polls
//    it becomes LEAVE or RUN, so that all napping workers finish their blocks and leave.
//  - Modes(seed), 20 times, for pause: as Random, and the mode changes at random too.
// `slice` has no polls and yields between slices: a run for each size of slice, and 20 of random
// sizes and schedules.
//
// On a device polls cannot be observed, so a device gets Storm(seed): another host thread raises
// and withdraws at random times; and Early: raised after the launch got its epoch and before it
// starts, so that it must leave at once.
#ifndef TALLY_VERIFY_YIELD_PLAN_H
#define TALLY_VERIFY_YIELD_PLAN_H

#include "tally/bundle/verdict.h"
#include "tally/emulator/machine.h"
#include "tally/support/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tally::verify {

enum class RequestKind : std::uint8_t {
  Quiet,
  At,
  Always,
  RaisedAndWithdrawn,
  Random,
  Widths,
  Pause,
  PauseAndRaise,
  Modes,
  LateWrite,
  Storm,
  Early
};

struct YieldPlan {
  RequestKind request = RequestKind::Quiet;
  /// Poll number of At, RaisedAndWithdrawn, Pause, PauseAndRaise, LateWrite.
  std::uint64_t poll = 0;
  std::uint64_t seed = 0;          ///< seed of Random, Widths, Modes, Storm
  std::uint64_t stormLaunches = 0; ///< for Storm: launches after which no request disturbs the run
  emulator::Schedule schedule;
  std::uint32_t sliceBlocks = 1; ///< about how many blocks a slice holds
  std::uint32_t workers = 1;     ///< blocks that a launch of a kind with workers has
  bool pauses = false;           ///< for Storm: raised words also have the mode PAUSE
  bool stays = true;             ///< for pause: workers stay until the last one has no block
};

inline constexpr std::uint64_t neverPolled = ~std::uint64_t{0};
inline constexpr std::uint32_t randomRuns = 20;
/// Number of polls for which Pause and PauseAndRaise set PAUSE: a few naps of each warp in flight.
constexpr std::uint64_t pausedPolls(std::uint64_t poll) { return 16 + poll % 32; }
/// Enough launches for a test; under requests without end the run would not end either.
inline constexpr std::uint64_t defaultStormLaunches = 256;

/// "a request at poll 3, schedule seed 0, 2 resident blocks, 2 workers".
std::string toText(const YieldPlan &plan, Kind kind);

/// The value of `--yield`.
struct YieldMode {
  enum class Choice : std::uint8_t { Every, AtPoll, Random } choice = Choice::Every;
  std::uint64_t value = 0; ///< the poll or the seed
};

/// Parses `every`, `N` or `random:SEED`.
Result<YieldMode> parseYieldMode(std::string_view text);

/// The grid that plans are made for.
struct PlanShape {
  std::uint64_t blocks = 1; ///< blocks of all launches together
  std::uint32_t wave = 1;   ///< blocks in flight at a time: not all of a grid of two or more
  std::uint64_t polls = 0;  ///< counted in a quiet run of this kind
  bool isMicroscope = true;
  std::uint32_t randomPlans = randomRuns; ///< random requests of `--yield=every`
  std::uint64_t stormLaunches = 0;        ///< launches after which a storm ends
  std::uint64_t scheduleSeed = 0;         ///< not 0: every plan gets its own random schedule
};

/// Returns the blocks in flight for a grid of `blocks`: at most 4, and more than one wave wherever
/// possible.
std::uint32_t waveOf(std::uint64_t blocks);

/// Returns the plan of the quiet run, in which polls are counted.
YieldPlan quietPlan(const PlanShape &shape);
/// Returns the plans of all other runs of `kind` that `mode` asks for.
std::vector<YieldPlan> plansFor(Kind kind, const YieldMode &mode, const PlanShape &shape);

} // namespace tally::verify

#endif
