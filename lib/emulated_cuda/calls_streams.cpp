// Streams, events and functions of the host.
#include "calls.h"
#include "streams.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

namespace tally::hooks::emulated {

namespace {

using Clock = std::chrono::steady_clock;

/// A record of an event: its place in a stream, and the time when the stream reached it.
struct Record {
  runtime::EmulatorDevice::Marker marker;
  Clock::time_point time; ///< written before the marker is reached
};

struct Event {
  unsigned flags = 0;
  std::shared_ptr<Capture> capture; ///< where the last record was captured
  std::vector<GraphNode *> tips;

  /// The last record; null before the first. One thread may record while another queries.
  std::shared_ptr<Record> record() {
    std::unique_lock lock(mutex);
    return last;
  }
  void setRecord(std::shared_ptr<Record> made) {
    std::unique_lock lock(mutex);
    last = std::move(made);
  }

private:
  std::mutex mutex;
  std::shared_ptr<Record> last;
};

Event *eventOf(cudaEvent_t handle) { return reinterpret_cast<Event *>(handle); }

/// Runs `call(device, stream)` on the stream of a handle.
template <class Call> cudaError_t onStream(cudaStream_t handle, Call call) {
  return served([&](runtime::EmulatorDevice &device) {
    Stream *stream = Streams::get().find(handle);
    return stream ? call(device, *stream) : cudaErrorInvalidResourceHandle;
  });
}

/// Runs `call(device, record)` on an event's last record; returns success where there is none yet.
template <class Call> cudaError_t onRecord(cudaEvent_t handle, Call call) {
  return served([&](runtime::EmulatorDevice &device) {
    Event *event = eventOf(handle);
    if (!event)
      return cudaErrorInvalidResourceHandle;
    std::shared_ptr<Record> record = event->record();
    return record ? call(device, *record) : cudaSuccess;
  });
}

cudaError_t created(unsigned flags, int priority, cudaStream_t *result) {
  return served([&](runtime::EmulatorDevice &) {
    return Streams::get().create(flags, std::clamp(priority, -5, 0), result);
  });
}

cudaStreamCaptureStatus statusOf(const Stream &stream) {
  if (!stream.capture)
    return cudaStreamCaptureStatusNone;
  return stream.capture->isInvalid ? cudaStreamCaptureStatusInvalidated
                                   : cudaStreamCaptureStatusActive;
}

} // namespace

cudaError_t Calls::cudaStreamCreate(cudaStream_t *result) {
  return created(cudaStreamDefault, 0, result);
}
cudaError_t Calls::cudaStreamCreateWithFlags(cudaStream_t *result, unsigned flags) {
  return created(flags, 0, result);
}
cudaError_t Calls::cudaStreamCreateWithPriority(cudaStream_t *result, unsigned flags,
                                                int priority) {
  return created(flags, priority, result);
}

cudaError_t Calls::cudaStreamDestroy(cudaStream_t stream) {
  return served([&](runtime::EmulatorDevice &) { return Streams::get().destroy(stream); });
}

cudaError_t Calls::cudaStreamSynchronize(cudaStream_t handle) {
  return onStream(handle, [&](runtime::EmulatorDevice &device, Stream &stream) {
    if (stream.capture)
      return refuseInCapture(stream);
    return Context::get().meaning(Streams::get().synchronize(device, stream));
  });
}

cudaError_t Calls::cudaStreamQuery(cudaStream_t handle) {
  return onStream(handle, [&](runtime::EmulatorDevice &device, Stream &stream) {
    if (stream.capture)
      return refuseInCapture(stream);
    auto idle = Streams::get().isIdle(device, stream);
    if (!idle)
      return Context::get().meaning(idle.error());
    return *idle ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t Calls::cudaStreamGetPriority(cudaStream_t handle, int *priority) {
  return onStream(handle, [&](runtime::EmulatorDevice &, Stream &stream) {
    *priority = stream.priority;
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaStreamGetFlags(cudaStream_t handle, unsigned *flags) {
  return onStream(handle, [&](runtime::EmulatorDevice &, Stream &stream) {
    if (stream.capture)
      return refuseInCapture(stream); // as the driver for CUDA 13.0 does
    *flags = stream.flags;
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaStreamGetId(cudaStream_t handle, unsigned long long *id) {
  return onStream(handle, [&](runtime::EmulatorDevice &, Stream &stream) {
    *id = stream.number;
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaStreamGetDevice(cudaStream_t handle, int *device) {
  return onStream(handle, [&](runtime::EmulatorDevice &, Stream &) {
    *device = 0;
    return cudaSuccess;
  });
}

// Attributes are hints, except the priority, which is fixed when the stream is created.
cudaError_t Calls::cudaStreamSetAttribute(cudaStream_t handle, cudaLaunchAttributeID,
                                          const cudaLaunchAttributeValue *) {
  return onStream(handle, [](runtime::EmulatorDevice &, Stream &) { return cudaSuccess; });
}

// Functions of the host ---------------------------------------------------------------------------

cudaError_t Calls::cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void *data) {
  return onStream(handle, [&](runtime::EmulatorDevice &device, Stream &stream) {
    if (!function)
      return cudaErrorInvalidValue;
    return submit(device, stream, cudaGraphNodeTypeHost,
                  GraphWork(
                      [function, data](runtime::EmulatorDevice &to, runtime::StreamId id) {
                        return to.enqueueForHost(id, [function, data] { function(data); });
                      },
                      cudaHostNodeParams{function, data}));
  });
}

cudaError_t Calls::cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t callback,
                                         void *data, unsigned flags) {
  return onStream(handle, [&](runtime::EmulatorDevice &device, Stream &stream) {
    if (!callback || flags != 0)
      return cudaErrorInvalidValue;
    if (stream.capture)
      return refuseInCapture(stream);
    return submit(device, stream, cudaGraphNodeTypeHost,
                  [=](runtime::EmulatorDevice &to, runtime::StreamId id) {
                    return to.enqueueForHost(id, [=] { callback(handle, cudaSuccess, data); });
                  });
  });
}

// Events ------------------------------------------------------------------------------------------

cudaError_t Calls::cudaEventCreateWithFlags(cudaEvent_t *result, unsigned flags) {
  return served([&](runtime::EmulatorDevice &) {
    if (!result)
      return cudaErrorInvalidValue;
    auto event = std::make_unique<Event>();
    event->flags = flags;
    *result = reinterpret_cast<cudaEvent_t>(event.release()); // until cudaEventDestroy
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaEventCreate(cudaEvent_t *result) {
  return cudaEventCreateWithFlags(result, cudaEventDefault);
}

cudaError_t Calls::cudaEventDestroy(cudaEvent_t handle) {
  if (!handle)
    return remember(cudaErrorInvalidResourceHandle);
  delete eventOf(handle);
  return cudaSuccess;
}

cudaError_t Calls::cudaEventRecord(cudaEvent_t handle, cudaStream_t streamHandle) {
  return onStream(streamHandle, [&](runtime::EmulatorDevice &device, Stream &stream) {
    Event *event = eventOf(handle);
    if (!event)
      return cudaErrorInvalidResourceHandle;
    event->capture = stream.capture;
    event->tips = stream.tips;
    if (stream.capture)
      return cudaSuccess;
    auto record = std::make_shared<Record>();
    cudaError_t error = submit(device, stream, cudaGraphNodeTypeEventRecord,
                               [record](runtime::EmulatorDevice &to, runtime::StreamId id) {
                                 return to.enqueue(id, [record]() -> Result<void> {
                                   record->time = Clock::now();
                                   return {};
                                 });
                               });
    if (error != cudaSuccess)
      return error;
    auto marker = device.mark(stream.id);
    if (!marker)
      return Context::get().meaning(marker.error());
    record->marker = std::move(*marker);
    event->setRecord(std::move(record));
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}

cudaError_t Calls::cudaEventQuery(cudaEvent_t handle) {
  return onRecord(handle, [](runtime::EmulatorDevice &device, const Record &record) {
    auto reached = device.isReached(record.marker);
    if (!reached)
      return Context::get().meaning(reached.error());
    return *reached ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t Calls::cudaEventSynchronize(cudaEvent_t handle) {
  return onRecord(handle, [](runtime::EmulatorDevice &device, const Record &record) {
    auto done = device.synchronize(record.marker);
    Context::get().flushPrints();
    return Context::get().meaning(done);
  });
}

cudaError_t Calls::cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return served([&](runtime::EmulatorDevice &device) {
    Event *events[] = {eventOf(start), eventOf(end)};
    std::shared_ptr<Record> records[2];
    for (int i = 0; i < 2; ++i) {
      Event *each = events[i];
      records[i] = each ? each->record() : nullptr;
      if (!records[i] || each->flags & cudaEventDisableTiming)
        return cudaErrorInvalidResourceHandle;
      auto reached = device.isReached(records[i]->marker);
      if (!reached)
        return Context::get().meaning(reached.error());
      if (!*reached)
        return cudaErrorNotReady;
    }
    *milliseconds =
        std::chrono::duration<float, std::milli>(records[1]->time - records[0]->time).count();
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t eventHandle, unsigned) {
  return onStream(handle, [&](runtime::EmulatorDevice &device, Stream &stream) {
    Event *event = eventOf(eventHandle);
    if (!event)
      return cudaErrorInvalidResourceHandle;
    if (event->capture) { // the stream joins the capture
      if (stream.capture && stream.capture != event->capture)
        return cudaErrorStreamCaptureMerge;
      stream.capture = event->capture;
      stream.tips.insert(stream.tips.end(), event->tips.begin(), event->tips.end());
      return cudaSuccess;
    }
    std::shared_ptr<Record> record = event->record();
    if (!record)
      return cudaSuccess;
    return submit(device, stream, cudaGraphNodeTypeWaitEvent,
                  [record](runtime::EmulatorDevice &to, runtime::StreamId id) {
                    return to.waitFor(id, record->marker);
                  });
  });
}

// Capture -----------------------------------------------------------------------------------------

cudaError_t Calls::cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  return onStream(handle, [&](runtime::EmulatorDevice &, Stream &stream) {
    if (stream.isLegacy)
      return cudaErrorStreamCaptureUnsupported;
    if (stream.capture)
      return cudaErrorIllegalState;
    static std::atomic<unsigned long long> captures{0};
    stream.capture = std::make_shared<Capture>();
    stream.capture->number = ++captures;
    stream.tips.clear();
    stream.capture->origin = &stream;
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *result) {
  return onStream(handle, [&](runtime::EmulatorDevice &, Stream &stream) {
    if (!stream.capture || stream.capture->origin != &stream)
      return cudaErrorIllegalState;
    std::shared_ptr<Capture> capture = stream.capture;
    bool isJoined = Streams::get().leaveCapture(*capture, stream.tips);
    *result = nullptr;
    if (capture->isInvalid)
      return cudaErrorStreamCaptureInvalidated;
    if (!isJoined)
      return cudaErrorStreamCaptureUnjoined;
    *result = reinterpret_cast<cudaGraph_t>(capture->graph.release()); // until cudaGraphDestroy
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus *status) {
  return onStream(handle, [&](runtime::EmulatorDevice &, Stream &stream) {
    *status = statusOf(stream);
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus *status,
                                            unsigned long long *id, cudaGraph_t *graph,
                                            const cudaGraphNode_t **dependencies,
                                            const cudaGraphEdgeData **edges, size_t *count) {
  return onStream(handle, [&](runtime::EmulatorDevice &, Stream &stream) {
    *status = statusOf(stream);
    if (!stream.capture)
      return cudaSuccess;
    if (id)
      *id = stream.capture->number;
    if (graph)
      *graph = reinterpret_cast<cudaGraph_t>(stream.capture->graph.get());
    if (dependencies)
      *dependencies = reinterpret_cast<const cudaGraphNode_t *>(stream.tips.data());
    if (edges)
      *edges = nullptr;
    if (count)
      *count = stream.tips.size();
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) {
  thread_local cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
  std::swap(current, *mode);
  return cudaSuccess;
}

} // namespace tally::hooks::emulated
