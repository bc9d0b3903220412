// Calls that have another form in CUDA 12 than in CUDA 13: each 12 form is wrapped and calls the
// wrapper of the 13 form. Empty with CUDA 13.
#include "intercept/real_calls.h"

#if CUDART_VERSION < 13000

#include <cstdint>

namespace {

cudaMemLocation placeOf(int device) {
  return device == cudaCpuDeviceId ? cudaMemLocation{cudaMemLocationTypeHost, 0}
                                   : cudaMemLocation{cudaMemLocationTypeDevice, device};
}

/// The hooks do not know which operation failed.
void leaveOpen(std::size_t *failed) {
  if (failed)
    *failed = SIZE_MAX;
}

} // namespace

/// CUDA 12's call of that name, and the body of its wrapper.
#define TALLY_CUDA_12_OLD(name, symbol, parameters, call)                                          \
  extern "C" cudaError_t tallyOld_##name parameters __asm__("__wrap_" symbol);                     \
  extern "C" cudaError_t tallyOld_##name parameters { return call; }

TALLY_CUDA_12_OLD(prefetch, "cudaMemPrefetchAsync",
                  (const void *data, size_t count, int device, cudaStream_t stream),
                  __wrap_cudaMemPrefetchAsync(data, count, placeOf(device), 0, stream))
TALLY_CUDA_12_OLD(updateCapture, "cudaStreamUpdateCaptureDependencies",
                  (cudaStream_t stream, cudaGraphNode_t *dependencies, size_t count,
                   unsigned flags),
                  __wrap_cudaStreamUpdateCaptureDependencies(stream, dependencies, nullptr, count,
                                                             flags))
TALLY_CUDA_12_OLD(captureInfo2, "cudaStreamGetCaptureInfo_v2",
                  (cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id,
                   cudaGraph_t *graph, const cudaGraphNode_t **dependencies, size_t *count),
                  __wrap_cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, nullptr,
                                                  count))
TALLY_CUDA_12_OLD(captureInfo, "cudaStreamGetCaptureInfo",
                  (cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id),
                  __wrap_cudaStreamGetCaptureInfo(stream, status, id, nullptr, nullptr, nullptr,
                                                  nullptr))
TALLY_CUDA_12_OLD(prefetch_ptsz, "cudaMemPrefetchAsync_ptsz",
                  (const void *data, size_t count, int device, cudaStream_t stream),
                  __wrap_cudaMemPrefetchAsync_ptsz(data, count, placeOf(device), 0, stream))
TALLY_CUDA_12_OLD(updateCapture_ptsz, "cudaStreamUpdateCaptureDependencies_ptsz",
                  (cudaStream_t stream, cudaGraphNode_t *dependencies, size_t count,
                   unsigned flags),
                  __wrap_cudaStreamUpdateCaptureDependencies_ptsz(stream, dependencies, nullptr,
                                                                  count, flags))
TALLY_CUDA_12_OLD(captureInfo2_ptsz, "cudaStreamGetCaptureInfo_v2_ptsz",
                  (cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id,
                   cudaGraph_t *graph, const cudaGraphNode_t **dependencies, size_t *count),
                  __wrap_cudaStreamGetCaptureInfo_ptsz(stream, status, id, graph, dependencies,
                                                       nullptr, count))
TALLY_CUDA_12_OLD(captureInfo_ptsz, "cudaStreamGetCaptureInfo_ptsz",
                  (cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id),
                  __wrap_cudaStreamGetCaptureInfo_ptsz(stream, status, id, nullptr, nullptr,
                                                       nullptr, nullptr))
TALLY_CUDA_12_OLD(advise, "cudaMemAdvise",
                  (const void *data, size_t count, cudaMemoryAdvise advice, int device),
                  __wrap_cudaMemAdvise(data, count, advice, placeOf(device)))
TALLY_CUDA_12_OLD(edges, "cudaGraphGetEdges",
                  (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count),
                  __wrap_cudaGraphGetEdges(graph, from, to, nullptr, count))
TALLY_CUDA_12_OLD(dependencies, "cudaGraphNodeGetDependencies",
                  (cudaGraphNode_t node, cudaGraphNode_t *dependencies, size_t *count),
                  __wrap_cudaGraphNodeGetDependencies(node, dependencies, nullptr, count))
TALLY_CUDA_12_OLD(dependents, "cudaGraphNodeGetDependentNodes",
                  (cudaGraphNode_t node, cudaGraphNode_t *dependents, size_t *count),
                  __wrap_cudaGraphNodeGetDependentNodes(node, dependents, nullptr, count))
TALLY_CUDA_12_OLD(addDependencies, "cudaGraphAddDependencies",
                  (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                   size_t count),
                  __wrap_cudaGraphAddDependencies(graph, from, to, nullptr, count))
TALLY_CUDA_12_OLD(removeDependencies, "cudaGraphRemoveDependencies",
                  (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                   size_t count),
                  __wrap_cudaGraphRemoveDependencies(graph, from, to, nullptr, count))
TALLY_CUDA_12_OLD(addNode, "cudaGraphAddNode",
                  (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                   size_t count, cudaGraphNodeParams *parameters),
                  __wrap_cudaGraphAddNode(node, graph, dependencies, nullptr, count, parameters))

// Batches of copies (12.8): CUDA 12's form also returns the index of the failed copy.

#define TALLY_CUDA_12_BATCH(name)                                                                  \
  extern "C" cudaError_t tallyBatch_##name(                                                        \
      void **, void **, size_t *, size_t, cudaMemcpyAttributes *, size_t *, size_t, size_t *,      \
      cudaStream_t) __asm__("__real_" #name) __attribute__((weak));                                \
  extern "C" cudaError_t __real_##name(                                                            \
      void *const *dsts, const void *const *srcs, const size_t *sizes, size_t count,               \
      cudaMemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, cudaStream_t stream) {      \
    size_t failed = 0;                                                                             \
    return tallyBatch_##name(const_cast<void **>(dsts), const_cast<void **>(srcs),                 \
                             const_cast<size_t *>(sizes), count, attrs, attrsIdxs, numAttrs,       \
                             &failed, stream);                                                     \
  }                                                                                                \
  TALLY_CUDA_12_OLD(name, #name,                                                                   \
                    (void **dsts, void **srcs, size_t *sizes, size_t count,                        \
                     cudaMemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,              \
                     size_t *failed, cudaStream_t stream),                                         \
                    (leaveOpen(failed),                                                            \
                     __wrap_##name(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, stream)))
TALLY_CUDA_12_BATCH(cudaMemcpyBatchAsync)
TALLY_CUDA_12_BATCH(cudaMemcpyBatchAsync_ptsz)

#define TALLY_CUDA_12_BATCH_3D(name)                                                               \
  extern "C" cudaError_t tallyBatch_##name(                                                        \
      size_t, cudaMemcpy3DBatchOp *, size_t *, unsigned long long,                                 \
      cudaStream_t) __asm__("__real_" #name) __attribute__((weak));                                \
  extern "C" cudaError_t __real_##name(size_t numOps, cudaMemcpy3DBatchOp *opList,                 \
                                       unsigned long long flags, cudaStream_t stream) {            \
    size_t failed = 0;                                                                             \
    return tallyBatch_##name(numOps, opList, &failed, flags, stream);                              \
  }                                                                                                \
  TALLY_CUDA_12_OLD(name, #name,                                                                   \
                    (size_t numOps, cudaMemcpy3DBatchOp *opList, size_t *failed,                   \
                     unsigned long long flags, cudaStream_t stream),                               \
                    (leaveOpen(failed), __wrap_##name(numOps, opList, flags, stream)))
TALLY_CUDA_12_BATCH_3D(cudaMemcpy3DBatchAsync)
TALLY_CUDA_12_BATCH_3D(cudaMemcpy3DBatchAsync_ptsz)

#endif
