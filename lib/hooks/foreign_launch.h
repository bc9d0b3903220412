// Launches of kernels by libraries that are not linked with the hooks, through the driver: a copy
// of one, to be made later on another stream.
#ifndef TALLY_LIB_HOOKS_FOREIGN_LAUNCH_H
#define TALLY_LIB_HOOKS_FOREIGN_LAUNCH_H

#include "stream_memory.h"

#include "tally/runtime/device.h"
#include "tally/support/dim3.h"

#include <cuda.h>
#include <driver_types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace tally::hooks {

/// A launch that can be made at any later time, by a thread that has the same context.
struct ForeignLaunch {
  std::uint64_t identity = 0; ///< the kernel's
  std::string_view name;      ///< likewise; empty where it was not asked for
  LaunchShape shape;
  void *context = nullptr; ///< the CUcontext that the caller had
  std::function<cudaError_t(cudaStream_t)> launch;
};

/// A copy or a fill of one range, likewise.
struct ForeignCopy {
  void *to = nullptr;
  const void *from = nullptr; ///< of a copy
  bool isFill = false;
  bool mayBeKernel = true;           ///< of the driver's
  std::optional<unsigned char> byte; ///< of a fill by what is the same in all bytes
  bool isAligned = true;             ///< of a fill: `to`, as its elements have to be
  std::size_t bytes = 0;
  void *context = nullptr;                     ///< the CUcontext that the caller has
  std::function<cudaError_t(cudaStream_t)> on; ///< makes it on that stream
};

/// What this takes of the driver.
struct DriverLaunches {
  using LaunchEx = CUresult (*)(const CUlaunchConfig *, CUfunction, void **, void **);
  using ParameterInfo = CUresult (*)(CUfunction, std::size_t, std::size_t *, std::size_t *);
  using CurrentContext = CUresult (*)(CUcontext *);
  using Attribute = CUresult (*)(int *, CUfunction_attribute, CUfunction);
  using FunctionName = CUresult (*)(const char **, CUfunction);
  using FunctionOfKernel = CUresult (*)(CUfunction *, CUkernel);
  LaunchEx launch = nullptr;
  ParameterInfo parameterInfo = nullptr; ///< since 12.4
  Attribute attribute = nullptr;
  CurrentContext currentContext = nullptr;
  FunctionOfKernel functionOfKernel = nullptr; ///< since 12.0
  FunctionName functionName = nullptr;         ///< since 12.3; nullptr: nobody wants to know names
  // Of the emulator only.
  runtime::BatchMemOp batchMemOp = nullptr; ///< of waits only
  /// cuStreamWriteValue64
  int (*writeValue)(cudaStream_t, std::uint64_t address, std::uint64_t value, unsigned) = nullptr;
};

/// What each block of a kernel takes; nothing where the driver does not tell.
std::optional<runtime::FunctionAttributes> attributesOf(const DriverLaunches &driver,
                                                        CUfunction function);

/// Takes a copy of a launch, its parameters included. nullptr where it cannot be made later: its
/// parameters are not known (an older driver, a kernel without any), it has attributes that tie it
/// to other work, or it would fail, which the caller has to hear of.
std::shared_ptr<const ForeignLaunch> takeLaunch(const DriverLaunches &driver,
                                                const CUlaunchConfig &config, CUfunction function,
                                                void **parameters, void **extra);

} // namespace tally::hooks

#endif
