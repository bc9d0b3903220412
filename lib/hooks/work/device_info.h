// The facts that CUDA tells of a device.
#ifndef TALLY_LIB_HOOKS_WORK_DEVICE_INFO_H
#define TALLY_LIB_HOOKS_WORK_DEVICE_INFO_H

#include "tables/cuda_api.h"

#include "tally/runtime/device.h"

namespace tally::hooks {

/// The facts of the device of that number.
Result<runtime::DeviceInfo> readDeviceInfo(const CudaApi &api, int device);
/// The calling thread's CUcontext; nullptr where there is no driver to ask.
void *currentContext(const CudaApi &api);

} // namespace tally::hooks

#endif
