// The CUDA driver's own functions, without the hooks, as the engine of a preloaded library calls
// them.
#ifndef TALLY_LIB_PRELOAD_DRIVER_CALLS_H
#define TALLY_LIB_PRELOAD_DRIVER_CALLS_H

#include <cuda.h>
#include <cudaTypedefs.h>
#include <driver_types.h>

namespace tally::preload {

/// A call of a function that the driver does not have returns CUDA_ERROR_NOT_SUPPORTED.
template <class Function> class DriverFunction;
template <class... Parameters> class DriverFunction<CUresult (*)(Parameters...)> {
public:
  CUresult operator()(Parameters... parameters) const {
    return entry ? entry(parameters...) : CUDA_ERROR_NOT_SUPPORTED;
  }
  void set(void *found) { entry = reinterpret_cast<CUresult (*)(Parameters...)>(found); }

private:
  CUresult (*entry)(Parameters...) = nullptr;
};

struct DriverCalls {
#define TALLY_CALL(name, version) DriverFunction<PFN_##name##_v##version> name;
#include "driver_calls.def"
};

/// The driver's error code as the CUDA runtime's: the two number errors alike.
inline cudaError_t status(CUresult result) { return static_cast<cudaError_t>(result); }

/// Call this once the hooks are installed. Thread-safe.
const DriverCalls &driver();

/// The driver's function in the newest form up to `version`; nullptr where there is none.
/// Thread-safe.
void *driverFunction(const char *name, int version = 13000);

} // namespace tally::preload

#endif
