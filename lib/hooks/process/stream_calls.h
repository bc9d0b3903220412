// Streams: their creation and destruction, classes, captures and queries, through the CUDA runtime
// or the driver.
#ifndef TALLY_LIB_HOOKS_PROCESS_STREAM_CALLS_H
#define TALLY_LIB_HOOKS_PROCESS_STREAM_CALLS_H

#include "process/served_device.h"
#include "state/captures.h"
#include "state/in_hook.h"
#include "state/settings.h"
#include "state/streams.h"
#include "tables/cuda_api.h"

#include <cstdint>

namespace tally::hooks {

/// Thread-safe.
class StreamCalls {
public:
  StreamCalls(const Settings &settings, StreamTable &streams, Captures &captures,
              ServedDevice &served)
      : settings(settings), streams(streams), captures(captures), served(served) {}

  cudaError_t create(const CudaApi &api, cudaStream_t *made, unsigned flags, int priority);
  cudaError_t destroy(const CudaApi &api, cudaStream_t handle);
  /// A library destroys a stream.
  void destroyedByLibrary(const CudaApi &api, cudaStream_t handle) {
    if (served.activity())
      forget(streams.find(api, handle));
  }
  static cudaError_t priorityRange(const CudaApi &api, int *lowest, int *highest);
  /// Sets a stream's class through the API (tally/hooks.h).
  cudaError_t setClass(const CudaApi &api, cudaStream_t handle, bool bestEffort);
  cudaError_t setBestEffortClass(const CudaApi &api, cudaStream_t handle, std::uint32_t number);

  // The last parameter makes the call itself, through the runtime or the driver.

  template <class Call>
  cudaError_t synchronize(const CudaApi &api, cudaStream_t handle, const Call &call) {
    StreamState &state = streams.find(api, handle);
    InHook inside;
    if (BestEffortEngine *now = served.engine(); now && !captures.takesPart(api, handle))
      now->waitBefore(state);
    Activity *shared = served.activity();
    if (shared && state.bestEffort) {
      cudaError_t status = call();
      shared->noteAtRest();
      return served.withDeferred(status);
    }
    return served.withDeferred(shared ? shared->synchronize(state, call) : call());
  }
  template <class Call>
  cudaError_t query(const CudaApi &api, cudaStream_t handle, const Call &call) {
    StreamState &state = streams.find(api, handle);
    InHook inside;
    if (BestEffortEngine *now = served.engine(); now && !captures.takesPart(api, handle)) {
      bool over = now->queue().isOverUpTo(now->orderedAhead(state)) &&
                  (!state.bestEffort || now->queue().isOver(state.lastTicket.load()));
      if (!over)
        return cudaErrorNotReady;
    }
    Activity *shared = served.activity();
    return served.withDeferred(shared ? shared->synchronize(state, call) : call());
  }
  cudaError_t synchronize(const CudaApi &api, cudaStream_t handle) {
    return synchronize(api, handle, [&] { return api.cudaStreamSynchronize(handle); });
  }
  cudaError_t query(const CudaApi &api, cudaStream_t handle) {
    return query(api, handle, [&] { return api.cudaStreamQuery(handle); });
  }
  template <class Call> auto beginCapture(const CudaApi &api, cudaStream_t handle, Call call) {
    served.drain();
    // CUDA does not tell a stream's flags while the stream is captured, and asking makes the
    // capture invalid.
    streams.find(api, handle);
    InHook inside;
    return captures.begin(call);
  }
  template <class Call> auto endCapture(Call call) {
    InHook inside;
    return captures.end(call);
  }

  /// Default streams belong to the device that the thread uses.
  cudaError_t setDevice(const CudaApi &api, int device);
  /// A library has made another context current on the calling thread.
  void contextChanged() { streams.contextChanged(); }

private:
  void openClasses(const CudaApi &api);
  void forget(StreamState &state);

  const Settings &settings;
  StreamTable &streams;
  Captures &captures;
  ServedDevice &served;
};

} // namespace tally::hooks

#endif
