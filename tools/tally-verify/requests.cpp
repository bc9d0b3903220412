#include "requests.h"

#include <cassert>
#include <chrono>

namespace tally::verify {

namespace {

constexpr std::uint64_t maxLaunchesInVain = 6;

} // namespace

Requests::Requests(Target &target, const YieldPlan &plan, Kind kind)
    : target(target), plan(plan), control(Write{this}), random(plan.seed),
      savesBlocks(kind == Kind::Checkpoint) {
  if (plan.request == RequestKind::Random || plan.request == RequestKind::Widths ||
      plan.request == RequestKind::Modes)
    oneIn = std::uint64_t{2} << random.below(4);
}

Result<void> Requests::write(std::uint64_t word) {
  runtime::ControlFields fields = runtime::decodeControl(word);
  fields.workers = width;
  fields.mode = mode;
  if (savesBlocks)
    fields.mode = plan.request == RequestKind::Random && random.below(4) == 0
                      ? TALLY_CONTROL_LEAVE_AT_BLOCK_END
                      : TALLY_CONTROL_CHECKPOINT;
  word = runtime::encodeControl(fields);
  if (withhold) {
    withheld = word;
    return {};
  }
  return target.writeControl(word);
}

void Requests::raise() {
  assert(!raised);
  if (auto done = control.raise(); !done && !writeFailure)
    writeFailure = done.error();
  raised = newer = true;
}

void Requests::withdraw() {
  assert(raised);
  if (auto done = control.withdraw(); !done && !writeFailure)
    writeFailure = done.error();
  raised = false;
}

Result<std::uint64_t> Requests::beginRound() {
  ++rounds;
  if (plan.request == RequestKind::Storm)
    return beginStormRound();
  if (raised)
    withdraw();
  if (mode != TALLY_CONTROL_RUN)
    changeMode(TALLY_CONTROL_RUN);
  if (plan.request == RequestKind::Widths && rounds % 3 == 0)
    changeWidth(TALLY_CONTROL_WORKERS_UNLIMITED);
  if (plan.request == RequestKind::LateWrite && rounds == 1) {
    withhold = true;
    raise();
    withdraw();
    withhold = false;
  }
  auto epoch = control.permit(PriorityPolicy{});
  assert(epoch && "nothing is raised, so the policy lets best-effort work run");
  newer = false;
  if (plan.request == RequestKind::Early && rounds == 1)
    raise();
  if (writeFailure)
    return *writeFailure;
  return *epoch;
}

Result<std::uint64_t> Requests::beginStormRound() {
  if (rounds == 1)
    stormThread = std::jthread([this](const std::stop_token &stop) { storm(stop); });
  if (rounds == plan.stormLaunches)
    if (auto failure = finish())
      return *failure;
  for (;;) {
    if (auto epoch = control.permit(PriorityPolicy{}))
      return *epoch;
    std::this_thread::yield();
  }
}

void Requests::storm(const std::stop_token &stop) {
  using std::chrono::microseconds;
  while (!stop.stop_requested() && !writeFailure) {
    std::this_thread::sleep_for(microseconds(random.below(60)));
    mode = plan.pauses ? TALLY_CONTROL_PAUSE : TALLY_CONTROL_RUN;
    raise();
    std::this_thread::sleep_for(microseconds(random.below(30)));
    if (plan.pauses)
      changeMode(random.below(2) == 0 ? TALLY_CONTROL_RUN : TALLY_CONTROL_LEAVE_AT_BLOCK_END);
    withdraw();
  }
}

std::optional<Error> Requests::finish() {
  if (stormThread.joinable()) {
    stormThread.request_stop();
    stormThread.join();
  }
  return writeFailure;
}

void Requests::changeWidth(std::uint16_t workers) {
  width = workers;
  if (auto done = write(runtime::encodeControl({.epoch = control.currentEpoch()}));
      !done && !writeFailure)
    writeFailure = done.error();
}

void Requests::changeMode(tally_control_mode newMode) {
  mode = newMode;
  if (auto done = write(runtime::encodeControl({.epoch = control.currentEpoch()}));
      !done && !writeFailure)
    writeFailure = done.error();
}

/// Handles Pause and PauseAndRaise.
void Requests::pause(std::uint64_t index) {
  bool raises = plan.request == RequestKind::PauseAndRaise;
  if (index == plan.poll && !raises) {
    changeMode(TALLY_CONTROL_PAUSE);
  } else if (index == plan.poll) {
    mode = TALLY_CONTROL_PAUSE;
    raise();
  } else if (index == plan.poll + pausedPolls(plan.poll) && mode == TALLY_CONTROL_PAUSE) {
    pauseEnded = true;
    changeMode(raises && plan.poll % 2 == 0 ? TALLY_CONTROL_LEAVE_AT_BLOCK_END : TALLY_CONTROL_RUN);
  }
}

void Requests::atRandom() {
  if ((rounds % 3 == 0 && pollsOfLaunch == 0) || launchesInVain > maxLaunchesInVain) {
    if (mode != TALLY_CONTROL_RUN)
      changeMode(TALLY_CONTROL_RUN);
    return;
  }
  if (plan.request == RequestKind::Modes && random.below(4) == 0)
    changeMode(static_cast<tally_control_mode>(random.below(TALLY_CONTROL_CHECKPOINT + 1)));
  bool changes = random.below(oneIn) == 0;
  if (plan.request == RequestKind::Widths && random.below(2) == 0) {
    std::uint64_t wanted = random.below(plan.workers + 3);
    changeWidth(wanted == plan.workers + 2 ? std::uint16_t{TALLY_CONTROL_WORKERS_UNLIMITED}
                                           : static_cast<std::uint16_t>(wanted));
  }
  if (!changes)
    return;
  if (raised)
    withdraw();
  else
    raise();
}

void Requests::poll(std::uint64_t index) {
  switch (plan.request) {
  case RequestKind::At:
    if (index == plan.poll)
      raise();
    break;
  case RequestKind::RaisedAndWithdrawn:
    if (index == plan.poll)
      raise();
    else if (index == plan.poll + 1 && raised)
      withdraw();
    break;
  case RequestKind::Always:
    if ((isLetPass && rounds % 2 == 0 && pollsOfLaunch == 0) || launchesInVain > maxLaunchesInVain)
      break;
    if (raised)
      withdraw();
    raise();
    break;
  case RequestKind::Pause:
  case RequestKind::PauseAndRaise:
    pause(index);
    break;
  case RequestKind::Random:
  case RequestKind::Widths:
  case RequestKind::Modes:
    atRandom();
    break;
  case RequestKind::LateWrite:
    if (index == plan.poll && withheld)
      if (auto done = target.writeControl(*withheld); !done && !writeFailure)
        writeFailure = done.error();
    break;
  case RequestKind::Quiet:
  case RequestKind::Storm:
  case RequestKind::Early:
    break;
  }
  denied |= newer && pollsOfLaunch == 0;
  ++pollsOfLaunch;
  ++pollCount;
}

} // namespace tally::verify
