// The wrappers of the calls whose rule in cuda_api.def is Hook, except registration.
#include "intercept/driver_hook.h"
#include "intercept/wrappers.h"

using namespace tally::hooks;

namespace {

cudaError_t launchConfigured(const cudaLaunchConfig_t *config, const void *function, void **args) {
  const CudaApi &table = api();
  auto call = [=, &table] { return table.cudaLaunchKernelExC(config, function, args); };
  // The runtime refuses an invalid configuration.
  if (!config)
    return call();
  return hooks().launch(
      table, config->stream,
      [=] {
        return LaunchRequest{function,
                             config->gridDim,
                             config->blockDim,
                             config->dynamicSmemBytes,
                             {config->attrs, config->attrs ? config->numAttrs : 0},
                             args};
      },
      call);
}

/// `kernel`: a symbol or a cudaKernel_t.
template <class Kernel>
[[gnu::noinline]] cudaError_t launchByRequest(const CudaApi &table, Kernel kernel,
                                              const LaunchArguments &launch) {
  return hooks().launch(
      table, launch.stream,
      [=] {
        return LaunchRequest{kernel, launch.grid,     launch.block, launch.sharedBytes,
                             {},     launch.arguments};
      },
      [=, &table] { return hooks().direct().make(table, kernel, launch); });
}
template <class Kernel>
[[gnu::always_inline]] inline cudaError_t launchPlain(const CudaApi &table, Kernel kernel,
                                                      const LaunchArguments &launch) {
  // The check is here and not in launch(), so the wrapper holds only the fastest path.
  if (hooks().ownsStream(launch.stream)) [[likely]]
    return launchOwn([&] { return hooks().direct().make(table, kernel, launch); });
  return launchByRequest(table, kernel, launch);
}

} // namespace

// Launches. Each wrapper makes its call, or copies the arguments, before it returns.

TALLY_HOOK_PTSZ(cudaLaunchKernel,
                (const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
                 cudaStream_t stream),
                (func, gridDim, blockDim, args, sharedMem, stream),
                { return launchPlain(table, func, {gridDim, blockDim, args, sharedMem, stream}); })
TALLY_HOOK_PTSZ(__cudaLaunchKernel,
                (cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
                 cudaStream_t stream),
                (kernel, gridDim, blockDim, args, sharedMem, stream), {
                  return launchPlain(table, kernel, {gridDim, blockDim, args, sharedMem, stream});
                })
TALLY_HOOK_PTSZ(cudaLaunchCooperativeKernel,
                (const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
                 cudaStream_t stream),
                (func, gridDim, blockDim, args, sharedMem, stream), {
                  return hooks().launch(
                      table, stream,
                      [=] {
                        return LaunchRequest{func, gridDim, blockDim, sharedMem, {}, args, true};
                      },
                      [=, &table] {
                        return table.cudaLaunchCooperativeKernel(func, gridDim, blockDim, args,
                                                                 sharedMem, stream);
                      });
                })

TALLY_HOOK(cudaLaunchKernelExC, (const cudaLaunchConfig_t *config, const void *func, void **args),
           (config, func, args), { return launchConfigured(config, func, args); })
extern "C" cudaError_t __wrap_cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config,
                                                       const void *func, void **args) {
  if (isOff())
    return __real_cudaLaunchKernelExC_ptsz(config, func, args);
  if (!config)
    return launchConfigured(config, func, args);
  cudaLaunchConfig_t own = *config;
  own.stream = ownStream(own.stream);
  return launchConfigured(&own, func, args);
}

// Kernels.

TALLY_HOOK(__cudaGetKernel, (cudaKernel_t * kernel, const void *func), (kernel, func), {
  InHook inside;
  cudaError_t status = table.__cudaGetKernel(kernel, func);
  if (status == cudaSuccess)
    hooks().registered().alias(*kernel, func);
  return status;
})
TALLY_HOOK(cudaGetKernel, (cudaKernel_t * kernelPtr, const void *entryFuncAddr),
           (kernelPtr, entryFuncAddr), {
             InHook inside;
             cudaError_t status = table.cudaGetKernel(kernelPtr, entryFuncAddr);
             if (status == cudaSuccess)
               hooks().registered().alias(*kernelPtr, entryFuncAddr);
             return status;
           })
TALLY_HOOK(cudaFuncSetAttribute, (const void *func, cudaFuncAttribute attr, int value),
           (func, attr, value), {
             return hooks().launches().setAttribute(table, func, attr, value, [&] {
               return table.cudaFuncSetAttribute(func, attr, value);
             });
           })
TALLY_HOOK(cudaKernelSetAttributeForDevice,
           (cudaKernel_t kernel, cudaFuncAttribute attr, int value, int device),
           (kernel, attr, value, device), {
             return hooks().launches().setAttribute(table, kernel, attr, value, [&] {
               return table.cudaKernelSetAttributeForDevice(kernel, attr, value, device);
             });
           })

TALLY_HOOK(cudaLibraryUnload, (cudaLibrary_t library), (library), {
  return hooks().rules().drained([&] {
    hooks().kernelsUnloaded();
    return table.cudaLibraryUnload(library);
  });
})

// Copies.

TALLY_HOOK_PTSZ(cudaMemcpyAsync,
                (void *dst, const void *src, size_t count, cudaMemcpyKind kind,
                 cudaStream_t stream),
                (dst, src, count, kind, stream),
                { return hooks().copies().copyAsync(table, dst, src, count, kind, stream); })
TALLY_HOOK_PTDS(cudaMemcpy, (void *dst, const void *src, size_t count, cudaMemcpyKind kind),
                (dst, src, count, kind),
                { return hooks().copies().copy(table, dst, src, count, kind, which, call); })
TALLY_HOOK_PTDS(cudaMemset, (void *devPtr, int value, size_t count), (devPtr, value, count),
                { return hooks().copies().fill(table, devPtr, value, count, which, call); })
TALLY_HOOK_PTSZ(cudaMemsetAsync, (void *devPtr, int value, size_t count, cudaStream_t stream),
                (devPtr, value, count, stream),
                { return hooks().copies().fillAsync(table, devPtr, value, count, stream); })

// Streams.

TALLY_HOOK(cudaStreamCreate, (cudaStream_t * pStream), (pStream),
           { return hooks().streams().create(table, pStream, cudaStreamDefault, 0); })
TALLY_HOOK(cudaStreamCreateWithFlags, (cudaStream_t * pStream, unsigned int flags),
           (pStream, flags), { return hooks().streams().create(table, pStream, flags, 0); })
TALLY_HOOK(cudaStreamCreateWithPriority, (cudaStream_t * pStream, unsigned int flags, int priority),
           (pStream, flags, priority),
           { return hooks().streams().create(table, pStream, flags, priority); })
TALLY_HOOK(cudaStreamDestroy, (cudaStream_t stream), (stream),
           { return hooks().streams().destroy(table, stream); })
TALLY_HOOK_PTSZ(cudaStreamSynchronize, (cudaStream_t stream), (stream),
                { return hooks().streams().synchronize(table, stream); })
TALLY_HOOK_PTSZ(cudaStreamQuery, (cudaStream_t stream), (stream),
                { return hooks().streams().query(table, stream); })
TALLY_HOOK_PTSZ(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
                (stream, event, flags),
                { return hooks().events().wait(table, stream, event, flags); })

TALLY_HOOK_PTSZ(cudaStreamBeginCapture, (cudaStream_t stream, cudaStreamCaptureMode mode),
                (stream, mode), {
                  return hooks().streams().beginCapture(
                      table, stream, [&] { return table.cudaStreamBeginCapture(stream, mode); });
                })
TALLY_HOOK_PTSZ(cudaStreamBeginCaptureToGraph,
                (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                 const cudaGraphEdgeData *dependencyData, size_t numDependencies,
                 cudaStreamCaptureMode mode),
                (stream, graph, dependencies, dependencyData, numDependencies, mode), {
                  return hooks().streams().beginCapture(table, stream, [&] {
                    return table.cudaStreamBeginCaptureToGraph(
                        stream, graph, dependencies, dependencyData, numDependencies, mode);
                  });
                })
TALLY_HOOK_PTSZ(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *pGraph), (stream, pGraph),
                {
                  return hooks().streams().endCapture(
                      [&] { return table.cudaStreamEndCapture(stream, pGraph); });
                })

// Events.

TALLY_HOOK_PTSZ(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream),
                { return hooks().events().record(table, event, stream, 0); })
TALLY_HOOK_PTSZ(cudaEventRecordWithFlags,
                (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
                (event, stream, flags),
                { return hooks().events().record(table, event, stream, flags); })
TALLY_HOOK(cudaEventQuery, (cudaEvent_t event), (event),
           { return hooks().events().query(table, event); })
TALLY_HOOK(cudaEventSynchronize, (cudaEvent_t event), (event),
           { return hooks().events().synchronize(table, event); })
TALLY_HOOK(cudaEventDestroy, (cudaEvent_t event), (event),
           { return hooks().events().destroy(table, event); })
TALLY_HOOK(cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end), (ms, start, end),
           { return hooks().events().elapsedTime(table, ms, start, end); })

// The device, and errors.

TALLY_HOOK(cudaDeviceSynchronize, (), (), { return hooks().synchronizeDevice(table); })
TALLY_HOOK(cudaDeviceReset, (), (), { return hooks().resetDevice(table); })
TALLY_HOOK(cudaSetDevice, (int device), (device),
           { return hooks().streams().setDevice(table, device); })
TALLY_HOOK(cudaDeviceGetStreamPriorityRange, (int *leastPriority, int *greatestPriority),
           (leastPriority, greatestPriority),
           { return hooks().streams().priorityRange(table, leastPriority, greatestPriority); })
TALLY_HOOK(cudaGetLastError, (), (), { return hooks().lastError(table, true); })
TALLY_HOOK(cudaPeekAtLastError, (), (), { return hooks().lastError(table, false); })

// The driver's entry points, which programs may ask the runtime for.

namespace {

cudaError_t wrapEntry(cudaError_t status, const char *symbol, unsigned version, bool perThread,
                      void **entry) {
  if (status == cudaSuccess && symbol && entry && *entry)
    *entry = wrappedEntry(symbol, static_cast<int>(version), perThread, *entry);
  return status;
}

/// The version for a program that names none: that of its CUDA runtime.
unsigned versionOf(const CudaApi &table) {
  int version = 0;
  return table.cudaRuntimeGetVersion(&version) == cudaSuccess ? version : 0;
}

/// Whether the flags ask for the form whose stream 0 is the thread's own.
bool isPerThread(unsigned long long flags, bool byDefault) {
  if (flags == cudaEnablePerThreadDefaultStream)
    return true;
  return flags == cudaEnableDefault && byDefault;
}

} // namespace

#define TALLY_HOOK_ENTRY_POINT(name, parameters, arguments, version, byDefault)                    \
  TALLY_HOOK(name, parameters, arguments, {                                                        \
    return wrapEntry(table.name arguments, symbol, version, isPerThread(flags, byDefault),         \
                     funcPtr);                                                                     \
  })
#define TALLY_ENTRY_POINT_PARAMETERS                                                               \
  (const char *symbol, void **funcPtr, unsigned long long flags,                                   \
   cudaDriverEntryPointQueryResult *driverStatus)
#define TALLY_ENTRY_POINT_BY_VERSION_PARAMETERS                                                    \
  (const char *symbol, void **funcPtr, unsigned int cudaVersion, unsigned long long flags,         \
   cudaDriverEntryPointQueryResult *driverStatus)

TALLY_HOOK_ENTRY_POINT(cudaGetDriverEntryPoint, TALLY_ENTRY_POINT_PARAMETERS,
                       (symbol, funcPtr, flags, driverStatus), versionOf(table), false)
TALLY_HOOK_ENTRY_POINT(cudaGetDriverEntryPoint_ptsz, TALLY_ENTRY_POINT_PARAMETERS,
                       (symbol, funcPtr, flags, driverStatus), versionOf(table), true)
TALLY_HOOK_ENTRY_POINT(cudaGetDriverEntryPointByVersion, TALLY_ENTRY_POINT_BY_VERSION_PARAMETERS,
                       (symbol, funcPtr, cudaVersion, flags, driverStatus), cudaVersion, false)
TALLY_HOOK_ENTRY_POINT(cudaGetDriverEntryPointByVersion_ptsz,
                       TALLY_ENTRY_POINT_BY_VERSION_PARAMETERS,
                       (symbol, funcPtr, cudaVersion, flags, driverStatus), cudaVersion, true)
