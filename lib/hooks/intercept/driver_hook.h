// The hook at the driver's level: the CUDA driver's exports lead to wrappers, for every object of
// the process. So the hooks see the launches of libraries that were not linked with the hooks
// (cuBLAS, cuDNN), and of programs that call the driver themselves.
#ifndef TALLY_LIB_HOOKS_INTERCEPT_DRIVER_HOOK_H
#define TALLY_LIB_HOOKS_INTERCEPT_DRIVER_HOOK_H

#include <string_view>

namespace tally::hooks {

struct DriverLaunches;
/// The driver's own entry points, without the hook. All are nullptr where there is no hook. Call
/// this once the driver runs.
const DriverLaunches &driverLaunches();

/// The wrapper of the driver's own entry point `real`, which cuGetProcAddress returns for `symbol`
/// and `version`. Returns `real` itself where it is no driver entry point or has no wrapper.
/// `perThread`: the form whose stream 0 is the thread's own. Thread-safe.
void *wrappedEntry(std::string_view symbol, int version, bool perThread, void *real);

/// Whether the driver's exported function of that name has a wrapper. Thread-safe.
bool hasWrapper(std::string_view name);

/// The wrapper of `real`, which the driver exports as `name`, or `real` itself. Thread-safe.
void *wrappedExport(std::string_view name, void *real);

/// Leads the driver's exports to the wrappers, once in the process; loads the driver for that. Two
/// threads must not call it at the same time.
void installDriverHook();

} // namespace tally::hooks

#endif
