#include "process/stream_calls.h"

#include "state/in_hook.h"

namespace tally::hooks {

cudaError_t StreamCalls::priorityRange(const CudaApi &api, int *lowest, int *highest) {
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

cudaError_t StreamCalls::create(const CudaApi &api, cudaStream_t *made, unsigned flags,
                                int priority) {
  InHook inside;
  int low = 0, high = 0;
  if (priorityRange(api, &low, &high) == cudaSuccess && priority < high)
    priority = high;
  cudaError_t status = api.cudaStreamCreateWithPriority(made, flags, priority);
  if (status == cudaSuccess && streams.created(api, *made, flags, priority < low ? priority : low))
    openClasses(api);
  served.countStreams();
  return status;
}

/// Opens the classes before requests may have to wait for the driver. Where all work is best effort
/// there are no requests.
void StreamCalls::openClasses(const CudaApi &api) {
  BestEffortEngine *now = served.start(api);
  if (!now || settings.bestEffort)
    return;
  for (std::uint32_t each : streams.bestEffortClasses(now->deviceNumber()))
    now->queue().open(each);
}

cudaError_t StreamCalls::destroy(const CudaApi &api, cudaStream_t handle) {
  forget(streams.find(api, handle));
  InHook inside;
  return api.cudaStreamDestroy(handle);
}

/// Called before the stream is destroyed: its handle may name another stream right afterwards.
void StreamCalls::forget(StreamState &state) {
  InHook inside;
  if (BestEffortEngine *now = served.engine(); now && state.bestEffort)
    now->wait(state.lastTicket.load());
  // Best-effort streams too: the stream may have been of high priority when it was last used.
  if (HighFootprints *seen = served.footprints())
    seen->streamLeaves(state);
  if (Activity *shared = served.activity())
    shared->forget(state);
  streams.destroyed(state);
  served.countStreams();
}

cudaError_t StreamCalls::setDevice(const CudaApi &api, int device) {
  InHook inside;
  cudaError_t status = api.cudaSetDevice(device);
  if (status == cudaSuccess)
    streams.deviceChanged(device);
  return status;
}

cudaError_t StreamCalls::setClass(const CudaApi &api, cudaStream_t handle, bool bestEffort) {
  StreamState &state = streams.find(api, handle);
  served.drain();
  streams.setClass(state, bestEffort);
  return !bestEffort || served.start(api) ? cudaSuccess : cudaErrorNotSupported;
}

cudaError_t StreamCalls::setBestEffortClass(const CudaApi &api, cudaStream_t handle,
                                            std::uint32_t number) {
  if (number < 1 || number > runtime::lowestBestEffortClass)
    return cudaErrorInvalidValue;
  StreamState &state = streams.find(api, handle);
  if (!state.bestEffort)
    served.drain();
  streams.setBestEffortClass(state, number);
  return served.start(api) ? cudaSuccess : cudaErrorNotSupported;
}

} // namespace tally::hooks
