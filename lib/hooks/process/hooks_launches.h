// Launches on streams that are not the thread's own. A part of hooks.h, which includes it.
#ifndef TALLY_LIB_HOOKS_PROCESS_HOOKS_LAUNCHES_H
#define TALLY_LIB_HOOKS_PROCESS_HOOKS_LAUNCHES_H

namespace tally::hooks {

template <class Request, class Call>
cudaError_t Hooks::launchKnown(const KnownStream &known, const CudaApi &api, const Request &request,
                               const Call &call) {
  known.state->launches.fetch_add(1, std::memory_order_relaxed);
  if (known.footprints)
    known.footprints->launch(api, *known.state, request);
  return passKnown(known, call);
}

template <class Call> cudaError_t Hooks::passKnown(const KnownStream &known, const Call &call) {
  InHook inside;
  threadState.launchedHigh = true;
  runtime::RequestScopeTracker *scopes = known.scopes; // as in launchOwn()
  runtime::HighStream *high = known.high;
  bool counted = scopes->countCall(*high);
  cudaError_t status = call();
  if (counted)
    scopes->endCall(*high);
  return status;
}

template <class Request, class Call>
[[gnu::noinline]] cudaError_t Hooks::launchOnAny(const CudaApi &api, cudaStream_t handle,
                                                 const Request &request, const Call &call) {
  if (streams.isLast(handle) && threadState.last.scopes)
    return launchKnown(threadState.last, api, request, call);
  StreamState &state = streams.find(api, handle);
  checkOnce();
  if (state.bestEffort.load(std::memory_order_relaxed)) {
    LaunchRequest made = request();
    if (auto status = tryLaunchAhead(api, state, handle, made, call))
      return *status;
    return launchBestEffort(api, state, handle, made, Run(call));
  }
  state.launches.fetch_add(1, std::memory_order_relaxed);
  if (HighFootprints *seen = footprints.load(std::memory_order_acquire))
    seen->launch(api, state, request);
  cudaError_t status = pass(state, call);
  knowLast(state);
  return status;
}

template <class Call>
std::optional<cudaError_t> Hooks::tryLaunchAhead(const CudaApi &api, StreamState &state,
                                                 cudaStream_t handle, const LaunchRequest &request,
                                                 const Call &call) {
  BestEffortEngine *now = start(api);
  if (!now || captures.takesPart(api, handle))
    return std::nullopt;
  std::uint64_t blocks = std::uint64_t{request.grid.x} * request.grid.y * request.grid.z;
  return now->tryAhead(state, {request.function, blocks}, call,
                       [&] { meetKernel(api, request.function); });
}

} // namespace tally::hooks

#endif
