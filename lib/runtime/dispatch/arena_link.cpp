#include "dispatch/arena_link.h"

#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

namespace tally::runtime {

using namespace std::chrono_literals;

namespace {

/// How long lower classes still make way after this process's last best-effort work.
constexpr Nanoseconds claimOutlasts = 1ms;
/// Interval at which isAlone() looks whether processes of other classes have died.
constexpr Nanoseconds deadInterval = 20ms;

} // namespace

Result<std::unique_ptr<ArenaLink>> ArenaLink::open(const ArenaOptions &options,
                                                   std::string_view uuid, DeviceControl &control,
                                                   RequestScopeTracker &highPriority,
                                                   std::function<void()> resume) {
  Result<ArenaPlace> place = findArenaPlace(options, uuid);
  if (!place)
    return place.error();
  Result<std::shared_ptr<Arena>> arena = Arena::open(*place);
  if (!arena)
    return arena.error();
  return std::unique_ptr<ArenaLink>(new ArenaLink(std::move(*arena), options.bestEffortClass,
                                                  control, highPriority, std::move(resume)));
}

ArenaLink::~ArenaLink() {
  stopWatching();
  highPriority.publishTo(nullptr);
}

Result<void> ArenaLink::join(Class clientClass, std::string_view name) {
  std::unique_lock lock(joining);
  bool isHigh = clientClass == Class::High;
  std::unique_ptr<ArenaSlot> &slot = isHigh ? high : bestEffort;
  if (slot)
    return {};
  auto claimed = arena->claim(isHigh ? 0 : bestEffortClass,
                              name.empty() ? program_invocation_short_name : name);
  if (!claimed)
    return claimed.error();
  slot = std::move(*claimed);
  if (isHigh)
    highPriority.publishTo(slot.get());
  else
    watch();
  showMemory();
  return {};
}

/// Call under the mutex. Moves the numbers to the high-priority slot once there is one.
void ArenaLink::showMemory() {
  for (ArenaSlot *slot : {high.get(), bestEffort.get()}) {
    if (!slot)
      continue;
    bool isShown = slot == high.get() || !high;
    MemoryStatus shown = isShown ? memory : MemoryStatus();
    slot->set(ArenaCounter::MemoryUsed, shown.used);
    slot->set(ArenaCounter::MemoryPeak, shown.peak);
    slot->set(ArenaCounter::MemoryQuota, shown.quota);
    slot->set(ArenaCounter::MemoryReserve, shown.reserve);
    slot->set(ArenaCounter::MemoryRefusals, shown.refusals);
  }
}

void ArenaLink::noteMemory(const MemoryStatus &now) {
  std::unique_lock lock(joining);
  memory = now;
  showMemory();
}

void ArenaLink::watch() {
  counted = bestEffort.get();
  ArenaWatcherOptions options;
  options.slotClass = bestEffortClass;
  options.sleepsWhileIdle = true;
  // A device that refuses the write has failed, and reports that to every thread with work on it.
  options.onRaise = [this] {
    bool raised = static_cast<bool>(control.raiseAndTell(false));
    if (raised)
      elsewhereSince = SteadyClock{}();
    return raised;
  };
  options.onWithdraw = [this] {
    traceElsewhere();
    if (Result<bool> last = control.withdraw(); last && *last) {
      highPriority.wakeTrace().idle();
      resume();
    }
  };
  watcher = std::make_unique<ArenaWatcher>(arena, std::move(options));
  watching = watcher.get();
}

void ArenaLink::traceElsewhere() {
  if (!trace)
    return;
  TraceEvent event;
  event.type = TraceEvent::Type::Elsewhere;
  event.start = elsewhereSince;
  event.duration = SteadyClock{}() - elsewhereSince;
  trace->add(event);
}

void ArenaLink::stopWatching() {
  watching = nullptr;
  // The dispatcher's thread may be in setBusy(): only the watcher's thread ends, not the object.
  if (watcher)
    watcher->stop();
}

void ArenaLink::leave() {
  stopWatching();
  std::unique_lock lock(joining);
  for (ArenaSlot *slot : {high.get(), bestEffort.get()})
    if (slot)
      slot->release();
}

bool ArenaLink::isAloneWithoutDead() {
  std::int64_t now = SteadyClock{}().count(), last = deadLookedFor.load(std::memory_order_relaxed);
  if (now - last < deadInterval.count() || !deadLookedFor.compare_exchange_strong(last, now))
    return false;
  arena->clearDeadBut(bestEffortClass);
  return arena->onlyOfClass(bestEffortClass);
}

void ArenaLink::noteAhead(std::uint64_t launches) {
  launchedAhead.fetch_add(launches);
  if (ArenaSlot *slot = counted)
    slot->add(ArenaCounter::Launches, launches);
  showAhead(true);
}

void ArenaLink::showAhead(bool now) {
  if (aheadShown.load(std::memory_order_relaxed) == now || aheadShown.exchange(now) == now)
    return;
  if (ArenaSlot *slot = counted)
    slot->set(ArenaCounter::HasWork, now);
}

void ArenaLink::setBusy(bool now) {
  if (ArenaSlot *slot = counted) {
    if (std::exchange(shownBusy, now) != now)
      slot->set(ArenaCounter::HasWork, now);
    claimFor(*slot, now);
  }
  if (ArenaWatcher *current = watching)
    current->setBusy(now);
}

void ArenaLink::claimFor(ArenaSlot &slot, bool hasWork) {
  bool wanted = (hasWork || claims) && arena->lowerPresent(bestEffortClass);
  if (wanted) {
    Nanoseconds now = SteadyClock{}();
    if (hasWork)
      lastWork = now;
    wanted = now - lastWork < claimOutlasts;
  }
  if (wanted == claims)
    return;
  claims = wanted;
  if (claims)
    slot.raise();
  else
    slot.withdraw();
}

void ArenaLink::note(const LaneTotals &totals) {
  ArenaSlot *slot = counted;
  if (!slot)
    return;
  slot->set(ArenaCounter::Launches, totals.finishedLaunches + launchedAhead.load());
  slot->set(ArenaCounter::PhysicalLaunches, totals.physicalLaunches);
  slot->set(ArenaCounter::Yields, totals.yields);
  slot->set(ArenaCounter::SavedBlocks, totals.savedBlocks);
  slot->set(ArenaCounter::ConfinedLaunches, totals.confinedLaunches);
  slot->set(ArenaCounter::ConfinedSms, totals.confinedSms);
  slot->set(ArenaCounter::OwnStreams, totals.ownStreams);
  slot->set(ArenaCounter::OwnBytes, totals.ownBytes);
  for (std::size_t i = 0; i < allKinds.size(); ++i)
    slot->set(static_cast<ArenaCounter>(static_cast<std::size_t>(ArenaCounter::LaunchesByKind) + i),
              totals.launchesByKind[i]);
  slot->set(ArenaCounter::RequestsToYield, control.requests());
}

void ArenaLink::noteTurnaround(Nanoseconds took) {
  if (ArenaSlot *slot = counted)
    slot->addTurnaround(took);
}

} // namespace tally::runtime
