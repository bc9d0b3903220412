// The queue's rules for waits and events, by whichever call: the CUDA runtime's or the driver's.
// A part of hooks.h, which includes it.
#ifndef TALLY_LIB_HOOKS_PROCESS_HOOKS_EVENTS_H
#define TALLY_LIB_HOOKS_PROCESS_HOOKS_EVENTS_H

namespace tally::hooks {

/// Whether a wait for the event is an order of what is queued, and of nothing else: once its record
/// is over so is all before that. On the legacy stream it orders all blocking ones as well.
inline bool isOrderOnly(const BestEffortEngine &now, const StreamState &state,
                        const Events::Tickets &event) {
  bool isOfOneStream = state.kind == StreamKind::Blocking || state.kind == StreamKind::NonBlocking;
  return state.device == now.deviceNumber() && isOfOneStream && event.onLane;
}

template <class Call>
cudaError_t Hooks::synchronizeStream(const CudaApi &api, cudaStream_t handle, const Call &call) {
  StreamState &state = streams.find(api, handle);
  InHook inside;
  if (BestEffortEngine *now = running(); now && !captures.takesPart(api, handle))
    now->waitBefore(state);
  Activity *shared = activity.load(std::memory_order_acquire);
  if (shared && state.bestEffort) {
    cudaError_t status = call();
    shared->noteAtRest();
    return withDeferred(status);
  }
  return withDeferred(shared ? shared->synchronize(state, call) : call());
}

template <class Call>
cudaError_t Hooks::queryStream(const CudaApi &api, cudaStream_t handle, const Call &call) {
  StreamState &state = streams.find(api, handle);
  InHook inside;
  if (BestEffortEngine *now = running(); now && !captures.takesPart(api, handle)) {
    bool over = now->queue().isOverUpTo(now->orderedAhead(state)) &&
                (!state.bestEffort || now->queue().isOver(state.lastTicket.load()));
    if (!over)
      return cudaErrorNotReady;
  }
  Activity *shared = activity.load(std::memory_order_acquire);
  return withDeferred(shared ? shared->synchronize(state, call) : call());
}

template <class On>
cudaError_t Hooks::waitEvent(const CudaApi &api, cudaStream_t handle, cudaEvent_t event,
                             unsigned flags, const On &on) {
  auto call = [on, handle] { return on(handle); };
  StreamState &state = streams.find(api, handle);
  BestEffortEngine *now = running();
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
        queueBestEffort(api, state, handle, mayQueue, call, {on}, {}, {.one = known.record});
    if (queued.ticket != 0)
      events.awaited(event, queued.ticket);
    return queued.status;
  }
  // Until the record is issued there is nothing that the stream could wait for.
  if (now)
    now->queue().wait(events.recordOf(event), true);
  return pass(state, call);
}

template <class On>
cudaError_t Hooks::recordEvent(const CudaApi &api, cudaEvent_t event, cudaStream_t handle,
                               unsigned flags, const On &on) {
  auto call = [on, handle] { return on(handle); };
  StreamState &state = streams.find(api, handle);
  if (state.bestEffort) {
    // Queued waits are for the record before.
    auto mayQueue = [&] { return event && flags == 0; };
    Queued queued = queueBestEffort(api, state, handle, mayQueue, call, {on, true}, {},
                                    {.upTo = events.useOf(event)});
    if (queued.ticket != 0)
      events.recorded(event, queued.ticket, queued.onLane, running()->requestsSoFar());
    else
      events.recordedNow(event);
    return queued.status;
  }
  // An earlier record that is still queued must not come after this one, nor a wait, which is for
  // an earlier record.
  if (BestEffortEngine *now = running())
    now->queue().waitUpTo(events.useOf(event), true);
  events.recordedNow(event);
  return pass(state, call, true);
}

template <class Call> cudaError_t Hooks::queryEvent(cudaEvent_t event, const Call &call) {
  if (BestEffortEngine *now = running(); now && !now->queue().isOver(events.recordOf(event)))
    return cudaErrorNotReady;
  InHook inside;
  return call();
}

template <class Call> cudaError_t Hooks::synchronizeEvent(cudaEvent_t event, const Call &call) {
  if (BestEffortEngine *now = running())
    now->wait(events.recordOf(event));
  InHook inside;
  return withDeferred(call());
}

template <class Call>
cudaError_t Hooks::destroyEvent(const CudaApi &api, cudaEvent_t event, const Call &call) {
  std::uint64_t lastUse = events.useOf(event);
  events.forget(event);
  InHook inside;
  if (BestEffortEngine *now = running()) {
    events.sweep([now](std::uint64_t ticket) { return now->queue().isOverUpTo(ticket); });
    // As CUDA's own, the call does not wait for what the event is still used by.
    if (!now->queue().isOverUpTo(lastUse)) {
      events.destroyLater(api, event, lastUse);
      return cudaSuccess;
    }
  }
  return call();
}

template <class Call>
cudaError_t Hooks::elapsedTime(cudaEvent_t start, cudaEvent_t end, const Call &call) {
  for (cudaEvent_t each : {start, end})
    if (BestEffortEngine *now = running(); now && !now->queue().isOver(events.recordOf(each)))
      return cudaErrorNotReady;
  noteTiming(start, end);
  InHook inside;
  return call();
}

template <class Call> cudaError_t Hooks::synchronizeDevice(const Call &call) {
  InHook inside;
  cudaError_t status = drained(call);
  if (Activity *shared = activity.load())
    shared->noteAtRest();
  return withDeferred(status);
}

// By the CUDA runtime's calls.

inline cudaError_t Hooks::synchronizeStream(const CudaApi &api, cudaStream_t handle) {
  return synchronizeStream(api, handle, [&] { return api.cudaStreamSynchronize(handle); });
}

inline cudaError_t Hooks::queryStream(const CudaApi &api, cudaStream_t handle) {
  return queryStream(api, handle, [&] { return api.cudaStreamQuery(handle); });
}

inline cudaError_t Hooks::waitEvent(const CudaApi &api, cudaStream_t handle, cudaEvent_t event,
                                    unsigned flags) {
  return waitEvent(api, handle, event, flags, [&api, event, flags](cudaStream_t on) {
    return api.cudaStreamWaitEvent(on, event, flags);
  });
}

inline cudaError_t Hooks::recordEvent(const CudaApi &api, cudaEvent_t event, cudaStream_t handle,
                                      unsigned flags) {
  return recordEvent(api, event, handle, flags, [&api, event, flags](cudaStream_t on) {
    return flags == 0 ? api.cudaEventRecord(event, on)
                      : api.cudaEventRecordWithFlags(event, on, flags);
  });
}

inline cudaError_t Hooks::queryEvent(const CudaApi &api, cudaEvent_t event) {
  return queryEvent(event, [&] { return api.cudaEventQuery(event); });
}

inline cudaError_t Hooks::synchronizeEvent(const CudaApi &api, cudaEvent_t event) {
  return synchronizeEvent(event, [&] { return api.cudaEventSynchronize(event); });
}

inline cudaError_t Hooks::destroyEvent(const CudaApi &api, cudaEvent_t event) {
  return destroyEvent(api, event, [&] { return api.cudaEventDestroy(event); });
}

inline cudaError_t Hooks::elapsedTime(const CudaApi &api, float *ms, cudaEvent_t start,
                                      cudaEvent_t end) {
  return elapsedTime(start, end, [&] { return api.cudaEventElapsedTime(ms, start, end); });
}

inline cudaError_t Hooks::synchronizeDevice(const CudaApi &api) {
  return synchronizeDevice([&] { return api.cudaDeviceSynchronize(); });
}

} // namespace tally::hooks

#endif
