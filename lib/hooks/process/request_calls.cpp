#include "process/request_calls.h"

#include "base/ranges.h"
#include "state/in_hook.h"

#include <algorithm>

namespace tally::hooks {

namespace {

constexpr const char *withoutName = "request";

bool hasRanges() {
  static const bool areOn = runtime::rangesAreOn();
  return areOn;
}

} // namespace

/// Whether requests may be on the stream.
cudaError_t RequestCalls::mayName(const StreamState &state) const {
  if (state.bestEffort.load(std::memory_order_relaxed))
    return cudaErrorNotPermitted;
  const Activity *shared = served.activity();
  if (shared && shared->servedDevice() != state.device)
    return cudaErrorInvalidDevice;
  return cudaSuccess;
}

/// A Dekker handshake: the thread that opens the activity stores it, then looks for open requests;
/// the thread that begins a request opens it, then looks for an activity. So at least one of the
/// two counts the request. Holding the record keeps both from counting it.
cudaError_t RequestCalls::begin(const CudaApi &api, cudaStream_t handle, const char *name,
                                runtime::Nanoseconds deadline, std::uint64_t *made) {
  if (isForkedChild.load(std::memory_order_relaxed))
    return cudaSuccess;
  StreamState *state = nullptr;
  {
    InHook inside; // where the hooks do not know the stream, they ask CUDA
    state = &streams.find(api, handle);
  }
  if (cudaError_t refused = mayName(*state); refused != cudaSuccess)
    return refused;
  Requests::Record *request = requests.take();
  if (!request)
    return cudaErrorMemoryAllocation;
  request->begun = runtime::SteadyClock{}();
  request->deadline = deadline;
  request->streams.push_back(state);
  request->thread.store(&threadState, std::memory_order_relaxed);
  if (trace)
    request->name = trace->nameOf(name ? name : withoutName);
  request->range =
      hasRanges() ? runtime::beginRange(runtime::RangeOf::Request, name ? name : withoutName) : 0;
  Activity *shared = served.activity();
  if (shared)
    shared->countRequest(*request, request->begun);
  *made = requests.open(*request);
  if (!shared && (shared = served.activity(std::memory_order_seq_cst)))
    if (Requests::Record *own = requests.hold(*made)) {
      shared->countRequest(*own, own->begun);
      requests.letGo(*own);
    }
  return cudaSuccess;
}

cudaError_t RequestCalls::add(const CudaApi &api, std::uint64_t number, cudaStream_t handle) {
  StreamState *state = nullptr;
  {
    InHook inside;
    state = &streams.find(api, handle);
  }
  if (cudaError_t refused = mayName(*state); refused != cudaSuccess)
    return refused;
  Requests::Record *request = requests.hold(number);
  if (!request)
    return cudaErrorInvalidResourceHandle;
  auto &known = request->streams;
  if (std::find(known.begin(), known.end(), state) == known.end())
    known.push_back(state);
  request->thread.store(&threadState, std::memory_order_relaxed);
  requests.letGo(*request);
  return cudaSuccess;
}

cudaError_t RequestCalls::end(std::uint64_t number) {
  Requests::Record *request = requests.hold(number);
  if (!request)
    return cudaErrorInvalidResourceHandle;
  runtime::Nanoseconds now = runtime::SteadyClock{}(), began = request->begun, took = now - began;
  bool missed = request->deadline.count() != 0 && took > request->deadline;
  std::uint64_t range = request->range;
  std::uint32_t name = request->name;
  Activity *counted = request->countedBy;
  if (counted)
    counted->endRequest(*request, now);
  requests.close(*request);
  // No thread waits for the steps that follow.
  if (Activity *shown = counted ? counted : served.activity())
    shown->noteRequest(counted != nullptr, took, missed);
  if (range != 0)
    runtime::endRange(range);
  if (!trace)
    return cudaSuccess;
  runtime::TraceEvent event;
  event.type = runtime::TraceEvent::Type::Request;
  event.name = name;
  event.start = began;
  event.duration = took;
  event.value = missed ? 1 : 0;
  trace->add(event);
  return cudaSuccess;
}

} // namespace tally::hooks
