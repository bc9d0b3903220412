// Requests that the program names (tally/request.h).
#ifndef TALLY_LIB_HOOKS_PROCESS_REQUEST_CALLS_H
#define TALLY_LIB_HOOKS_PROCESS_REQUEST_CALLS_H

#include "process/served_device.h"
#include "state/requests.h"
#include "state/streams.h"
#include "tables/cuda_api.h"

#include <atomic>
#include <cstdint>

namespace tally::hooks {

/// Thread-safe.
class RequestCalls {
public:
  /// `trace` notes requests; it may be nullptr.
  RequestCalls(StreamTable &streams, Requests &requests, const ServedDevice &served,
               runtime::Trace *trace)
      : streams(streams), requests(requests), served(served), trace(trace) {}

  cudaError_t begin(const CudaApi &api, cudaStream_t handle, const char *name,
                    runtime::Nanoseconds deadline, std::uint64_t *made);
  cudaError_t add(const CudaApi &api, std::uint64_t number, cudaStream_t handle);
  cudaError_t end(std::uint64_t number);
  void beInForkedChild() { isForkedChild = true; }

private:
  cudaError_t mayName(const StreamState &state) const;

  StreamTable &streams;
  Requests &requests;
  const ServedDevice &served;
  runtime::Trace *const trace;
  std::atomic<bool> isForkedChild{false};
};

} // namespace tally::hooks

#endif
