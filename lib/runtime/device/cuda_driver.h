// The CUDA driver's entry points, looked up at run time, so that a program also starts without a
// driver. Types and versions are those of the cuda.h with which Tally was built.
#ifndef TALLY_LIB_RUNTIME_DEVICE_CUDA_DRIVER_H
#define TALLY_LIB_RUNTIME_DEVICE_CUDA_DRIVER_H

#include "tally/support/result.h"

#include <cuda.h>

#include <string>

// The names are macros of cuda.h that expand to the versions declared there (cuMemAlloc to
// cuMemAlloc_v2), so the symbol looked up always has the declared type.
#define TALLY_CUDA_ENTRY_POINTS(X)                                                                 \
  X(cuInit)                                                                                        \
  X(cuDriverGetVersion)                                                                            \
  X(cuGetErrorName)                                                                                \
  X(cuGetErrorString)                                                                              \
  X(cuDeviceGet)                                                                                   \
  X(cuDeviceGetName)                                                                               \
  X(cuDeviceGetUuid)                                                                               \
  X(cuDeviceGetAttribute)                                                                          \
  X(cuDevicePrimaryCtxSetFlags)                                                                    \
  X(cuDevicePrimaryCtxRetain)                                                                      \
  X(cuDevicePrimaryCtxRelease)                                                                     \
  X(cuCtxSetCurrent)                                                                               \
  X(cuCtxGetStreamPriorityRange)                                                                   \
  X(cuModuleLoadDataEx)                                                                            \
  X(cuModuleUnload)                                                                                \
  X(cuModuleGetFunction)                                                                           \
  X(cuFuncGetAttribute)                                                                            \
  X(cuFuncSetAttribute)                                                                            \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor)                                                   \
  X(cuMemAlloc)                                                                                    \
  X(cuMemFree)                                                                                     \
  X(cuMemHostAlloc)                                                                                \
  X(cuMemHostGetDevicePointer)                                                                     \
  X(cuMemFreeHost)                                                                                 \
  X(cuMemcpyHtoDAsync)                                                                             \
  X(cuMemcpyDtoHAsync)                                                                             \
  X(cuMemsetD8Async)                                                                               \
  X(cuStreamCreateWithPriority)                                                                    \
  X(cuStreamDestroy)                                                                               \
  X(cuStreamGetCtx)                                                                                \
  X(cuStreamBatchMemOp)                                                                            \
  X(cuStreamWriteValue64)                                                                          \
  X(cuStreamQuery)                                                                                 \
  X(cuStreamSynchronize)                                                                           \
  X(cuStreamWaitEvent)                                                                             \
  X(cuEventCreate)                                                                                 \
  X(cuEventRecord)                                                                                 \
  X(cuEventDestroy)                                                                                \
  X(cuLaunchKernelEx)

// The members take suffixed names because the plain ones are macros. TALLY_CUDA_ENTRY(cuMemAlloc)
// names the member, whatever version the macro stands for.
#define TALLY_CUDA_MEMBER_(name) name##_
#define TALLY_CUDA_ENTRY(name) TALLY_CUDA_MEMBER_(name)
#define TALLY_CUDA_MEMBER(name) decltype(&name) TALLY_CUDA_MEMBER_(name) = nullptr;

namespace tally::runtime {

struct CudaDriver {
  TALLY_CUDA_ENTRY_POINTS(TALLY_CUDA_MEMBER)

  /// Loads libcuda.so.1 once; the table lives as long as the process. Thread-safe.
  static Result<const CudaDriver *> load();

  /// Finds an entry point that not every driver has, by its symbol; nullptr where it is missing.
  static void *find(const char *symbol);

  /// The error `code` that `call` (an entry point's name) returned, with the driver's text.
  Error failure(const char *call, CUresult code) const;
};

} // namespace tally::runtime

/// Calls an entry point and returns from the enclosing function with its error, if any.
#define TALLY_CUDA_TRY(driver, name, ...)                                                          \
  do {                                                                                             \
    CUresult tallyCode = (driver).TALLY_CUDA_ENTRY(name)(__VA_ARGS__);                             \
    if (tallyCode != CUDA_SUCCESS)                                                                 \
      return (driver).failure(#name, tallyCode);                                                   \
  } while (false)

#endif
