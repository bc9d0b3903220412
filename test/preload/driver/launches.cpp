// Launches, with a pointer to each argument, or one buffer that holds all arguments.
#include "driver.h"

#include "emulated_cuda/modules.h"

#include <vector>

namespace tally::preload_driver {

namespace {

using hooks::emulated::Kernel;
using hooks::emulated::Modules;

/// Makes pointers into the buffer that `extra` describes.
cudaError_t unpacked(const void *function, void **extra, std::vector<void *> &arguments) {
  std::byte *buffer = nullptr;
  std::size_t bytes = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = static_cast<std::byte *>(extra[1]);
    else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
      bytes = *static_cast<const std::size_t *>(extra[1]);
    else
      return cudaErrorInvalidValue;
  }
  Kernel *kernel = nullptr;
  if (cudaError_t bad = Modules::get().kernel(function, kernel); bad != cudaSuccess)
    return bad;
  for (const auto &each : kernel->info.parameters) {
    if (!buffer || each.offset + each.bytes > bytes)
      return cudaErrorInvalidValue;
    arguments.push_back(buffer + each.offset);
  }
  return cudaSuccess;
}

cudaError_t launched(const CUlaunchConfig &config, CUfunction function, void **arguments,
                     void **extra) {
  if (!function)
    return cudaErrorInvalidDeviceFunction;
  if (arguments && extra)
    return cudaErrorInvalidValue;
  std::vector<void *> pointers;
  if (extra) {
    if (cudaError_t bad = unpacked(function, extra, pointers); bad != cudaSuccess)
      return bad;
    arguments = pointers.data();
  }
  cudaLaunchConfig_t same{};
  same.gridDim = {config.gridDimX, config.gridDimY, config.gridDimZ};
  same.blockDim = {config.blockDimX, config.blockDimY, config.blockDimZ};
  same.dynamicSmemBytes = config.sharedMemBytes;
  same.stream = config.hStream;
  // An attribute has the same layout in both interfaces.
  static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute));
  same.attrs = reinterpret_cast<cudaLaunchAttribute *>(config.attrs);
  same.numAttrs = config.numAttrs;
  return runtime().cudaLaunchKernelExC(&same, function, arguments);
}

CUlaunchConfig configOf(dim3 grid, dim3 block, unsigned shared, CUstream stream) {
  CUlaunchConfig config{};
  config.gridDimX = grid.x;
  config.gridDimY = grid.y;
  config.gridDimZ = grid.z;
  config.blockDimX = block.x;
  config.blockDimY = block.y;
  config.blockDimZ = block.z;
  config.sharedMemBytes = shared;
  config.hStream = stream;
  return config;
}

cudaError_t launchedTogether(CUlaunchConfig config, CUfunction function, void **arguments) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return launched(config, function, arguments, nullptr);
}

} // namespace

} // namespace tally::preload_driver

using namespace tally::preload_driver;

extern "C" {

TALLY_STREAM_FORMS(cuLaunchKernel,
                   (CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ,
                    unsigned blockX, unsigned blockY, unsigned blockZ, unsigned shared,
                    CUstream stream, void **arguments, void **extra),
                   launched(configOf({gridX, gridY, gridZ}, {blockX, blockY, blockZ}, shared,
                                     stream),
                            function, arguments, extra))

TALLY_STREAM_FORMS(
    cuLaunchCooperativeKernel,
    (CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
     unsigned blockY, unsigned blockZ, unsigned shared, CUstream stream, void **arguments),
    launchedTogether(configOf({gridX, gridY, gridZ}, {blockX, blockY, blockZ}, shared, stream),
                     function, arguments))

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments,
                          void **extra) {
  return inContext([&] {
    return config ? launched(*config, function, arguments, extra) : cudaErrorInvalidValue;
  });
}
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **arguments,
                               void **extra) {
  if (!config)
    return cuLaunchKernelEx(config, function, arguments, extra);
  CUlaunchConfig onThread = *config;
  onThread.hStream = perThread(config->hStream);
  return cuLaunchKernelEx(&onThread, function, arguments, extra);
}

} // extern "C"
