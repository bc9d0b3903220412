// Events: records, waits and queries, made through the CUDA runtime or through the driver.
#ifndef TALLY_LIB_HOOKS_PROCESS_EVENT_CALLS_H
#define TALLY_LIB_HOOKS_PROCESS_EVENT_CALLS_H

#include "process/call_rules.h"
#include "process/served_device.h"
#include "state/captures.h"
#include "state/events.h"
#include "state/in_hook.h"
#include "state/streams.h"
#include "tables/cuda_api.h"

#include <cstdint>

namespace tally::hooks {

/// Thread-safe.
class EventCalls {
public:
  EventCalls(StreamTable &streams, const Captures &captures, ServedDevice &served, CallRules &rules)
      : streams(streams), captures(captures), served(served), rules(rules) {}

  // `call` makes the call itself, through the runtime or the driver. `on(stream)` makes it on that
  // stream.

  template <class On>
  cudaError_t wait(const CudaApi &api, cudaStream_t handle, cudaEvent_t event, unsigned flags,
                   const On &on) {
    auto call = [on, handle] { return on(handle); };
    StreamState &state = streams.find(api, handle);
    BestEffortEngine *now = served.engine();
    if (state.bestEffort) {
      // The event may bring the stream into a capture.
      if (captures.any())
        return rules.afterDrain(state, call);
      auto mayQueue = [&] { return event && flags == 0; };
      Events::Tickets known = events.find(event);
      if (now && mayQueue() && isOrderOnly(*now, state, known)) {
        if (!now->queue().isOver(known.record))
          now->submitOrder(state, {.one = known.record});
        return cudaSuccess;
      }
      CallRules::Queued queued = rules.queueBestEffort(api, state, handle, mayQueue, call, {on}, {},
                                                       {.one = known.record});
      if (queued.ticket != 0)
        events.awaited(event, queued.ticket);
      return queued.status;
    }
    // Until the record is issued, the event holds no work that the stream could wait for.
    if (now)
      now->queue().wait(events.recordOf(event), true);
    return rules.pass(state, call);
  }
  template <class On>
  cudaError_t record(const CudaApi &api, cudaEvent_t event, cudaStream_t handle, unsigned flags,
                     const On &on) {
    auto call = [on, handle] { return on(handle); };
    StreamState &state = streams.find(api, handle);
    if (state.bestEffort) {
      // Queued waits are for the previous record.
      auto mayQueue = [&] { return event && flags == 0; };
      CallRules::Queued queued = rules.queueBestEffort(
          api, state, handle, mayQueue, call, {on, true}, {}, {.upTo = events.useOf(event)});
      if (queued.ticket != 0)
        events.recorded(event, queued.ticket, queued.onLane, served.engine()->requestsSoFar());
      else
        events.recordedNow(event);
      return queued.status;
    }
    // This record must not overtake an earlier queued record, nor a queued wait for an earlier
    // record.
    if (BestEffortEngine *now = served.engine())
      now->queue().waitUpTo(events.useOf(event), true);
    events.recordedNow(event);
    return rules.pass(state, call, true);
  }
  template <class Call> cudaError_t query(cudaEvent_t event, const Call &call) {
    if (BestEffortEngine *now = served.engine();
        now && !now->queue().isOver(events.recordOf(event)))
      return cudaErrorNotReady;
    InHook inside;
    return call();
  }
  template <class Call> cudaError_t synchronize(cudaEvent_t event, const Call &call) {
    if (BestEffortEngine *now = served.engine())
      now->wait(events.recordOf(event));
    InHook inside;
    cudaError_t status = call();
    if (Activity *shared = served.activity())
      shared->noteWait(status);
    return served.withDeferred(status);
  }
  template <class Call>
  cudaError_t destroy(const CudaApi &api, cudaEvent_t event, const Call &call) {
    std::uint64_t lastUse = events.useOf(event);
    events.forget(event);
    InHook inside;
    if (BestEffortEngine *now = served.engine()) {
      events.sweep([now](std::uint64_t ticket) { return now->queue().isOverUpTo(ticket); });
      // Like CUDA's own call, this one does not wait for operations that still use the event.
      if (!now->queue().isOverUpTo(lastUse)) {
        events.destroyLater(api, event, lastUse);
        return cudaSuccess;
      }
    }
    return call();
  }
  template <class Call>
  cudaError_t elapsedTime(cudaEvent_t start, cudaEvent_t end, const Call &call) {
    for (cudaEvent_t each : {start, end})
      if (BestEffortEngine *now = served.engine();
          now && !now->queue().isOver(events.recordOf(each)))
        return cudaErrorNotReady;
    noteTiming(start, end);
    InHook inside;
    return call();
  }

  // The CUDA runtime's calls.

  cudaError_t wait(const CudaApi &api, cudaStream_t handle, cudaEvent_t event, unsigned flags) {
    return wait(api, handle, event, flags, [&api, event, flags](cudaStream_t on) {
      return api.cudaStreamWaitEvent(on, event, flags);
    });
  }
  cudaError_t record(const CudaApi &api, cudaEvent_t event, cudaStream_t handle, unsigned flags) {
    return record(api, event, handle, flags, [&api, event, flags](cudaStream_t on) {
      return flags == 0 ? api.cudaEventRecord(event, on)
                        : api.cudaEventRecordWithFlags(event, on, flags);
    });
  }
  cudaError_t query(const CudaApi &api, cudaEvent_t event) {
    return query(event, [&] { return api.cudaEventQuery(event); });
  }
  cudaError_t synchronize(const CudaApi &api, cudaEvent_t event) {
    return synchronize(event, [&] { return api.cudaEventSynchronize(event); });
  }
  cudaError_t destroy(const CudaApi &api, cudaEvent_t event) {
    return destroy(api, event, [&] { return api.cudaEventDestroy(event); });
  }
  cudaError_t elapsedTime(const CudaApi &api, float *ms, cudaEvent_t start, cudaEvent_t end) {
    return elapsedTime(start, end, [&] { return api.cudaEventElapsedTime(ms, start, end); });
  }

  /// The queue is not used any more: destroys the events that were kept for it.
  void destroyKept() {
    events.sweep([](std::uint64_t) { return true; });
  }

private:
  /// Whether a wait for the event only orders queued operations: once its record is over, so is all
  /// work before the record. On the legacy stream such a wait orders all blocking streams as well.
  static bool isOrderOnly(const BestEffortEngine &now, const StreamState &state,
                          const Events::Tickets &event) {
    bool isOfOneStream =
        state.kind == StreamKind::Blocking || state.kind == StreamKind::NonBlocking;
    return state.device == now.deviceNumber() && isOfOneStream && event.onLane;
  }
  /// The program asks for the time between two events: prints one line if requests came in between.
  void noteTiming(cudaEvent_t start, cudaEvent_t end);

  StreamTable &streams;
  const Captures &captures;
  ServedDevice &served;
  CallRules &rules;
  Events events;
};

} // namespace tally::hooks

#endif
