// Launches, streams, events, memory, copies and fills.
#include "runtime.h"

namespace tally::preload_runtime {

namespace {

/// Runs `call(driver, kernel)` on the kernel of a host function.
template <class Call> cudaError_t withKernel(const void *function, Call call) {
  return served([&](const Driver &driver) {
    Kernel kernel;
    cudaError_t error = kernelOf(driver, function, kernel);
    return error == cudaSuccess ? codeOf(call(driver, kernel.launchable())) : error;
  });
}

/// Launches by either launch call of the driver.
CUresult launched(const Driver &driver, CUfunction kernel, dim3 grid, dim3 block, void **arguments,
                  std::size_t shared, CUstream stream) {
  if (grid.x % 2 == 0) {
    CUlaunchConfig config{};
    config.gridDimX = grid.x;
    config.gridDimY = grid.y;
    config.gridDimZ = grid.z;
    config.blockDimX = block.x;
    config.blockDimY = block.y;
    config.blockDimZ = block.z;
    config.sharedMemBytes = static_cast<unsigned>(shared);
    config.hStream = stream;
    return driver.cuLaunchKernelEx(&config, kernel, arguments, nullptr);
  }
  return driver.cuLaunchKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                               static_cast<unsigned>(shared), stream, arguments, nullptr);
}

cudaError_t copied(const Driver &driver, void *to, const void *from, std::size_t bytes,
                   cudaMemcpyKind kind) {
  switch (kind) {
  case cudaMemcpyHostToDevice:
    return codeOf(driver.cuMemcpyHtoD(addressOf(to), from, bytes));
  case cudaMemcpyDeviceToHost:
    return codeOf(driver.cuMemcpyDtoH(to, addressOf(from), bytes));
  case cudaMemcpyDeviceToDevice:
    return codeOf(driver.cuMemcpyDtoD(addressOf(to), addressOf(from), bytes));
  case cudaMemcpyHostToHost:
  case cudaMemcpyDefault:
    return codeOf(driver.cuMemcpy(addressOf(to), addressOf(from), bytes));
  }
  return cudaErrorInvalidMemcpyDirection;
}

cudaError_t copiedInOrder(const Driver &driver, void *to, const void *from, std::size_t bytes,
                          cudaMemcpyKind kind, CUstream stream) {
  switch (kind) {
  case cudaMemcpyHostToDevice:
    return codeOf(driver.cuMemcpyHtoDAsync(addressOf(to), from, bytes, stream));
  case cudaMemcpyDeviceToHost:
    return codeOf(driver.cuMemcpyDtoHAsync(to, addressOf(from), bytes, stream));
  case cudaMemcpyDeviceToDevice:
    return codeOf(driver.cuMemcpyDtoDAsync(addressOf(to), addressOf(from), bytes, stream));
  case cudaMemcpyHostToHost:
  case cudaMemcpyDefault:
    return codeOf(driver.cuMemcpyAsync(addressOf(to), addressOf(from), bytes, stream));
  }
  return cudaErrorInvalidMemcpyDirection;
}

/// Runs `call(driver, address)` on an address in a registered variable.
template <class Call> cudaError_t withVariable(const void *symbol, std::size_t offset, Call call) {
  return served([&](const Driver &driver) {
    CUdeviceptr address = 0;
    cudaError_t error = variableOf(driver, symbol, address);
    return error == cudaSuccess ? call(driver, reinterpret_cast<char *>(address) + offset) : error;
  });
}

/// Allocates memory by `allocate(driver, address)`.
template <class Allocate> cudaError_t allocated(void **result, Allocate allocate) {
  return served([&](const Driver &driver) {
    CUdeviceptr address = 0;
    CUresult error = allocate(driver, &address);
    if (error == CUDA_SUCCESS)
      *result = reinterpret_cast<void *>(address);
    return error;
  });
}

} // namespace

} // namespace tally::preload_runtime

using namespace tally::preload_runtime;

// A call of the runtime that maps to one call of the driver.
#define TALLY_SAME(name, parameters, ...)                                                          \
  cudaError_t name parameters {                                                                    \
    return served([&](const Driver &driver) { return driver.__VA_ARGS__; });                       \
  }

extern "C" {

// Launches ----------------------------------------------------------------------------------------

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream) {
  return withKernel(function, [&](const Driver &driver, CUfunction kernel) {
    return launched(driver, kernel, grid, block, arguments, shared, stream);
  });
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream) {
  return served([&](const Driver &driver) {
    return launched(driver, Kernel{kernel}.launchable(), grid, block, arguments, shared, stream);
  });
}
cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block,
                                        void **arguments, size_t shared, cudaStream_t stream) {
  return withKernel(function, [&](const Driver &driver, CUfunction kernel) {
    return driver.cuLaunchCooperativeKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y,
                                            block.z, static_cast<unsigned>(shared), stream,
                                            arguments);
  });
}
TALLY_SAME(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void *data),
           cuLaunchHostFunc(stream, function, data))

// Streams and the device --------------------------------------------------------------------------

TALLY_SAME(cudaDeviceSynchronize, (), cuCtxSynchronize())
TALLY_SAME(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest),
           cuCtxGetStreamPriorityRange(least, greatest))
TALLY_SAME(cudaStreamCreate, (cudaStream_t * result), cuStreamCreate(result, 0))
TALLY_SAME(cudaStreamCreateWithFlags, (cudaStream_t * result, unsigned flags),
           cuStreamCreate(result, flags))
TALLY_SAME(cudaStreamCreateWithPriority, (cudaStream_t * result, unsigned flags, int priority),
           cuStreamCreateWithPriority(result, flags, priority))
TALLY_SAME(cudaStreamDestroy, (cudaStream_t stream), cuStreamDestroy(stream))
TALLY_SAME(cudaStreamQuery, (cudaStream_t stream), cuStreamQuery(stream))
TALLY_SAME(cudaStreamSynchronize, (cudaStream_t stream), cuStreamSynchronize(stream))
TALLY_SAME(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
           cuStreamWaitEvent(stream, event, flags))
TALLY_SAME(cudaStreamBeginCapture, (cudaStream_t stream, cudaStreamCaptureMode mode),
           cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode)))
TALLY_SAME(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph),
           cuStreamEndCapture(stream, graph))

// Events ------------------------------------------------------------------------------------------

TALLY_SAME(cudaEventCreateWithFlags, (cudaEvent_t * result, unsigned flags),
           cuEventCreate(result, flags))
TALLY_SAME(cudaEventDestroy, (cudaEvent_t event), cuEventDestroy(event))
TALLY_SAME(cudaEventQuery, (cudaEvent_t event), cuEventQuery(event))
TALLY_SAME(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), cuEventRecord(event, stream))
TALLY_SAME(cudaEventSynchronize, (cudaEvent_t event), cuEventSynchronize(event))

// Memory ------------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void **result, size_t bytes) {
  return allocated(result, [&](const Driver &driver, CUdeviceptr *address) {
    return driver.cuMemAlloc(address, bytes);
  });
}
cudaError_t cudaMallocAsync(void **result, size_t bytes, cudaStream_t stream) {
  return allocated(result, [&](const Driver &driver, CUdeviceptr *address) {
    return driver.cuMemAllocAsync(address, bytes, stream);
  });
}
TALLY_SAME(cudaMallocHost, (void **result, size_t bytes), cuMemAllocHost(result, bytes))
TALLY_SAME(cudaFree, (void *pointer), cuMemFree(addressOf(pointer)))
TALLY_SAME(cudaFreeAsync, (void *pointer, cudaStream_t stream),
           cuMemFreeAsync(addressOf(pointer), stream))
/// The driver does not accept a null pointer.
cudaError_t cudaFreeHost(void *pointer) {
  return served(
      [&](const Driver &driver) { return pointer ? driver.cuMemFreeHost(pointer) : CUDA_SUCCESS; });
}

// Copies and fills --------------------------------------------------------------------------------

TALLY_SAME(cudaMemset, (void *to, int value, size_t bytes),
           cuMemsetD8(addressOf(to), static_cast<unsigned char>(value), bytes))
TALLY_SAME(cudaMemsetAsync, (void *to, int value, size_t bytes, cudaStream_t stream),
           cuMemsetD8Async(addressOf(to), static_cast<unsigned char>(value), bytes, stream))

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
  return served([&](const Driver &driver) { return copied(driver, to, from, bytes, kind); });
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return served(
      [&](const Driver &driver) { return copiedInOrder(driver, to, from, bytes, kind, stream); });
}

// Variables ---------------------------------------------------------------------------------------

cudaError_t cudaGetSymbolAddress(void **result, const void *symbol) {
  return withVariable(symbol, 0, [&](const Driver &, void *address) {
    *result = address;
    return cudaSuccess;
  });
}
cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  return withVariable(symbol, offset, [&](const Driver &driver, void *address) {
    return copied(driver, address, from, bytes, kind);
  });
}
cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
  return withVariable(symbol, offset, [&](const Driver &driver, void *address) {
    return copied(driver, to, address, bytes, kind);
  });
}
cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes,
                                    size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  return withVariable(symbol, offset, [&](const Driver &driver, void *address) {
    return copiedInOrder(driver, address, from, bytes, kind, stream);
  });
}
cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  return withVariable(symbol, offset, [&](const Driver &driver, void *address) {
    return copiedInOrder(driver, to, address, bytes, kind, stream);
  });
}

} // extern "C"
