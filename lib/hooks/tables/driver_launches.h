// The driver's functions that make a library's launch later, outside the library's call.
#ifndef TALLY_LIB_HOOKS_TABLES_DRIVER_LAUNCHES_H
#define TALLY_LIB_HOOKS_TABLES_DRIVER_LAUNCHES_H

#include "device/stream_memory.h"

#include <cuda.h>
#include <driver_types.h>

#include <cstddef>
#include <cstdint>

namespace tally::hooks {

/// The driver functions that copies of launches use (work/foreign_launch.h).
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
  FunctionName functionName = nullptr;         ///< since 12.3; nullptr: names are not needed
  // Set only for the emulator.
  runtime::BatchMemOp batchMemOp = nullptr; ///< only for waits
  /// cuStreamWriteValue64
  int (*writeValue)(cudaStream_t, std::uint64_t address, std::uint64_t value, unsigned) = nullptr;

  /// The calling thread's context; nullptr where the thread has none or the driver does not tell
  /// it.
  CUcontext contextOfThread() const {
    CUcontext context = nullptr;
    return currentContext && currentContext(&context) == CUDA_SUCCESS ? context : nullptr;
  }
};

} // namespace tally::hooks

#endif
