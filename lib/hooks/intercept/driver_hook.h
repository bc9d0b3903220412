// The hook at the driver's level: what the CUDA driver exports leads to wrappers, for every object
// of the process, so that the launches of libraries that were not linked with the hooks (cuBLAS,
// cuDNN) are seen, and those of programs that call the driver themselves.
#ifndef TALLY_LIB_HOOKS_INTERCEPT_DRIVER_HOOK_H
#define TALLY_LIB_HOOKS_INTERCEPT_DRIVER_HOOK_H

#include <string_view>

namespace tally::hooks {

struct DriverLaunches;
/// The driver's own entry points, past the hook; where there is no hook, all are nullptr. To be
/// called once the driver runs.
const DriverLaunches &driverLaunches();

/// The wrapper of the driver's own entry point `real`, which cuGetProcAddress gives for `symbol`
/// and `version`; `real` itself, where it is none of these or has no wrapper. `perThread`: the form
/// whose stream 0 is the thread's own. Thread-safe.
void *wrappedEntry(std::string_view symbol, int version, bool perThread, void *real);

/// Whether the driver's exported function of that name has a wrapper. Thread-safe.
bool hasWrapper(std::string_view name);

/// The wrapper of `real`, which the driver exports as `name`, or `real` itself. Thread-safe.
void *wrappedExport(std::string_view name, void *real);

/// Leads what the driver exports to the wrappers, once in the process; loads the driver for that.
/// Two threads must not be in it at once.
void installDriverHook();

} // namespace tally::hooks

#endif
