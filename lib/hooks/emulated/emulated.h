// The way from handles of the emulated CUDA runtime to the emulator's own, for hook logic that
// issues work through runtime::Device: one device in the process, which emulatedApi() uses as well.
#ifndef TALLY_LIB_HOOKS_EMULATED_EMULATED_H
#define TALLY_LIB_HOOKS_EMULATED_EMULATED_H

#include "tally/runtime/device.h"

#include <cuda_runtime_api.h>

namespace tally::hooks {

/// The device of the process, opened at the first call. Fails, and always will, where it cannot be
/// opened. Host and device addresses are the same. Thread-safe, as all here.
Result<runtime::Device *> emulatedDevice();

/// `function`: what cudaLaunchKernel takes: a registered host function, or a handle of
/// cudaGetFuncBySymbol, cudaGetKernel or __cudaGetKernel, as a pointer. Loads the module.
Result<runtime::FunctionId> emulatedFunction(const void *function);

/// Where an operation issued next on `stream` belongs; any handle that the runtime takes, 0 and the
/// two default streams' included. Puts the waits before it that the default stream's rules ask for,
/// so call this before each operation.
Result<runtime::StreamId> emulatedStream(cudaStream_t stream);

} // namespace tally::hooks

#endif
