// Copies and fills.
#ifndef TALLY_LIB_HOOKS_PROCESS_COPY_CALLS_H
#define TALLY_LIB_HOOKS_PROCESS_COPY_CALLS_H

#include "process/call_rules.h"
#include "process/served_device.h"
#include "state/captures.h"
#include "state/streams.h"
#include "tables/cuda_api.h"
#include "work/foreign_launch.h"

#include <cstddef>
#include <functional>
#include <optional>

namespace tally::hooks {

/// Thread-safe.
class CopyCalls {
public:
  CopyCalls(StreamTable &streams, const Captures &captures, ServedDevice &served, CallRules &rules)
      : streams(streams), captures(captures), served(served), rules(rules) {}

  cudaError_t copyAsync(const CudaApi &api, void *to, const void *from, std::size_t bytes,
                        cudaMemcpyKind kind, cudaStream_t handle);
  cudaError_t fillAsync(const CudaApi &api, void *to, int value, std::size_t bytes,
                        cudaStream_t handle);
  /// The same without a stream: `which` default stream orders it. `call` makes it.
  cudaError_t copy(const CudaApi &api, void *to, const void *from, std::size_t bytes,
                   cudaMemcpyKind kind, cudaStream_t which,
                   const std::function<cudaError_t()> &call);
  cudaError_t fill(const CudaApi &api, void *to, int value, std::size_t bytes, cudaStream_t which,
                   const std::function<cudaError_t()> &call);
  /// A copy or a fill by a library, on a stream of the driver's. `call` makes it there.
  cudaError_t foreignCopy(const CudaApi &api, cudaStream_t handle, const ForeignCopy &copy,
                          const std::function<cudaError_t()> &call);
  /// A copy or fill that may be a kernel of the driver's is about to be put on a stream.
  void runsDriverKernel(const CudaApi &api, cudaStream_t handle) {
    HighFootprints *seen = served.footprints();
    if (!seen)
      return;
    if (StreamState &state = streams.find(api, handle); !state.bestEffort)
      seen->ofDriver(api, state);
  }

private:
  BestEffortEngine *queueing(const CudaApi &api, const StreamState &state);
  /// A copy from or to pageable memory by way of the hooks' own. Nothing: CUDA has to make it.
  std::optional<cudaError_t> tryStaged(const CudaApi &api, void *to, const void *from,
                                       std::size_t bytes, cudaMemcpyKind kind, cudaStream_t handle);

  StreamTable &streams;
  const Captures &captures;
  ServedDevice &served;
  CallRules &rules;
};

} // namespace tally::hooks

#endif
