// When what pauses is told to, and until when.
#include "dispatch/dispatcher.h"

#include <algorithm>

namespace tally::runtime {

using namespace std::chrono_literals;

namespace {

/// How long high-priority launches that do not fit beside what pauses are expected to come again.
constexpr Nanoseconds largeOnesLast = 1s;
/// How many deadlines a pause lasts at most without a call of high priority.
constexpr int deadlinesToRun = 50;
/// After so many that lasted that long nothing is taken to be known any more.
constexpr int mostLongRuns = 3;
/// How often it is looked for progress, in the words that launches count in.
constexpr Nanoseconds progressInterval = 20us;

} // namespace

bool Dispatcher::inheritsHighPriority() const {
  return std::ranges::any_of(lanes(),
                             [](const auto &lane) { return lane->inheritsHighPriority(); });
}

/// Whether something pauses that was planned when less was known of what high priority takes.
bool Dispatcher::lacksHeadroom() const {
  return std::ranges::any_of(lanes(), [](const auto &lane) { return lane->lacksHeadroom(); });
}

/// What is told to pause goes on when no scope is open any more, or when it must.
void Dispatcher::endPauses() {
  if (std::optional<PauseEnd> why = mustEndPause())
    return release(*why);
  bool paused = control.isPausing();
  Nanoseconds since = control.pausedAt(); // before it goes on: the next one may come then
  // An error of the device is the lanes' to report.
  if (Result<bool> went = control.settle(); !went || !*went || !paused)
    return;
  pauseBackoff.endWell();
  tracePause(since, PauseEnd::Over);
}

/// Where high-priority work waits for what pauses, or may not fit beside it, or is not seen to do
/// anything for too long.
std::optional<PauseEnd> Dispatcher::mustEndPause() {
  if (!control.isPausing() || control.snapshot().highPriorityActive == 0)
    return std::nullopt;
  if (closed)
    return PauseEnd::Closed;
  if (inheritsHighPriority())
    return PauseEnd::Awaited;
  if (highPriority.headroom().largeSince(options.lane.clock() - largeOnesLast) || lacksHeadroom())
    return PauseEnd::NoRoom;
  return isOverdue() ? std::optional(PauseEnd::Overdue) : std::nullopt;
}

/// Whether nothing of the high-priority work was seen to happen for too long.
bool Dispatcher::isOverdue() {
  Nanoseconds now = options.lane.clock();
  if (now - lookedForProgress < progressInterval)
    return false;
  lookedForProgress = now;
  std::uint64_t seen = highPriority.progress();
  Nanoseconds since = std::max(progressAt, control.pausedAt());
  if (seen != progressSeen || control.pausedAt() > callSeenAt)
    callSeenAt = now;
  if (seen != progressSeen)
    since = now;
  progressSeen = seen;
  progressAt = since;
  if (now - since < options.pauseDeadline)
    return false;
  if (!highPriority.runsWhatFits())
    return true;
  // What is known to fit beside what pauses runs, as long as it is not done. But what is known may
  // be wrong: a kernel may launch others. It is where that comes again; once may be a long copy.
  if (now - callSeenAt >= deadlinesToRun * options.pauseDeadline) {
    if (++longRuns == mostLongRuns)
      highPriority.headroom().seeUnknown();
    return true;
  }
  progressAt = now;
  return false;
}

void Dispatcher::release(PauseEnd why) {
  tracePause(control.pausedAt(), why);
  if (why == PauseEnd::Overdue) {
    Nanoseconds now = options.lane.clock(), none = pauseBackoff.miss(now);
    if (Trace *trace = options.lane.trace) {
      TraceEvent event;
      event.type = TraceEvent::Type::NoPauses;
      event.start = now;
      event.value = static_cast<std::uint64_t>(none.count());
      trace->add(event);
    }
  }
  static_cast<void>(control.release()); // an error of the device is the lanes' to report
}

void Dispatcher::tracePause(Nanoseconds since, PauseEnd why) const {
  Trace *trace = options.lane.trace;
  if (!trace)
    return;
  TraceEvent event;
  event.type = TraceEvent::Type::Pause;
  event.start = since;
  event.duration = options.lane.clock() - since;
  event.value = static_cast<std::uint64_t>(why);
  trace->add(event);
}

bool Dispatcher::pausesAreAllowed() const {
  Nanoseconds now = options.lane.clock();
  return options.lane.reserve != 0 && !closed && !inheritsHighPriority() &&
         !pauseBackoff.holds(now) && !highPriority.headroom().largeSince(now - largeOnesLast);
}

/// A wake may come before choosePausing() does. It would ask what has just been sent to yield, and
/// its blocks run to their ends then, however long they are.
void Dispatcher::expectPausing() const {
  if (control.whatPauses() == Pausing::None && pausesAreAllowed() && !lacksHeadroom())
    control.setPausing(lanesUnderWay() == 0 ? Pausing::All : Pausing::Some);
}

/// What the next wake is to say of what is under way.
void Dispatcher::choosePausing() {
  bool some = false, all = true;
  for (const std::unique_ptr<Lane> &lane : lanes()) {
    Pausing now = lane->pausing();
    some |= now != Pausing::None;
    all &= now == Pausing::All || !lane->underWay();
  }
  if (!pausesAreAllowed() || (some && lacksHeadroom()))
    some = false;
  control.setPausing(!some ? Pausing::None : all ? Pausing::All : Pausing::Some);
}

} // namespace tally::runtime
