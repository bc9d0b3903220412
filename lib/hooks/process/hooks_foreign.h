// The queue's rules for launches of libraries that are not linked with the hooks, by the driver's
// calls. A part of hooks.h, which includes it.
#ifndef TALLY_LIB_HOOKS_PROCESS_HOOKS_FOREIGN_H
#define TALLY_LIB_HOOKS_PROCESS_HOOKS_FOREIGN_H

namespace tally::hooks {

template <class Call, class Take, class See>
auto Hooks::foreignLaunch(cudaStream_t handle, const AheadWork &work, Call call, Take take, See see)
    -> decltype(call()) {
  // Without best-effort work no question is asked: the runtime may be about to start.
  if (!running() && !activity.load(std::memory_order_relaxed) && !settings.bestEffort) {
    foreignHigh.fetch_add(1, std::memory_order_relaxed);
    auto status = call();
    if (mayJoin.load(std::memory_order_relaxed) && static_cast<int>(status) == cudaSuccess)
      joinLater(foreignApi());
    return status;
  }
  StreamState &state = streams.find(foreignApi(), handle);
  if (!state.bestEffort.load(std::memory_order_relaxed)) {
    foreignHigh.fetch_add(1, std::memory_order_relaxed);
    if (HighFootprints *seen = footprints.load(std::memory_order_acquire))
      see(*seen, foreignApi(), state);
    return pass(state, call);
  }
  foreignBestEffort.fetch_add(1, std::memory_order_relaxed);
  decltype(call()) status{};
  if (auto made = tryForeignAhead(state, work, [&] { return static_cast<int>(call()); }))
    return static_cast<decltype(call())>(*made);
  if (!queueForeign(state, take))
    inTurn(state, [&] {
      status = call();
      return static_cast<cudaError_t>(status); // the two number errors alike
    });
  return status;
}

} // namespace tally::hooks

#endif
