#include "dispatch/pauses.h"

#include "trace/trace.h"

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

/// What is told to pause goes on when no scope is open any more, or when it must.
void Pauses::end() {
  if (std::optional<PauseEnd> why = mustEnd())
    return release(*why);
  bool paused = control.isPausing();
  Nanoseconds since = control.pausedAt(); // before it goes on: the next one may come then
  // An error of the device is the lanes' to report.
  if (Result<bool> went = control.settle(); !went || !*went || !paused)
    return;
  backoff.endWell();
  note(since, PauseEnd::Over);
}

/// Where high-priority work waits for what pauses, or may not fit beside it, or is not seen to do
/// anything for too long.
std::optional<PauseEnd> Pauses::mustEnd() {
  if (!control.isPausing() || control.snapshot().highPriorityActive == 0)
    return std::nullopt;
  if (closed)
    return PauseEnd::Closed;
  if (lanes.inheritsHighPriority())
    return PauseEnd::Awaited;
  if (scopes.headroom().largeSince(options.lane.clock() - largeOnesLast) || lanes.lacksHeadroom())
    return PauseEnd::NoRoom;
  return isOverdue() ? std::optional(PauseEnd::Overdue) : std::nullopt;
}

/// Whether nothing of the high-priority work was seen to happen for too long.
bool Pauses::isOverdue() {
  Nanoseconds now = options.lane.clock();
  if (now - lookedForProgress < progressInterval)
    return false;
  lookedForProgress = now;
  std::uint64_t seen = scopes.progress();
  Nanoseconds since = std::max(progressAt, control.pausedAt());
  if (seen != progressSeen || control.pausedAt() > callSeenAt)
    callSeenAt = now;
  if (seen != progressSeen)
    since = now;
  progressSeen = seen;
  progressAt = since;
  if (now - since < options.pauseDeadline)
    return false;
  if (!scopes.runsWhatFits())
    return true;
  // What is known to fit beside what pauses runs, as long as it is not done. But what is known may
  // be wrong: a kernel may launch others. It is where that comes again; once may be a long copy.
  if (now - callSeenAt >= deadlinesToRun * options.pauseDeadline) {
    if (++longRuns == mostLongRuns)
      scopes.headroom().seeUnknown();
    return true;
  }
  progressAt = now;
  return false;
}

void Pauses::release(PauseEnd why) {
  note(control.pausedAt(), why);
  if (why == PauseEnd::Overdue) {
    Nanoseconds now = options.lane.clock(), none = backoff.miss(now);
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

void Pauses::note(Nanoseconds since, PauseEnd why) const {
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

bool Pauses::areAllowed() const {
  Nanoseconds now = options.lane.clock();
  return options.lane.reserve != 0 && !closed && !lanes.inheritsHighPriority() &&
         !backoff.holds(now) && !scopes.headroom().largeSince(now - largeOnesLast);
}

/// A wake may come before choose() does. It would ask what has just been sent to yield, and
/// its blocks run to their ends then, however long they are.
void Pauses::expect() const {
  if (control.whatPauses() == Pausing::None && areAllowed() && !lanes.lacksHeadroom())
    control.setPausing(lanes.underWay() == 0 ? Pausing::All : Pausing::Some);
}

/// What the next wake is to say of what is under way.
void Pauses::choose() {
  Pausing now = lanes.pausing();
  if (!areAllowed() || (now != Pausing::None && lanes.lacksHeadroom()))
    now = Pausing::None;
  control.setPausing(now);
}

} // namespace tally::runtime
