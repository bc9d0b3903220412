// Launches by the program that go to the CUDA driver without the runtime in between. The runtime
// looks up the driver's function behind a kernel at each launch; the hooks do that once. So a
// launch takes the host less time than in the plain program. A program whose requests are many
// launches waits for the thread that makes them (docs/design/hooks.md, "Straight to the driver").
#ifndef TALLY_LIB_HOOKS_WORK_DIRECT_LAUNCHES_H
#define TALLY_LIB_HOOKS_WORK_DIRECT_LAUNCHES_H

#include "state/captures.h"
#include "tables/cuda_api.h"
#include "work/foreign_launch.h"

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>

namespace tally::hooks {

/// The arguments of cudaLaunchKernel other than the kernel.
struct LaunchArguments {
  dim3 grid, block;
  void **arguments; ///< a pointer to each of the kernel's parameters
  std::size_t sharedBytes;
  cudaStream_t stream;
};

/// The driver's functions behind kernels that were launched before, in one context: that of the
/// first launch. Thread-safe.
class DirectLaunches {
public:
  DirectLaunches(bool isOn, const Captures &captures) : isOn(isOn), captures(captures) {}

  /// Makes a launch. `kernel` is the runtime's name for it: a symbol (const void *) or a
  /// cudaKernel_t. Makes the runtime's own call where the driver's function is not known, another
  /// context is current, or a capture is open (a node would not be the runtime's). It does so too
  /// where the driver refuses the launch, so that the runtime returns the error.
  template <class Kernel>
  [[gnu::always_inline]] cudaError_t make(const CudaApi &api, Kernel kernel,
                                          const LaunchArguments &launch) {
    CUfunction function = find(kernel);
    bool isCapturing = captures.any();
    if (isFunction(function) && !isCapturing && launchByDriver(function, launch)) [[likely]]
      return cudaSuccess;
    return makeByRuntime(api, kernel, launch, !function && !isCapturing);
  }

  /// Handles may name other kernels from now on: code was unloaded, or the device reset.
  void forget();

private:
  /// A slot never changes its kernel once it has one, so readers need no lock.
  struct Slot {
    std::atomic<const void *> kernel{nullptr};
    std::atomic<CUfunction> function{nullptr}; ///< nullptr: not asked for yet; or none()
  };
  static constexpr unsigned slotBits = 9, probes = 8;
  static constexpr std::size_t slotCount = std::size_t{1} << slotBits;

  /// Stands for a function that the driver does not tell.
  static CUfunction none() {
    static constinit char mark = 0;
    return reinterpret_cast<CUfunction>(&mark);
  }
  static bool isFunction(CUfunction function) { return function && function != none(); }

  /// The i-th slot in which a kernel may be. (Knuth, The Art of Computer Programming 3, 6.4:
  /// multiplicative hashing.)
  static std::size_t place(const void *kernel, unsigned i) {
    auto number = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(kernel) >> 4);
    return ((number * 0x9e3779b97f4a7c15u >> (64 - slotBits)) + i) % slotCount;
  }
  CUfunction find(const void *kernel) const {
    for (unsigned i = 0; i < probes; ++i) {
      const Slot &slot = slots[place(kernel, i)];
      const void *known = slot.kernel.load(std::memory_order_acquire);
      if (known == kernel)
        return slot.function.load(std::memory_order_acquire);
      if (!known)
        return nullptr;
    }
    return none(); // no free slot
  }
  bool launchByDriver(CUfunction function, const LaunchArguments &launch) const {
    const DriverLaunches *by = driver.load(std::memory_order_relaxed);
    CUcontext current = nullptr;
    if (launch.sharedBytes > std::numeric_limits<unsigned>::max() ||
        by->currentContext(&current) != CUDA_SUCCESS ||
        current != context.load(std::memory_order_relaxed))
      return false;
    CUlaunchConfig config{};
    config.gridDimX = launch.grid.x;
    config.gridDimY = launch.grid.y;
    config.gridDimZ = launch.grid.z;
    config.blockDimX = launch.block.x;
    config.blockDimY = launch.block.y;
    config.blockDimZ = launch.block.z;
    config.sharedMemBytes = static_cast<unsigned>(launch.sharedBytes);
    config.hStream = launch.stream;
    return by->launch(&config, function, launch.arguments, nullptr) == CUDA_SUCCESS;
  }
  /// `isNew`: the driver was not asked for the function behind the kernel yet.
  cudaError_t makeByRuntime(const CudaApi &api, const void *symbol, const LaunchArguments &launch,
                            bool isNew);
  cudaError_t makeByRuntime(const CudaApi &api, cudaKernel_t kernel, const LaunchArguments &launch,
                            bool isNew);
  template <class Ask> void keep(const CudaApi &api, const void *kernel, Ask ask);

  const bool isOn;
  const Captures &captures;
  // Set before the first function is.
  std::atomic<const DriverLaunches *> driver{nullptr};
  std::atomic<CUcontext> context{nullptr};
  std::array<Slot, slotCount> slots;
  std::mutex mutex; ///< for writers
};

} // namespace tally::hooks

#endif
