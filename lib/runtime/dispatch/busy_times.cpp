#include "dispatch/busy_times.h"

#include "requests/rest_time.h"

#include <algorithm>
#include <utility>

namespace tally::runtime {

namespace {

/// How long a scope stays open at most after its last wait, with the time until the dispatcher
/// closes it. A server that waits for nothing more than this after a wait has no other request.
constexpr Nanoseconds mostBehindWait = 4 * RestTime::longest;
/// No request is as short. A program that waits for two streams, one after the other, ends one.
constexpr Nanoseconds shortestRequest = std::chrono::microseconds(5);

} // namespace

void BusyTimes::observe(const DeviceControl &control, const HighWaits &own,
                        std::uint64_t elsewhere) {
  std::optional<Nanoseconds> newest = control.lastWake();
  Snapshot now = control.snapshot();
  std::uint64_t ownWaits = own.count();
  std::uint64_t waits = ownWaits + elsewhere;
  if (newest && newest != woken) {
    // Waits of the time before cannot be told from those since the wake if its end was missed.
    if (wasActive)
      seen = waits;
    woken = newest;
    from = *newest;
    isOpen = true;
    hasWaited = false;
  }
  Nanoseconds at = ownWaits != ownSeen ? own.last() : now.now; // the end of the newest wait
  at = std::clamp(at, from, std::max(now.now, from));
  if (std::exchange(isAway, false)) {
    isOpen = false;
    if (ownWaits != ownSeen)
      from = at; // the request under way began behind this wait
    seen = waits;
  }
  // Fewer waits: a process has left, and another one has its slot.
  std::uint64_t ended = waits > seen ? waits - seen : 0;
  if (ended != 0) {
    Nanoseconds each = (at - from) / static_cast<std::int64_t>(ended);
    if (isOpen && each > shortestRequest)
      record(each);
    from = at;
    isOpen = hasWaited = true;
  }
  seen = waits;
  ownSeen = ownWaits;
  wasActive = now.highPriorityActive != 0;
  if (!isOpen || wasActive)
    return;
  isOpen = false;
  Nanoseconds rest = now.now - now.sinceHighPriorityEnded - from;
  if (rest >= Nanoseconds(0) && (!hasWaited || rest > mostBehindWait)) // else the next has begun
    record(rest);
}

void BusyTimes::record(Nanoseconds took) {
  last = took;
  times.add(took);
}

void BusyTimes::addTo(Snapshot &now) const {
  now.busyPeriods = times.count();
  now.busyMean = times.mean();
  now.busyHigh = times.high();
  now.busyLast = last;
  if (now.highPriorityActive != 0 && woken && now.now - now.activeFor == *woken)
    now.activeFor = std::max(now.now - from, Nanoseconds(0));
}

} // namespace tally::runtime
