// The queue's rules for streams, events and the device.
#include "hooks.h"

namespace tally::hooks {

namespace {

/// Whether a wait for the event is an order of what is queued, and of nothing else: once its record
/// is over so is all before that. On the legacy stream it orders all blocking ones as well.
bool isOrderOnly(const Engine &now, const StreamState &state, const Events::Tickets &event) {
  bool isOfOneStream = state.kind == StreamKind::Blocking || state.kind == StreamKind::NonBlocking;
  return state.device == now.deviceNumber() && isOfOneStream && event.onLane;
}

} // namespace

/// `work`: as RunAhead has it. `byKernel`: gives the launch that makes a copy or a fill, if one
/// can.
Hooks::Queued Hooks::queueBestEffort(const CudaApi &api, StreamState &state, cudaStream_t handle,
                                     const std::function<bool()> &mayQueue, const Run &call,
                                     const OnAnyStream &onAny, const AheadWork &work, Behind behind,
                                     const ByKernel &byKernel) {
  Engine *running = start(api);
  InHook inside;
  if (!running || captures.takesPart(api, handle))
    return {call(), 0};
  if (work.identity)
    if (auto status = running->tryAhead(state, work, call))
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
  Engine *now = start(api);
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
  if (Engine *now = running(); now && state.bestEffort)
    now->wait(state.lastTicket.load());
  // A best-effort stream too: it may have been of high priority when it was last used.
  if (HighFootprints *seen = footprints.load())
    seen->streamLeaves(state);
  if (Activity *shared = activity.load())
    shared->forget(state);
  streams.destroyed(state);
  countStreams();
}

void Hooks::countStreams() {
  if (Activity *shared = activity.load())
    shared->onDevice().setStreamCount(streams.count());
}

cudaError_t Hooks::synchronizeStream(const CudaApi &api, cudaStream_t handle) {
  StreamState &state = streams.find(api, handle);
  InHook inside;
  if (Engine *now = running(); now && !captures.takesPart(api, handle)) {
    now->waitBefore(state);
  }
  auto wait = [&] { return api.cudaStreamSynchronize(handle); };
  Activity *shared = activity.load(std::memory_order_acquire);
  if (shared && state.bestEffort) {
    cudaError_t status = wait();
    shared->noteAtRest();
    return withDeferred(status);
  }
  return withDeferred(shared ? shared->synchronize(state, wait) : wait());
}

cudaError_t Hooks::queryStream(const CudaApi &api, cudaStream_t handle) {
  StreamState &state = streams.find(api, handle);
  InHook inside;
  if (Engine *now = running(); now && !captures.takesPart(api, handle)) {
    bool over = now->queue().isOverUpTo(now->orderedAhead(state)) &&
                (!state.bestEffort || now->queue().isOver(state.lastTicket.load()));
    if (!over)
      return cudaErrorNotReady;
  }
  auto query = [&] { return api.cudaStreamQuery(handle); };
  Activity *shared = activity.load(std::memory_order_acquire);
  return withDeferred(shared ? shared->synchronize(state, query) : query());
}

cudaError_t Hooks::waitEvent(const CudaApi &api, cudaStream_t handle, cudaEvent_t event,
                             unsigned flags) {
  auto onAny = [&api, event, flags](cudaStream_t on) {
    return api.cudaStreamWaitEvent(on, event, flags);
  };
  auto call = [onAny, handle] { return onAny(handle); };
  StreamState &state = streams.find(api, handle);
  Engine *now = running();
  if (state.bestEffort) {
    // The event may bring the stream into a capture.
    if (captures.any())
      return afterDrain(state, call);
    auto mayQueue = [&] { return event && flags == 0; };
    Events::Tickets known = events.find(event);
    if (now && mayQueue() && isOrderOnly(*now, state, known)) {
      if (!now->queue().isOver(known.record))
        now->submitOrder(state, {.one = known.record});
      return cudaSuccess;
    }
    Queued queued =
        queueBestEffort(api, state, handle, mayQueue, call, {onAny}, {}, {.one = known.record});
    if (queued.ticket != 0)
      events.awaited(event, queued.ticket);
    return queued.status;
  }
  // Until the record is issued there is nothing that the stream could wait for.
  if (now)
    now->queue().wait(events.recordOf(event), true);
  return pass(state, call);
}

cudaError_t Hooks::recordEvent(const CudaApi &api, cudaEvent_t event, cudaStream_t handle,
                               unsigned flags) {
  auto onAny = [&api, event, flags](cudaStream_t on) {
    return flags == 0 ? api.cudaEventRecord(event, on)
                      : api.cudaEventRecordWithFlags(event, on, flags);
  };
  auto call = [onAny, handle] { return onAny(handle); };
  StreamState &state = streams.find(api, handle);
  if (state.bestEffort) {
    // Queued waits are for the record before.
    auto mayQueue = [&] { return event && flags == 0; };
    Queued queued = queueBestEffort(api, state, handle, mayQueue, call, {onAny, true}, {},
                                    {.upTo = events.useOf(event)});
    if (queued.ticket != 0)
      events.recorded(event, queued.ticket, queued.onLane);
    else
      events.recordedNow(event);
    return queued.status;
  }
  // An earlier record that is still queued must not come after this one, nor a wait, which is for
  // an earlier record.
  if (Engine *now = running())
    now->queue().waitUpTo(events.useOf(event), true);
  events.recordedNow(event);
  return pass(state, call, true);
}

cudaError_t Hooks::queryEvent(const CudaApi &api, cudaEvent_t event) {
  if (Engine *now = running(); now && !now->queue().isOver(events.recordOf(event)))
    return cudaErrorNotReady;
  InHook inside;
  return api.cudaEventQuery(event);
}

cudaError_t Hooks::synchronizeEvent(const CudaApi &api, cudaEvent_t event) {
  if (Engine *now = running())
    now->wait(events.recordOf(event));
  InHook inside;
  return withDeferred(api.cudaEventSynchronize(event));
}

cudaError_t Hooks::destroyEvent(const CudaApi &api, cudaEvent_t event) {
  std::uint64_t lastUse = events.useOf(event);
  events.forget(event);
  InHook inside;
  if (Engine *now = running()) {
    events.sweep([now](std::uint64_t ticket) { return now->queue().isOverUpTo(ticket); });
    // As CUDA's own, the call does not wait for what the event is still used by.
    if (!now->queue().isOverUpTo(lastUse)) {
      events.destroyLater(api, event, lastUse);
      return cudaSuccess;
    }
  }
  return api.cudaEventDestroy(event);
}

cudaError_t Hooks::elapsedTime(const CudaApi &api, float *ms, cudaEvent_t start, cudaEvent_t end) {
  for (cudaEvent_t each : {start, end})
    if (Engine *now = running(); now && !now->queue().isOver(events.recordOf(each)))
      return cudaErrorNotReady;
  InHook inside;
  return api.cudaEventElapsedTime(ms, start, end);
}

cudaError_t Hooks::synchronizeDevice(const CudaApi &api) {
  InHook inside;
  cudaError_t status = drained([&] { return api.cudaDeviceSynchronize(); });
  if (Activity *shared = activity.load())
    shared->noteAtRest();
  return withDeferred(status);
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
