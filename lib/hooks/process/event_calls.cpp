#include "process/event_calls.h"

namespace tally::hooks {

/// Tuners (Triton's, Inductor's, cuDNN's) use the times between events for choices that they keep.
void EventCalls::noteTiming(cudaEvent_t start, cudaEvent_t end) {
  BestEffortEngine *now = served.engine();
  Events::Tickets from = events.find(start), to = events.find(end);
  if (now && from.record != 0 && to.record != 0 && from.requests != now->requestsSoFar())
    warn(Warning::Timing,
         "a time between two events of best-effort work has requests in it. If it was measured to "
         "choose a kernel, the choice may be a bad one: tune while nobody else is on the GPU");
}

} // namespace tally::hooks
