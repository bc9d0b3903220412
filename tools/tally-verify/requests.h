// Carries out a plan's requests through the runtime's control word.
#ifndef TALLY_VERIFY_REQUESTS_H
#define TALLY_VERIFY_REQUESTS_H

#include "random.h"
#include "target.h"
#include "yield_plan.h"

#include "tally/policy/policy.h"
#include "tally/runtime/control_word.h"

#include <cstdint>
#include <optional>
#include <stop_token>
#include <thread>

namespace tally::verify {

/// The requests for one run of one variant. Not thread-safe: polls arrive on the thread that
/// launches. From the first round on a storm runs on its own thread, which the destructor ends.
class Requests {
public:
  Requests(Target &target, const YieldPlan &plan, Kind kind);

  /// Returns the epoch for the next round of launches. Withdraws a request that is still raised:
  /// high-priority work has ended at last, and only then is best-effort work issued again.
  Result<std::uint64_t> beginRound();
  /// Tells that a physical launch is about to start. `goesOn`: the launch goes on with saved blocks
  /// under any word, so that its first poll need not pass.
  void beginLaunch(bool goesOn = false) {
    isLetPass = !goesOn;
    pollsOfLaunch = 0;
    denied = false;
  }
  /// Tells that the launch has left, and whether any block ran in it. After several launches in a
  /// row without a block, requests at every poll or at random stop until a block runs: where each
  /// thread polls, letting the first poll pass does not let a block pass.
  void endLaunch(bool ranABlock) { launchesInVain = ranABlock ? 0 : launchesInVain + 1; }
  /// Whether the current launch, or else the last one, found at its first poll that it must yield.
  /// It may run no block then. Known for a microscope only.
  bool deniedFirstPoll() const { return denied; }
  /// Whether polls went on until the plan's pause ended; a paused worker goes on polling.
  bool sawPauseOut() const { return pauseEnded; }
  /// Tells that a poll is about to read the control word.
  void poll(std::uint64_t index);

  /// Returns the greatest epoch to which a launch may yield by now.
  std::uint64_t currentEpoch() const { return control.currentEpoch(); }
  std::uint64_t polls() const { return pollCount; }
  /// Ends the storm; returns the first failed write of the control word.
  std::optional<Error> finish();

private:
  struct Write {
    Requests *requests;
    Result<void> operator()(std::uint64_t word) const { return requests->write(word); }
  };
  Result<void> write(std::uint64_t word);
  void raise();
  void withdraw();
  void atRandom();
  void changeWidth(std::uint16_t workers);
  void changeMode(tally_control_mode mode);
  void pause(std::uint64_t index);
  Result<std::uint64_t> beginStormRound();
  void storm(const std::stop_token &stop);

  Target &target;
  const YieldPlan &plan;
  runtime::ControlWord<Write> control;
  Random random;
  std::uint64_t oneIn = 2; ///< Random: polls between changes, on average
  std::uint64_t rounds = 0, pollsOfLaunch = 0, pollCount = 0;
  std::uint64_t launchesInVain = 0;
  const bool savesBlocks; ///< requests ask for checkpoints; random ones mostly
  std::uint16_t width = TALLY_CONTROL_WORKERS_UNLIMITED; ///< workers wanted, in each word written
  tally_control_mode mode = TALLY_CONTROL_RUN;           ///< mode in each word written
  bool pauseEnded = false;                               ///< sawPauseOut()
  std::optional<std::uint64_t> withheld; ///< LateWrite: the word that has not landed
  bool withhold = false, raised = false;
  bool isLetPass = true; ///< for every second launch, so that blocks are taken
  bool newer = false;    ///< the word that landed last is newer than the round's epoch
  bool denied = false;   ///< deniedFirstPoll()
  std::optional<Error> writeFailure;
  std::jthread stormThread; ///< last member: joined before the members that it uses are destroyed
};

} // namespace tally::verify

#endif
