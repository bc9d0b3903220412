#include "dispatch/dispatcher.h"

#include "base/cpus.h"
#include "requests/monitor_times.h"

#include <algorithm>
#include <utility>

namespace tally::runtime {

using namespace std::chrono_literals;

namespace {

/// Asking the device whether a stream is idle is a driver call (1.3 us), which contends with the
/// application's own calls.
constexpr Nanoseconds monitorInterval = 20us;
/// quietBeforeArming: how long the thread sees nothing happen, about two calls, before it arms the
/// control word. longestArmed: how long the control word stays armed; a call of the program that
/// waits for the whole device may have to wait so long. Then running work yields, and is resumed.
constexpr Nanoseconds quietBeforeArming = 10us, longestArmed = 50ms;
/// A stream that waits costs each launch of the context some 1.5 us (H200: 5.6 % of a training
/// whose launches take 20 us, 2.6 % with 55 us); an armed wake is 4 us sooner. So the dispatcher
/// arms only where launches take this long.
constexpr Nanoseconds worthArming = 100us;

/// How long after a request more requests are expected.
constexpr Nanoseconds requestsAreExpected = 20ms;

/// Interval at which the policy's knowledge is kept: a process may end without close().
constexpr Nanoseconds keepInterval = 1s;

/// How long the dispatcher leaves the driver to a call that woke.
constexpr Nanoseconds longestWakingCall = 20us;

/// How long the thread polls without progress before it naps between polls. Polling makes
/// best-effort work resume within microseconds. Where cores are scarce, other threads need them.
Nanoseconds pollingTime() { return hasCpusToPoll() ? 20ms : 200us; }
/// Within this time of progress the thread does not even yield its core.
constexpr Nanoseconds tightPolling = 50us;

/// Whether launches are long enough for arming.
bool isWorthArming(const LaunchPace &pace) {
  return pace.launches != 0 && pace.ran / static_cast<std::int64_t>(pace.launches) >= worthArming;
}

} // namespace

Result<std::unique_ptr<Dispatcher>> Dispatcher::create(StreamDevice &device, DeviceControl &control,
                                                       RequestScopeTracker &highPriority,
                                                       DispatcherOptions options) {
  std::unique_ptr<Dispatcher> made(
      new Dispatcher(device, control, highPriority, std::move(options)));
  highPriority.headroom().open(device.info(), made->options.lane.reserve);
  if (Result<void> lanes = made->laneTable.open(); !lanes)
    return lanes.error();
  made->smCount = device.info().smCount;
  return made;
}

Dispatcher::Dispatcher(StreamDevice &device, DeviceControl &control,
                       RequestScopeTracker &highPriority, DispatcherOptions options)
    : device(device), control(control), highPriority(highPriority), options(std::move(options)),
      mayPause(contains(this->options.lane.kinds, Kind::Pause)), laneTable(device, this->options),
      pauses(control, highPriority, this->options, laneTable, closed),
      turnarounds(control, this->options, laneTable), armedLimit(control, longestArmed) {
  this->options.lane.limitsSms =
      this->options.policy.limitsSms() && this->options.lane.confinedSizes.empty();
  this->options.lane.headroom = &highPriority.headroom();
  if (const ProfileStore *profiles = this->options.lane.profiles)
    this->options.policy.recall(profiles->policyMemory());
  // Set even if launches use other kinds: the other kinds act on the epoch alone.
  if (contains(this->options.lane.kinds, Kind::Checkpoint))
    control.setRequestMode(TALLY_CONTROL_CHECKPOINT);
}

Dispatcher::~Dispatcher() { close(); }

void Dispatcher::close() {
  if (thread.joinable()) {
    stopping = true;
    wake();
    thread.join();
  }
  armedLimit.end();
  keepPolicy();
  // Lanes wait for their work on the device, so paused work must go on.
  if (control.isPausing())
    pauses.release(PauseEnd::Closed);
  for (const std::unique_ptr<Lane> &lane : laneTable.all())
    lane->close();
}

void Dispatcher::start() {
  thread = std::thread([this] { run(); });
}

void Dispatcher::bringToRest() {
  stopSending();
  // No thread closes this scope. If raiseAndTell() fails, the device has failed and nothing runs.
  static_cast<void>(control.raiseAndTell(false));
  while (!isAtRest())
    std::this_thread::sleep_for(50us);
}

std::optional<Permit> Dispatcher::permit(std::uint32_t bestEffortClass) const {
  if (bestEffortClass > laneTable.leadingClass() || !neighboursKnow)
    return std::nullopt;
  std::uint64_t epoch = control.currentEpoch(); // before the snapshot: control_word.h
  Snapshot now = snapshot();
  Decision decision = decide(now);
  if (!decision.runBestEffort)
    return std::nullopt;
  return Permit{epoch, decision, now.highPriorityActive != 0 || decision.sms < now.smCount,
                now.sinceHighPriorityEnded < requestsAreExpected};
}

Decision Dispatcher::decide(const Snapshot &now) const {
  Decision decision = options.policy.decide(now);
  decision.sms = grantedSms(options.lane.confinedSizes, decision.sms, now.smCount);
  return decision;
}

Snapshot Dispatcher::snapshot() const {
  Snapshot now = control.snapshot();
  for (const std::unique_ptr<Lane> &lane : laneTable.all())
    if (std::optional<Nanoseconds> since = lane->heldBackSince())
      now.heldBack = std::max(now.heldBack, now.now - *since);
  busyTimes.addTo(now);
  for (const std::unique_ptr<Lane> &lane : laneTable.all())
    now.bestEffortRan += lane->times().ran();
  now.smCount = smCount;
  if (!options.lane.confinedSizes.empty())
    now.leastSms = options.lane.confinedSizes.front();
  if (options.policy.usesClients())
    clients.read(laneTable, now);
  return now;
}

/// If batches under way share the device with high-priority work, but the policy no longer allows
/// it or allows another number of SMs, asks them to yield. Allowed work is then sent again.
void Dispatcher::enforcePolicy() {
  std::optional<std::uint32_t> sms;
  for (const std::unique_ptr<Lane> &lane : laneTable.all()) {
    if (lane->inheritsHighPriority())
      return;
    if (lane->underWay() && lane->epochUnderWay() == control.currentEpoch() && !sms)
      sms = lane->sharedSms();
  }
  if (!sms)
    return;
  Decision decision = decide(snapshot());
  if (!decision.runBestEffort || std::min(decision.sms, smCount) != std::min(*sms, smCount))
    stopByPolicy();
}

void Dispatcher::stopByPolicy() {
  highPriority.wakeTrace().wakes();
  static_cast<void>(control.advance()); // an error of the device is the lanes' to report
  highPriority.wakeTrace().wakes(true);
}

/// Tells work of lower classes to yield if it is under way; it gets no permit to go on.
void Dispatcher::enforceClasses() {
  if (!laneTable.hasClasses())
    return;
  laneTable.findLeadingClass();
  auto mustYield = [&](const auto &lane) {
    return lane->underWay() && lane->epochUnderWay() == control.currentEpoch() &&
           lane->currentClass() > laneTable.leadingClass() && !lane->inheritsHighPriority();
  };
  if (std::ranges::any_of(laneTable.all(), mustYield))
    stopByPolicy();
}

/// Whether the driver is left to a call of the application that has just woken, which takes some
/// microseconds: calls of this thread would take turns with it. Waiting costs nothing, since the
/// work that was asked to yield has not yielded yet.
bool Dispatcher::leavesDriver() const {
  if (control.snapshot().highPriorityActive == 0)
    return false;
  std::optional<Nanoseconds> woken = control.lastWake();
  return woken && options.lane.clock() - *woken < longestWakingCall && highPriority.isCalling();
}

bool Dispatcher::step() {
  static_cast<void>(control.flush());
  highPriority.watch();
  highPriority.wakeTrace().wakes();
  pauses.end();
  if (leavesDriver())
    return false;
  bool nothingGoes = closed; // read before the lanes ask
  std::optional<std::uint64_t> oldestBefore = laneTable.oldestUnderWay();
  busyTimes.observe(control, highPriority.waits(), neighbours ? neighbours->waitsElsewhere() : 0);
  enforcePolicy();
  enforceClasses();
  bool progress = false;
  for (const std::unique_ptr<Lane> &lane : laneTable.all())
    progress = lane->step(*this) || progress;
  if (auto took = turnarounds.measure(oldestBefore); took && neighbours)
    neighbours->noteTurnaround(*took);
  pauses.choose();
  if (nothingGoes && !laneTable.oldestUnderWay() &&
      std::ranges::none_of(laneTable.all(), [](const auto &lane) { return lane->isHeld(); }))
    atRest = true;
  if (progress && neighbours)
    neighbours->note(totals());
  return monitor() || progress;
}

/// Keeps what the policy has learnt, for a later run.
void Dispatcher::keepPolicy() {
  if (ProfileStore *profiles = options.lane.profiles)
    profiles->putPolicyMemory(options.policy.memory());
}

bool Dispatcher::monitor() {
  Nanoseconds now = options.lane.clock();
  if (now - lastMonitored < monitorInterval && highPriority.untilRest().count() != 0)
    return false;
  lastMonitored = now;
  if (now - lastKept > keepInterval) {
    lastKept = now;
    keepPolicy();
  }
  if (neighbours && now - lastNoted > noteInterval) {
    lastNoted = now;
    highPriority.noteCalls();
  }
  Result<bool> closed = highPriority.monitor();
  // If the device has failed, the streams' own calls report it.
  return closed && *closed;
}

void Dispatcher::addTo(Statistics &statistics) const {
  LaneTotals sums = totals();
  statistics.bestEffortLaunches += sums.finishedLaunches;
  for (std::size_t i = 0; i < allKinds.size(); ++i)
    statistics.launchesByKind[i] += sums.launchesByKind[i];
  statistics.physicalLaunches += sums.physicalLaunches;
  statistics.yields += sums.yields;
  statistics.savedBlocks += sums.savedBlocks;
  statistics.saveAreasRefused += sums.saveAreasRefused;
  statistics.confinedLaunches += sums.confinedLaunches;
  statistics.confinedSms = std::max(statistics.confinedSms, sums.confinedSms);
  statistics.pauses += control.pauses();
  statistics.turnaroundNanoseconds = turnarounds.all();
}

/// Work put on lanes after this call waits for the next call.
void Dispatcher::tellNeighbours(bool hasWork) {
  if (!neighbours)
    return;
  neighbours->setBusy(hasWork);
  neighboursKnow = hasWork;
}

void Dispatcher::run() {
  options.prepare();
  Nanoseconds lastProgress = options.lane.clock();
  while (!stopping) {
    tellNeighbours(laneTable.hasWork());
    if (step())
      lastProgress = options.lane.clock();
    else
      rest(options.lane.clock() - lastProgress);
    // A call that waits for the whole device need not wait for a wake.
    if (!laneTable.hasWork())
      control.disarm();
  }
  control.disarm();
}

/// If the device has failed, the lanes' calls report it.
void Dispatcher::arm(Nanoseconds idleFor) {
  // An armed write says RUN under the next epoch; a wake may have to say PAUSE under this epoch.
  if (idleFor < quietBeforeArming || laneTable.underWay() == 0 || mayPause)
    return;
  Nanoseconds now = options.lane.clock();
  if (control.isArmed()) {
    if (now - armedAt > longestArmed)
      control.disarm();
    return;
  }
  if (!device.mayWait() || !isWorthArming(laneTable.pace()))
    return;
  armedAt = now;
  ArmedLimit::Arming arming(armedLimit);
  static_cast<void>(control.arm());
}

void Dispatcher::rest(Nanoseconds idleFor) {
  arm(idleFor);
  if (idleFor < tightPolling || (laneTable.hasWork() && idleFor < pollingTime())) {
    // If the write fails, running work runs on; the lanes' own calls report the failure.
    static_cast<void>(control.listen(pauseProcessor));
    if (idleFor >= tightPolling)
      yieldInTurn();
    return;
  }
  // Without work the thread sleeps until another thread calls wake(). With work it may wait for the
  // device, which does not call wake().
  Sleeper::Nap sleep(sleeper);
  if (stopping)
    return;
  if (laneTable.hasWork()) {
    sleep.waitFor(std::min(nap, highPriority.untilRest()));
  } else {
    control.setBusy(false);
    restWithoutWork(sleep);
    control.setBusy(true);
  }
}

/// Sleeps while this process has no best-effort work: open implicit scopes matter then only to
/// other processes.
void Dispatcher::restWithoutWork(Sleeper::Nap &sleep) {
  if (!neighbours) {
    busyTimes.lookAway();
    return sleep.wait();
  }
  tellNeighbours(false);
  Nanoseconds now = options.lane.clock();
  if (highPriority.hasImplicit())
    lastImplicit = now;
  Nanoseconds wanted =
      neighbours->isWaitedFor() ? napWhileWatched(now - lastImplicit) : unwatchedNap;
  if (wanted > nap)
    busyTimes.lookAway();
  sleep.waitFor(std::min(wanted, highPriority.untilRest()));
}

} // namespace tally::runtime
