// The calls of the CUDA runtime that the hooks' engine makes, by the CUDA driver alone: a preloaded
// library cannot know which CUDA runtimes the program has, or whether it has any.
#ifndef TALLY_LIB_PRELOAD_DRIVER_API_H
#define TALLY_LIB_PRELOAD_DRIVER_API_H

#include "tables/cuda_api.h"

namespace tally::preload {

/// Kernels are named by their CUfunction, or by the address that they were registered under.
/// Members that the engine does not call give cudaErrorNotSupported. A thread without a context
/// gets one by cudaSetDevice: that in which the program was first seen on the device, else the
/// primary one. Thread-safe.
const hooks::CudaApi &driverApi();

} // namespace tally::preload

#endif
