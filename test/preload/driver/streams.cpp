// Streams, events, captures, and host functions.
#include "driver.h"

#include <memory>

namespace tally::preload_driver {

namespace {

/// A stream belongs to the context that is current when it is made.
CUresult created(CUstream *result, unsigned flags, int priority) {
  return inContext([&] {
    if (!result || flags & ~unsigned{CU_STREAM_NON_BLOCKING})
      return cudaErrorInvalidValue;
    cudaError_t error = runtime().cudaStreamCreateWithPriority(result, flags, priority);
    if (error == cudaSuccess)
      setOwner(*result, currentContext());
    return error;
  });
}

cudaError_t contextOf(CUstream stream, CUcontext *result) {
  int priority = 0; // also called while a stream is captured
  if (!result)
    return cudaErrorInvalidValue;
  cudaError_t error = runtime().cudaStreamGetPriority(stream, &priority);
  if (error == cudaSuccess)
    *result = ownerOf(stream);
  return error;
}

cudaError_t withoutGreen(cudaError_t error, CUgreenCtx *green) {
  if (green)
    *green = nullptr;
  return error;
}

/// A callback of the driver gets the driver's code for an error.
struct Callback {
  CUstreamCallback function;
  void *data;

  static void run(cudaStream_t stream, cudaError_t error, void *self) {
    std::unique_ptr<Callback> owned(static_cast<Callback *>(self));
    owned->function(stream, codeOf(error), owned->data);
  }
};

cudaError_t added(CUstream stream, CUstreamCallback function, void *data, unsigned flags) {
  if (!function)
    return cudaErrorInvalidValue;
  auto callback = std::make_unique<Callback>(Callback{function, data});
  cudaError_t error =
      runtime().cudaStreamAddCallback(stream, &Callback::run, callback.get(), flags);
  if (error == cudaSuccess)
    (void)callback.release(); // run() owns it
  return error;
}

cudaError_t eventMade(CUevent *result, unsigned flags) {
  constexpr unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
  return flags & ~known ? cudaErrorInvalidValue : runtime().cudaEventCreateWithFlags(result, flags);
}

cudaError_t isCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  cudaStreamCaptureStatus known = cudaStreamCaptureStatusNone;
  cudaError_t error = runtime().cudaStreamIsCapturing(stream, &known);
  if (error == cudaSuccess)
    *status = static_cast<CUstreamCaptureStatus>(known);
  return error;
}

cudaError_t idOf(CUstream stream, unsigned long long *id) {
  return id ? runtime().cudaStreamGetId(stream, id) : cudaErrorInvalidValue;
}

} // namespace

} // namespace tally::preload_driver

using namespace tally::preload_driver;

extern "C" {

CUresult cuStreamCreate(CUstream *result, unsigned flags) { return created(result, flags, 0); }
CUresult cuStreamCreateWithPriority(CUstream *result, unsigned flags, int priority) {
  return created(result, flags, priority);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  return inContext([&] {
    cudaError_t error = runtime().cudaStreamDestroy(stream);
    if (error == cudaSuccess)
      forgetOwner(stream);
    return error;
  });
}

TALLY_STREAM_FORMS(cuStreamQuery, (CUstream stream), runtime().cudaStreamQuery(stream))
TALLY_STREAM_FORMS(cuStreamSynchronize, (CUstream stream), runtime().cudaStreamSynchronize(stream))
TALLY_STREAM_FORMS(cuStreamGetFlags, (CUstream stream, unsigned *flags),
                   runtime().cudaStreamGetFlags(stream, flags))
TALLY_STREAM_FORMS(cuStreamGetPriority, (CUstream stream, int *priority),
                   runtime().cudaStreamGetPriority(stream, priority))
TALLY_STREAM_FORMS(cuStreamGetId, (CUstream stream, unsigned long long *id), idOf(stream, id))
TALLY_STREAM_FORMS(cuStreamGetCtx, (CUstream stream, CUcontext *context),
                   contextOf(stream, context))
TALLY_STREAM_FORMS(cuStreamGetCtx_v2, (CUstream stream, CUcontext *context, CUgreenCtx *green),
                   withoutGreen(contextOf(stream, context), green))
TALLY_STREAM_FORMS(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags),
                   runtime().cudaStreamWaitEvent(stream, event, flags))
TALLY_STREAM_FORMS(cuStreamAddCallback,
                   (CUstream stream, CUstreamCallback function, void *data, unsigned flags),
                   added(stream, function, data, flags))
TALLY_STREAM_FORMS(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *data),
                   runtime().cudaLaunchHostFunc(stream, function, data))

// Capture -----------------------------------------------------------------------------------------

TALLY_STREAM_FORMS(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode),
                   runtime().cudaStreamBeginCapture(stream,
                                                    static_cast<cudaStreamCaptureMode>(mode)))
TALLY_STREAM_FORMS(cuStreamEndCapture, (CUstream stream, CUgraph *graph),
                   graph ? runtime().cudaStreamEndCapture(stream, graph) : cudaErrorInvalidValue)
TALLY_STREAM_FORMS(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status),
                   status ? isCapturing(stream, status) : cudaErrorInvalidValue)

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  return started([&] {
    if (!mode)
      return cudaErrorInvalidValue;
    auto exchanged = static_cast<cudaStreamCaptureMode>(*mode);
    cudaError_t error = runtime().cudaThreadExchangeStreamCaptureMode(&exchanged);
    *mode = static_cast<CUstreamCaptureMode>(exchanged);
    return error;
  });
}

// Events ------------------------------------------------------------------------------------------

CUresult cuEventCreate(CUevent *result, unsigned flags) {
  return inContext([&] { return eventMade(result, flags); });
}

CUresult cuEventDestroy_v2(CUevent event) {
  return inContext([&] { return runtime().cudaEventDestroy(event); });
}

TALLY_STREAM_FORMS(cuEventRecord, (CUevent event, CUstream stream),
                   runtime().cudaEventRecord(event, stream))
TALLY_STREAM_FORMS(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags),
                   runtime().cudaEventRecordWithFlags(event, stream, flags))

CUresult cuEventQuery(CUevent event) {
  return inContext([&] { return runtime().cudaEventQuery(event); });
}

CUresult cuEventSynchronize(CUevent event) {
  return inContext([&] { return runtime().cudaEventSynchronize(event); });
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  return inContext([&] { return runtime().cudaEventElapsedTime(milliseconds, start, end); });
}
CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime(milliseconds, start, end);
}

} // extern "C"
