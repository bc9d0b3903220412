#include "process/call_rules.h"

#include <utility>

namespace tally::hooks {

CallRules::Queued CallRules::queueBestEffort(const CudaApi &api, StreamState &state,
                                             cudaStream_t handle,
                                             const std::function<bool()> &mayQueue, const Run &call,
                                             const OnAnyStream &onAny, const AheadWork &work,
                                             Behind behind, const ByKernel &byKernel) {
  BestEffortEngine *running = served.start(api);
  InHook inside;
  if (!running || captures.takesPart(api, handle))
    return {call(), 0};
  if (work.identity)
    if (auto status = running->tryAhead(state, work, call, [] {}))
      return {*status, 0};
  bool idle = running->queue().isIdle();
  // A thread's default stream handle names another stream on the dispatcher's thread.
  bool hasQueue = state.kind != StreamKind::PerThread;
  bool isServed = state.device == running->deviceNumber();
  if (OwnKernels *own = running->ownKernels(); own && byKernel && hasQueue && isServed)
    if (std::optional<OwnLaunch> launch = byKernel(*own, idle)) {
      running->submit(state, std::move(*launch), onAny.run);
      return {cudaSuccess, 0};
    }
  if (!idle && hasQueue && mayQueue()) {
    bool onLane = onAny.run && isServed;
    std::uint64_t ticket =
        onLane ? running->submitOnLane(state, onAny, behind) : running->submit(state, call, behind);
    return {cudaSuccess, ticket, onLane};
  }
  // Operations that other threads queue meanwhile are not ordered before the call.
  if (!idle)
    running->waitBefore(state, behind);
  cudaError_t status = call();
  running->noteCall(state);
  return {status, 0};
}

} // namespace tally::hooks
