#include "dispatch/pauses.h"

#include "trace/trace.h"

#include <algorithm>

namespace tally::runtime {

using namespace std::chrono_literals;

namespace {

/// After a high-priority launch that does not fit beside paused work, the runtime expects further
/// such launches for this time.
constexpr Nanoseconds largeOnesLast = 1s;
/// Longest pause without a high-priority call, in deadlines.
constexpr int deadlinesToRun = 50;
/// After so many pauses of that length the headroom that requests need counts as unknown.
constexpr int mostLongRuns = 3;
/// Interval between reads of the launch counters, to see progress.
constexpr Nanoseconds progressInterval = 20us;

} // namespace

void Pauses::end() {
  if (std::optional<PauseEnd> why = mustEnd())
    return release(*why);
  bool paused = control.isPausing();
  Nanoseconds since = control.pausedAt(); // read before the pause ends: then the next may begin
  // The lanes report an error of the device.
  if (Result<bool> went = control.settle(); !went || !*went || !paused)
    return;
  backoff.endWell();
  note(since, PauseEnd::Over);
}

/// Returns why a pause must end although scopes are open: the process is closing, high-priority
/// work waits for paused work or may not fit beside it, or shows no progress for too long.
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

/// Whether high-priority work has shown no progress for too long.
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
  // High-priority work that is known to fit beside paused work is running. But that knowledge may
  // be wrong: a kernel may launch others. One long run may be a long copy; several mean it is
  // wrong.
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
  static_cast<void>(control.release()); // the lanes report an error of the device
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

/// Call this before sending work that pauses: a wake may come before choose(). Else the wake would
/// ask the work to yield, and its blocks would run to their ends, however long they are.
void Pauses::expect() const {
  if (control.whatPauses() == Pausing::None && areAllowed() && !lanes.lacksHeadroom())
    control.setPausing(lanes.underWay() == 0 ? Pausing::All : Pausing::Some);
}

/// Chooses whether the next wake pauses all, some or none of the batches under way.
void Pauses::choose() {
  Pausing now = lanes.pausing();
  if (!areAllowed() || (now != Pausing::None && lanes.lacksHeadroom()))
    now = Pausing::None;
  control.setPausing(now);
}

} // namespace tally::runtime
