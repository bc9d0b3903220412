// Carries out a plan's requests: raises and withdraws through the runtime's control word.
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

/// For one run of one variant. Not thread-safe: polls arrive on the thread that launches. A storm
/// runs on a thread of its own, from the first round on, which ends with this.
class Requests {
public:
  Requests(Target &target, const YieldPlan &plan, Kind kind);

  /// The epoch that the next round of launches carries. Withdraws what is still raised: high-
  /// priority work ends at last, and only then is best-effort work issued again.
  Result<std::uint64_t> beginRound();
  /// A physical launch is about to start.
  /// `goesOn`: with blocks that were saved, whatever the word says, so that none need be let pass.
  void beginLaunch(bool goesOn = false) {
    isLetPass = !goesOn;
    pollsOfLaunch = 0;
    denied = false;
  }
  /// It has left; whether any block ran in it. After several in a row in which none did, requests
  /// that come at every poll or at random stop until one does: where each thread polls, a block is
  /// not let pass by letting the first poll pass.
  void endLaunch(bool ranABlock) { launchesInVain = ranABlock ? 0 : launchesInVain + 1; }
  /// Whether the launch under way, or the last one, found at its first poll that it must yield. It
  /// may run nothing then. Known of a microscope only.
  bool deniedFirstPoll() const { return denied; }
  /// Whether the polls went on until the plan's pause ended: whoever pauses goes on polling.
  bool sawPauseOut() const { return pauseEnded; }
  /// A poll is about to read the control word.
  void poll(std::uint64_t index);

  /// The greatest epoch that anything may yield to by now.
  std::uint64_t currentEpoch() const { return control.currentEpoch(); }
  std::uint64_t polls() const { return pollCount; }
  /// Ends the storm; the first write of the control word that failed.
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
  const bool savesBlocks; ///< requests ask for checkpoints, random ones mostly
  std::uint16_t width = TALLY_CONTROL_WORKERS_UNLIMITED; ///< workers wanted, in each word written
  tally_control_mode mode = TALLY_CONTROL_RUN;           ///< likewise
  bool pauseEnded = false;                               ///< sawPauseOut()
  std::optional<std::uint64_t> withheld; ///< LateWrite: the word that has not landed
  bool withhold = false, raised = false;
  bool isLetPass = true; ///< each second launch, so that blocks are taken
  bool newer = false;    ///< the word that landed last is newer than the round's epoch
  bool denied = false;   ///< deniedFirstPoll()
  std::optional<Error> writeFailure;
  std::jthread stormThread; ///< last: joined before what it uses goes
};

} // namespace tally::verify

#endif
