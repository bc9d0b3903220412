// Whether a call that could be queued will succeed, as far as its arguments tell. A call that will
// fail has to fail at once, as CUDA's own does, so it is made in its turn instead.
#ifndef TALLY_LIB_HOOKS_WORK_QUEUE_CHECKS_H
#define TALLY_LIB_HOOKS_WORK_QUEUE_CHECKS_H

#include "tables/cuda_api.h"

#include <cstddef>

namespace tally::hooks {

/// One function for each row of cuda_api.def whose rule is Queue, with its name and arguments, and
/// for the calls that are written by hand. They ask the CUDA runtime only about pointers.
struct QueueChecks {
  const CudaApi &api;

  bool cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t function, void *) const { return function; }
  bool cudaStreamAddCallback(cudaStream_t, cudaStreamCallback_t callback, void *,
                             unsigned flags) const {
    return callback && flags == 0;
  }
  bool cudaFreeAsync(void *memory, cudaStream_t) const { return isOnDevice(memory, 1); }
  bool cudaMemset2DAsync(void *to, std::size_t pitch, int, std::size_t width, std::size_t height,
                         cudaStream_t) const {
    return width <= pitch && isOnDevice(to, height == 0 ? 0 : pitch * (height - 1) + width);
  }
  bool cudaMemset3DAsync(cudaPitchedPtr to, int, cudaExtent extent, cudaStream_t) const {
    bool isEmpty = extent.width == 0 || extent.height == 0 || extent.depth == 0;
    std::size_t rows = isEmpty ? 0 : to.ysize * (extent.depth - 1) + extent.height - 1;
    return extent.width <= to.pitch && extent.height <= to.ysize &&
           isOnDevice(to.ptr, isEmpty ? 0 : to.pitch * rows + extent.width);
  }
  bool cudaMemPrefetchAsync(const void *from, std::size_t bytes, cudaMemLocation, unsigned flags,
                            cudaStream_t) const {
    return flags == 0 && isManaged(from, bytes);
  }
  bool copy(const void *to, const void *from, std::size_t bytes, cudaMemcpyKind kind) const;
  bool isOnDevice(const void *memory, std::size_t bytes) const;

private:
  bool isManaged(const void *memory, std::size_t bytes) const;
};

} // namespace tally::hooks

#endif
