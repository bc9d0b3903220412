#include "process/library_calls.h"

#include "state/in_hook.h"

namespace tally::hooks {

/// Launches of libraries have a count of their own.
std::optional<int> LibraryCalls::tryAhead(StreamState &state, AheadWork work,
                                          const std::function<int()> &call) {
  BestEffortEngine *now = served.start(api());
  if (!now || captures.takesPart(api(), state.handle))
    return std::nullopt;
  work.isCounted = false;
  return now->tryAhead(state, work, call, [] {});
}

/// Queues a library's launch. Returns false where the calling thread has to make it.
bool LibraryCalls::queue(StreamState &state, const std::function<TakenLaunch()> &take) {
  BestEffortEngine *now = served.start(api());
  InHook inside;
  if (!now || captures.takesPart(api(), state.handle))
    return false;
  auto refuse = [this](InTurnReason reason) {
    counts.add(reason);
    return false;
  };
  if (state.device != now->deviceNumber())
    return refuse(InTurnReason::OtherDevice);
  TakenLaunch taken = take();
  if (!taken.launch)
    return refuse(taken.reason);
  if (taken.launch->context != now->context())
    return refuse(InTurnReason::OtherContext);
  now->submit(state, taken.launch);
  return true;
}

void LibraryCalls::inTurn(StreamState &state, const Run &call) {
  BestEffortEngine *now = served.start(api());
  if (!now || captures.takesPart(api(), state.handle)) {
    call();
    return;
  }
  // Nothing is known of a library's launch that cannot be queued: all of them share one identity.
  now->inTurn(state, true, this, call);
}

} // namespace tally::hooks
