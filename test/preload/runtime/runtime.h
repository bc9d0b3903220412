// A small CUDA runtime over the driver's calls, for CUDA C++ programs that run through the
// preloaded library without a GPU: NVIDIA's own runtime needs tables of the driver that are not
// public. Like that runtime, it finds the driver by dlopen() and cuGetProcAddress at its first
// call, makes the primary context current on each thread, and loads code at its first use.
#ifndef TALLY_TEST_PRELOAD_RUNTIME_RUNTIME_H
#define TALLY_TEST_PRELOAD_RUNTIME_RUNTIME_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace tally::preload_runtime {

// Here too cuda.h's names are macros for the newest form.
struct Driver {
#define CALL(name) decltype(&::name) name = nullptr;
#include "calls.def"
  CUcontext context = nullptr; ///< the primary one
};

/// Keeps an error for cudaGetLastError.
cudaError_t remember(cudaError_t error);

/// Returns the driver, initialised, with the primary context current on this thread; nullptr if
/// there is no driver.
const Driver *startedDriver();

/// The two number errors alike.
inline cudaError_t codeOf(CUresult error) { return static_cast<cudaError_t>(error); }
inline cudaError_t codeOf(cudaError_t error) { return error; }

/// Runs `call(driver)`, and keeps its error.
template <class Call> cudaError_t served(Call call) {
  const Driver *driver = startedDriver();
  return remember(driver ? codeOf(call(*driver)) : cudaErrorInitializationError);
}

inline CUdeviceptr addressOf(const void *pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

/// A kernel by one of two handles; launches accept both. For every second object the handle is a
/// CUfunction.
struct Kernel {
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;

  CUfunction launchable() const {
    return function ? function : reinterpret_cast<CUfunction>(kernel);
  }
};
/// Returns the kernel of a host function, with its code loaded.
cudaError_t kernelOf(const Driver &driver, const void *function, Kernel &result);
/// Returns the address of a registered variable, with its code loaded.
cudaError_t variableOf(const Driver &driver, const void *symbol, CUdeviceptr &result);

} // namespace tally::preload_runtime

#endif
