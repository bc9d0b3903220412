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
  /// The same without a stream: the default stream `which` orders the copy. `call` makes it.
  cudaError_t copy(const CudaApi &api, void *to, const void *from, std::size_t bytes,
                   cudaMemcpyKind kind, cudaStream_t which,
                   const std::function<cudaError_t()> &call);
  cudaError_t fill(const CudaApi &api, void *to, int value, std::size_t bytes, cudaStream_t which,
                   const std::function<cudaError_t()> &call);
  /// A copy or a fill by a library, on a stream of the driver. `call` makes it on that stream.
  cudaError_t foreignCopy(const CudaApi &api, cudaStream_t handle, const ForeignCopy &copy,
                          const std::function<cudaError_t()> &call);
  /// A copy or fill that the driver may make with a kernel is about to be put on a stream.
  void runsDriverKernel(const CudaApi &api, cudaStream_t handle) {
    HighFootprints *seen = served.footprints();
    if (!seen)
      return;
    if (StreamState &state = streams.find(api, handle); !state.bestEffort)
      seen->ofDriver(api, state);
  }

private:
  BestEffortEngine *queueing(const CudaApi &api, const StreamState &state);
  /// Queues a copy or a fill without a stream as a launch of the hooks' own kernel, which `make`
  /// returns. Returns false where CUDA has to make the call. `run` makes it through CUDA.
  bool trySubmit(const CudaApi &api, cudaStream_t which,
                 const std::function<std::optional<OwnLaunch>(OwnKernels &)> &make,
                 const RunOn &run);
  /// Copies from or to pageable memory through the hooks' staging memory. Returns nothing where
  /// CUDA has to make the copy.
  std::optional<cudaError_t> tryStaged(const CudaApi &api, void *to, const void *from,
                                       std::size_t bytes, cudaMemcpyKind kind, cudaStream_t handle);

  StreamTable &streams;
  const Captures &captures;
  ServedDevice &served;
  CallRules &rules;
};

} // namespace tally::hooks

#endif
