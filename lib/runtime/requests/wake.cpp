// How a request wakes the high priority: best-effort work is told to yield, and that it may go on.
#include "requests/request_scope_tracker.h"

namespace tally::runtime {

Result<void> RequestScopeTracker::raise(bool callFollows, std::optional<Nanoseconds> at) {
  ArenaSlot *slot = published;
  control.fetchForRaise();
  if (slot) {
    slot->fetchForRaise();
    slot->raise(at);
  }
  Result<void> raised = callFollows ? control.raise(true, at) : control.raiseAndTell(true, at);
  if (!raised && slot)
    slot->withdraw();
  if (callFollows)
    control.letWriteGoFirst();
  return raised;
}

Result<bool> RequestScopeTracker::withdraw(std::optional<Nanoseconds> at) {
  Result<bool> last = control.withdraw(at);
  if (last && *last)
    traceIdle();
  if (ArenaSlot *slot = published)
    slot->withdraw(at);
  return last;
}

/// What the control word has noted itself is taken from there, so that waking costs nothing more.
void RequestScopeTracker::traceWakes(bool byPolicy) {
  if (!trace)
    return;
  std::uint64_t now = control.currentEpoch(), known = tracedEpoch.load();
  while (known < now && !tracedEpoch.compare_exchange_weak(known, now)) {
  }
  for (; known < now; ++known) {
    TraceEvent event;
    event.type = byPolicy ? TraceEvent::Type::Stop : TraceEvent::Type::Wake;
    event.start = control.raisedAfter(known);
    event.value = known + 1;
    trace->add(event);
  }
}

void RequestScopeTracker::traceIdle() {
  if (!trace)
    return;
  traceWakes();
  Snapshot now = control.snapshot();
  TraceEvent event;
  event.type = TraceEvent::Type::Idle;
  event.start = now.now - now.sinceHighPriorityEnded;
  trace->add(event);
}

} // namespace tally::runtime
