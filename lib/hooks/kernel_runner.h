// Runs one best-effort launch of a kernel: through a variant to its end, whatever yields in
// between, or whole.
#ifndef TALLY_LIB_HOOKS_KERNEL_RUNNER_H
#define TALLY_LIB_HOOKS_KERNEL_RUNNER_H

#include "api_device.h"
#include "registry.h"

#include "tally/runtime/variant_launch.h"

#include <atomic>
#include <functional>
#include <vector>

namespace tally::hooks {

/// One launch as the application made it, with the arguments of that moment.
struct KernelLaunch {
  const CudaApi *api = nullptr; ///< of the caller: for its stream
  KernelRecord *kernel = nullptr;
  LaunchShape shape;
  cudaStream_t stream = nullptr;
  int device = 0;
  bool whole = false;               ///< not through a variant, whatever there is
  std::vector<std::byte> arguments; ///< at the offsets of `parameters`
  std::vector<bundle::Parameter> parameters;
  std::vector<cudaLaunchAttribute> attributes; ///< that are kept, the cluster's not among them
};

/// Written by who runs best-effort work, read by any thread.
struct RunnerCounters {
  std::atomic<std::uint64_t> throughVariants{0}, whole{0}, physical{0}, yields{0};
};

/// For one thread at a time.
class KernelRunner {
public:
  struct Control {
    runtime::DeviceControl &word;
    /// Waits until best-effort work may be issued; the epoch to issue it under.
    std::function<std::uint64_t()> permit;
  };

  KernelRunner(const CudaApi &api, ApiDevice &device, Control control)
      : api(api), device(device), control(std::move(control)) {}

  /// Takes the device memory that states and lists need. On the device's thread, once it is open.
  Result<void> open();

  /// Through a variant: returns when the last block is done. Whole: when it is issued.
  cudaError_t run(const KernelLaunch &launch);

  const RunnerCounters &counters() const { return counts; }

private:
  struct List {
    void *memory = nullptr;
    std::size_t bytes = 0;
  };

  runtime::LoadedKernel *lookUp(KernelRecord &kernel);
  void applyAttributes(KernelRecord &kernel);
  cudaError_t runWhole(const KernelLaunch &launch);
  cudaError_t runVariant(const KernelLaunch &launch, runtime::LoadedKernel &kernel,
                         runtime::LaunchPlan &plan);
  /// One physical launch to its end; false in `launched` where nothing was launched.
  cudaError_t step(const KernelLaunch &launch, runtime::LoadedKernel &kernel,
                   runtime::VariantLaunch &progress, bool &launched);
  cudaError_t takeState(const KernelLaunch &launch, runtime::VariantLaunch &progress,
                        const tally_launch_state *state);
  cudaError_t place(const KernelLaunch &launch, const runtime::PhysicalLaunch &next,
                    tally_launch_params &params);
  cudaError_t issue(const KernelLaunch &launch, const CudaApi &by, const void *function,
                    const LaunchShape &shape, bool sayCluster, tally_launch_params *params);

  const CudaApi &api;
  ApiDevice &device;
  Control control;
  RunnerCounters counts;

  tally_launch_state *states = nullptr; ///< in device memory; zero from `nextState` on
  std::size_t nextState = 0;
  tally_launch_state *mirror = nullptr; ///< pinned
  List lists[2];                        ///< [0]: what the next launch reads, [1]: what it writes
};

} // namespace tally::hooks

#endif
