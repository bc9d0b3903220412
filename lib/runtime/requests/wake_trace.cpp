#include "requests/wake_trace.h"

namespace tally::runtime {

/// Takes the times that the control word has noted itself, so that a wake costs nothing more.
void WakeTrace::wakes(bool byPolicy) {
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

void WakeTrace::idle() {
  if (!trace)
    return;
  wakes();
  Snapshot now = control.snapshot();
  TraceEvent event;
  event.type = TraceEvent::Type::Idle;
  event.start = now.now - now.sinceHighPriorityEnded;
  trace->add(event);
}

} // namespace tally::runtime
