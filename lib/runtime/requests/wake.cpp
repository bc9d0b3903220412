// A request wakes the high priority: best-effort work is told to yield, and later may go on.
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
    traced.idle();
  if (ArenaSlot *slot = published)
    slot->withdraw(at);
  return last;
}

} // namespace tally::runtime
