// One best-effort launch of a kernel as the application made it, and how the lane makes it.
#ifndef TALLY_LIB_HOOKS_WORK_KERNEL_LAUNCH_H
#define TALLY_LIB_HOOKS_WORK_KERNEL_LAUNCH_H

#include "state/registry.h"
#include "work/api_device.h"
#include "work/arguments.h"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace tally::hooks {

/// The arguments of a launch, whichever call made it.
struct LaunchRequest {
  const void *function = nullptr;
  dim3 grid, block;
  std::size_t sharedBytes = 0;
  std::span<const cudaLaunchAttribute> attributes;
  void **arguments = nullptr;
  bool cooperative = false;
};

/// A launch with the arguments as they were at the call.
struct KernelLaunch {
  KernelRecord *kernel = nullptr;
  const void *function = nullptr; ///< the program's name for the kernel
  LaunchShape shape;
  int device = 0;
  bool nonPreemptible = false;    ///< not through a variant, even where there is one
  runtime::SharedBytes arguments; ///< at the offsets of `parameters`
  std::shared_ptr<const Parameters> parameters;
  std::vector<cudaLaunchAttribute> attributes; ///< attributes that are kept, except the cluster
};

LaunchShape shapeOf(dim3 grid, dim3 block, std::size_t sharedBytes);

/// The launch with its arguments; nullptr where it cannot be queued. (launch_calls.cpp)
std::shared_ptr<KernelLaunch> makeLaunch(KernelRecord &kernel, int device,
                                         const LaunchRequest &request);

/// The kernel's variants as the device knows them, with the attributes that the application has set
/// on its kernel; nullptr where none is usable. Thread-safe.
runtime::LoadedKernel *usableVariants(ApiDevice &device, KernelRecord &kernel);

/// Launches the user's kernel on a stream.
cudaError_t launchUserKernel(const KernelLaunch &launch, cudaStream_t stream);

/// Launches an entry of a kernel that has facts. `parameters` is the entry's whole parameter space.
cudaError_t launchVariant(const FunctionEntry &entry, const LaunchShape &shape,
                          std::span<const std::byte> parameters,
                          std::span<const cudaLaunchAttribute> attributes, cudaStream_t stream);

} // namespace tally::hooks

#endif
