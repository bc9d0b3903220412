// The hook at the driver's level: an exported `dlsym` that gives out wrapped entry points of the
// CUDA driver, so that launches of libraries that were not linked with the hooks (cuBLAS, cuDNN)
// are seen. The CUDA runtime looks up cuGetProcAddress by dlsym and asks that for all else.
#ifndef TALLY_LIB_HOOKS_DRIVER_HOOK_H
#define TALLY_LIB_HOOKS_DRIVER_HOOK_H

#include <string_view>

namespace tally::hooks {

struct DriverLaunches;
/// The driver's own entry points, past the hook. Where none of this module's CUDA runtime has asked
/// for the driver by this module's dlsym, all are nullptr. To be called once the driver runs.
const DriverLaunches &driverLaunches();

/// The wrapper of the driver's entry point `real`, which cuGetProcAddress gives for `symbol` and
/// `version`, or `real` itself. `perThread`: the form whose stream 0 is the thread's own.
/// Thread-safe.
void *wrappedEntry(std::string_view symbol, int version, bool perThread, void *real);

} // namespace tally::hooks

#endif
