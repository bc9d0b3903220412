// The queue's rules for streams, events and the device.
#include "process/hooks.h"

namespace tally::hooks {

/// `work`: as RunAhead has it. `byKernel`: gives the launch that makes a copy or a fill, if one
/// can.
Hooks::Queued Hooks::queueBestEffort(const CudaApi &api, StreamState &state, cudaStream_t handle,
                                     const std::function<bool()> &mayQueue, const Run &call,
                                     const OnAnyStream &onAny, const AheadWork &work, Behind behind,
                                     const ByKernel &byKernel) {
  BestEffortEngine *running = start(api);
  InHook inside;
  if (!running || captures.takesPart(api, handle))
    return {call(), 0};
  if (work.identity)
    if (auto status = running->tryAhead(state, work, call, [] {}))
      return {*status, 0};
  bool idle = running->queue().isIdle();
  // The default stream of a thread means another stream on the dispatcher's thread.
  bool mayWait = !idle && state.kind != StreamKind::PerThread;
  bool isServed = state.device == running->deviceNumber();
  if (OwnKernels *own = running->ownKernels(); own && byKernel && mayWait && isServed)
    if (std::optional<OwnLaunch> launch = byKernel(*own)) {
      running->submit(state, std::move(*launch), onAny.run);
      return {cudaSuccess, 0};
    }
  if (mayWait && mayQueue()) {
    bool onLane = onAny.run && isServed;
    std::uint64_t ticket =
        onLane ? running->submitOnLane(state, onAny, behind) : running->submit(state, call, behind);
    return {cudaSuccess, ticket, onLane};
  }
  // What other threads queue meanwhile is not ordered before it.
  if (!idle)
    running->waitBefore(state, behind);
  cudaError_t status = call();
  running->noteCall(state);
  return {status, 0};
}

cudaError_t Hooks::priorityRange(const CudaApi &api, int *lowest, int *highest) {
  Priorities all;
  cudaError_t status = Priorities::ask(api, all);
  if (status != cudaSuccess)
    return status;
  if (lowest)
    *lowest = all.lowest;
  if (highest)
    *highest = all.highest;
  return status;
}

cudaError_t Hooks::createStream(const CudaApi &api, cudaStream_t *made, unsigned flags,
                                int priority) {
  InHook inside;
  int low = 0, high = 0;
  if (priorityRange(api, &low, &high) == cudaSuccess && priority < high)
    priority = high;
  cudaError_t status = api.cudaStreamCreateWithPriority(made, flags, priority);
  if (status == cudaSuccess && streams.created(api, *made, flags, priority < low ? priority : low))
    openClasses(api);
  countStreams();
  return status;
}

/// Before requests may have to wait for the driver. Where all is best effort there are none.
void Hooks::openClasses(const CudaApi &api) {
  BestEffortEngine *now = start(api);
  if (!now || settings.bestEffort)
    return;
  for (std::uint32_t each : streams.bestEffortClasses(now->deviceNumber()))
    now->queue().open(each);
}

cudaError_t Hooks::destroyStream(const CudaApi &api, cudaStream_t handle) {
  forgetStream(streams.find(api, handle));
  InHook inside;
  return api.cudaStreamDestroy(handle);
}

/// Before the stream is destroyed: its handle may be another stream's as soon as it is gone.
void Hooks::forgetStream(StreamState &state) {
  InHook inside;
  if (BestEffortEngine *now = running(); now && state.bestEffort)
    now->wait(state.lastTicket.load());
  // A best-effort stream too: it may have been of high priority when it was last used.
  if (HighFootprints *seen = footprints.load())
    seen->streamLeaves(state);
  if (Activity *shared = activity.load())
    shared->forget(state);
  streams.destroyed(state);
  countStreams();
}

/// Tuners (Triton's, Inductor's, cuDNN's) choose by such times, and keep the choice.
void Hooks::noteTiming(cudaEvent_t start, cudaEvent_t end) {
  BestEffortEngine *now = running();
  Events::Tickets from = events.find(start), to = events.find(end);
  if (now && from.record != 0 && to.record != 0 && from.requests != now->requestsSoFar())
    warn(Warning::Timing,
         "a time between two events of best-effort work has requests in it. If it was measured to "
         "choose a kernel, the choice may be a bad one: tune while nobody else is on the GPU");
}

void Hooks::countStreams() {
  if (Activity *shared = activity.load())
    shared->onDevice().setStreamCount(streams.count());
}

cudaError_t Hooks::setDevice(const CudaApi &api, int device) {
  InHook inside;
  cudaError_t status = api.cudaSetDevice(device);
  if (status == cudaSuccess)
    streams.deviceChanged(device);
  return status;
}

cudaError_t Hooks::lastError(const CudaApi &api, bool clear) {
  InHook inside;
  return withDeferred(clear ? api.cudaGetLastError() : api.cudaPeekAtLastError(), clear);
}

cudaError_t Hooks::setClass(const CudaApi &api, cudaStream_t handle, bool bestEffort) {
  StreamState &state = streams.find(api, handle);
  drain();
  streams.setClass(state, bestEffort);
  return !bestEffort || start(api) ? cudaSuccess : cudaErrorNotSupported;
}

cudaError_t Hooks::setBestEffortClass(const CudaApi &api, cudaStream_t handle,
                                      std::uint32_t number) {
  if (number < 1 || number > runtime::lowestBestEffortClass)
    return cudaErrorInvalidValue;
  StreamState &state = streams.find(api, handle);
  if (!state.bestEffort)
    drain();
  streams.setBestEffortClass(state, number);
  return start(api) ? cudaSuccess : cudaErrorNotSupported;
}

} // namespace tally::hooks
