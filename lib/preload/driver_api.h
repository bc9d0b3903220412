// The CUDA runtime calls that the hooks' engine makes, implemented with the CUDA driver alone: a
// preloaded library cannot know which CUDA runtimes the program has, or whether it has any.
#ifndef TALLY_LIB_PRELOAD_DRIVER_API_H
#define TALLY_LIB_PRELOAD_DRIVER_API_H

#include "tables/cuda_api.h"

namespace tally::preload {

/// A kernel's name is its CUfunction, or the address that it was registered under. Members that the
/// engine does not call return cudaErrorNotSupported. cudaSetDevice gives a context to a thread
/// without one: the context in which the program was first seen on the device, else the primary
/// one. Thread-safe.
const hooks::CudaApi &driverApi();

} // namespace tally::preload

#endif
