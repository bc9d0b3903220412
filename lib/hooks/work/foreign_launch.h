// Kernel launches through the driver by libraries that are not linked with the hooks: the hooks
// copy a launch, to make it later on another stream.
#ifndef TALLY_LIB_HOOKS_WORK_FOREIGN_LAUNCH_H
#define TALLY_LIB_HOOKS_WORK_FOREIGN_LAUNCH_H

#include "tables/driver_launches.h"
#include "work/arguments.h"

#include "tally/runtime/device.h"
#include "tally/support/dim3.h"

#include <cuda.h>
#include <driver_types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tally::hooks {

/// Why the calling thread makes a library's launch, when all queued operations are over.
enum class InTurnReason : std::uint8_t {
  NotAsked,     ///< the driver does not tell the facts of a kernel
  Parameters,   ///< not told by the driver, or none, or given in an unknown form
  Attributes,   ///< attributes tie the launch to other work
  WouldFail,    ///< the shape is invalid: the caller has to get the error
  OtherDevice,  ///< the queue is for another device
  OtherContext, ///< the queue is for another context
  OtherCall     ///< a graph, several kernels, or an old form of launch
};

/// Counts of such launches, by reason. Thread-safe.
class InTurnCounts {
public:
  void add(InTurnReason reason) { counts[static_cast<std::size_t>(reason)].fetch_add(1); }
  std::uint64_t of(InTurnReason reason) const {
    return counts[static_cast<std::size_t>(reason)].load();
  }
  /// In words; empty where there was none.
  std::string statistics() const;

private:
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(InTurnReason::OtherCall) + 1>
      counts{};
};

/// The facts of a kernel that a queued launch needs.
struct ForeignKernel {
  CUfunction function = nullptr;                 ///< the driver answers questions about this
  CUcontext context = nullptr;                   ///< the context of the questions
  std::string_view name;                         ///< empty where it was not asked for
  std::uint64_t mostThreads = 0, mostShared = 0; ///< limits of a launch; mostThreads 0: not known
  Dim3 requiredCluster{0, 0, 0};                 ///< zero: the launch's own, if any
  Parameters parameters;                         ///< empty: none, or not known
};

/// The kernels that the driver was asked about. Thread-safe.
class ForeignKernels {
public:
  /// In `context`, which is current. `launched`: a CUfunction, or a CUkernel in its place.
  std::shared_ptr<const ForeignKernel> find(const DriverLaunches &driver, CUfunction launched,
                                            CUcontext context);
  /// Handles may name other kernels from now on, or kernels may have other limits.
  void forget();
  /// Makes a call by which handles may come to name other kernels: meanwhile no facts are kept.
  template <class Call> auto changing(const Call &call) {
    changes.fetch_add(1);
    auto status = call();
    forget();
    changes.fetch_sub(1);
    return status;
  }

private:
  std::atomic<unsigned> changes{0};        ///< calls of changing() in progress
  std::atomic<std::uint64_t> forgotten{0}; ///< calls of forget()
  std::shared_mutex mutex;
  std::unordered_map<CUfunction, std::shared_ptr<const ForeignKernel>> known;
};

/// A launch that can be made at any later time, by a thread that has the same context.
struct ForeignLaunch {
  std::uint64_t identity = 0; ///< identity of the kernel
  std::string_view name;      ///< name of the kernel; empty if the caller did not ask for the name
  LaunchShape shape;
  void *context = nullptr; ///< the CUcontext that the caller had
  DriverLaunches driver;
  CUfunction function = nullptr;             ///< as the caller named it
  CUlaunchConfig config{};                   ///< without attributes
  std::vector<CUlaunchAttribute> attributes; ///< attributes that are kept
  runtime::SharedBytes bytes;                ///< the parameters
  /// The kernel, for the offsets of its parameters; nullptr: `bytes` is the whole buffer.
  std::shared_ptr<const ForeignKernel> kernel;

  /// Makes the launch on the given stream. Thread-safe.
  cudaError_t launch(cudaStream_t stream) const;
};

/// A launch to be made later, or why there is none.
struct TakenLaunch {
  std::shared_ptr<const ForeignLaunch> launch;
  InTurnReason reason = InTurnReason::NotAsked; ///< set where there is no launch
};

/// A copy or a fill of one range, to be made later.
struct ForeignCopy {
  void *to = nullptr;
  const void *from = nullptr; ///< for a copy
  bool isFill = false;
  bool mayBeKernel = true;           ///< the driver may use a kernel
  std::optional<unsigned char> byte; ///< for a fill whose bytes are all the same
  bool isAligned = true;             ///< for a fill: `to` is aligned for the elements
  std::size_t bytes = 0;
  void *context = nullptr;                     ///< the CUcontext that the caller has
  std::function<cudaError_t(cudaStream_t)> on; ///< makes it on the given stream
};

/// The resources that each block of a kernel takes; nothing where the driver does not tell.
std::optional<runtime::FunctionAttributes> attributesOf(const DriverLaunches &driver,
                                                        CUfunction function);

/// Copies a launch, including its parameters.
TakenLaunch takeLaunch(const DriverLaunches &driver, ForeignKernels &kernels,
                       const CUlaunchConfig &config, CUfunction function, void **parameters,
                       void **extra);

} // namespace tally::hooks

#endif
