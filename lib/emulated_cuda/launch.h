// A kernel launch as the runtime's calls describe it.
#ifndef TALLY_LIB_EMULATED_CUDA_LAUNCH_H
#define TALLY_LIB_EMULATED_CUDA_LAUNCH_H

#include "graph.h"
#include "modules.h"

#include <vector>

namespace tally::hooks {
struct DriverLaunches;
}

namespace tally::hooks::emulated {

/// The part of the driver below the emulated runtime that launches need.
const DriverLaunches &driver();

struct KernelLaunch {
  const void *function = nullptr;
  LaunchShape shape;
  bool isCooperative = false;
  void **arguments = nullptr; ///< a pointer to each; copied by work()
};

/// Sets `work` to issue the launch. Returns the error that CUDA returns at the call.
cudaError_t workOf(runtime::EmulatorDevice &device, const KernelLaunch &launch, GraphWork &work);

/// Returns the number of blocks of this shape that fit one SM at a time; 0 when the shape can never
/// run.
std::uint32_t residentBlocks(const Kernel &kernel, std::uint64_t threads, std::size_t shared);

inline constexpr std::uint32_t threadsPerSm = 2048, blocksPerSm = 32;
inline constexpr std::size_t sharedPerSm = 228 * 1024, sharedPerBlock = 227 * 1024,
                             sharedWithoutOptIn = 48 * 1024, sharedReserved = 1024;

} // namespace tally::hooks::emulated

#endif
