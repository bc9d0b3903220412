// Launches of kernels by libraries that are not linked with the hooks, through the driver: a copy
// of one, to be made later on another stream.
#ifndef TALLY_LIB_HOOKS_WORK_FOREIGN_LAUNCH_H
#define TALLY_LIB_HOOKS_WORK_FOREIGN_LAUNCH_H

#include "tables/driver_launches.h"

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

/// A launch that can be made at any later time, by a thread that has the same context.
struct ForeignLaunch {
  std::uint64_t identity = 0; ///< the kernel's
  std::string_view name;      ///< likewise; empty where it was not asked for
  LaunchShape shape;
  void *context = nullptr; ///< the CUcontext that the caller had
  std::function<cudaError_t(cudaStream_t)> launch;
};

/// Why a library's launch is made by the calling thread, when all that is queued is over.
enum class InTurnReason : std::uint8_t {
  NotAsked,   ///< the driver does not tell what there is to know of a kernel
  Parameters, ///< it does not tell the kernel's, or it has none; or they are given in no known form
  Attributes, ///< that tie it to other work
  WouldFail,  ///< by its shape: the caller has to hear of it
  OtherDevice,  ///< than the one that the queue is for
  OtherContext, ///< likewise
  OtherCall     ///< of a graph or of several kernels, or in a form of old
};

/// How many were, by reason. Thread-safe.
class InTurnCounts {
public:
  void add(InTurnReason reason) { counts[static_cast<std::size_t>(reason)].fetch_add(1); }
  std::uint64_t of(InTurnReason reason) const {
    return counts[static_cast<std::size_t>(reason)].load();
  }
  /// In words; empty where none was.
  std::string statistics() const;

private:
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(InTurnReason::OtherCall) + 1>
      counts{};
};

/// A launch for later, or why there is none.
struct TakenLaunch {
  std::shared_ptr<const ForeignLaunch> launch;
  InTurnReason reason = InTurnReason::NotAsked; ///< without one
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

/// What each block of a kernel takes; nothing where the driver does not tell.
std::optional<runtime::FunctionAttributes> attributesOf(const DriverLaunches &driver,
                                                        CUfunction function);

/// What has to be known of a kernel before a launch of it can be queued.
struct ForeignKernel {
  struct Parameter {
    std::size_t offset, size;
  };
  CUfunction function = nullptr;                 ///< what the driver may be asked about
  CUcontext context = nullptr;                   ///< in which it was asked
  std::string_view name;                         ///< empty where it was not asked for
  std::uint64_t mostThreads = 0, mostShared = 0; ///< of a launch; mostThreads 0: not known
  Dim3 requiredCluster{0, 0, 0};                 ///< zero: the launch's own, if any
  std::vector<Parameter> parameters;             ///< empty: none, or they are not known
};

/// Those that were asked about. Thread-safe.
class ForeignKernels {
public:
  /// In the context, which is current. `launched`: a CUfunction, or a CUkernel in its place.
  std::shared_ptr<const ForeignKernel> find(const DriverLaunches &driver, CUfunction launched,
                                            CUcontext context);
  /// Kernels may come to mean others, or to allow something else.
  void forget();
  /// Around a call by which handles may come to mean others: meanwhile nothing is kept.
  template <class Call> auto changing(const Call &call) {
    changes.fetch_add(1);
    auto status = call();
    forget();
    changes.fetch_sub(1);
    return status;
  }

private:
  std::atomic<unsigned> changes{0};        ///< under way
  std::atomic<std::uint64_t> forgotten{0}; ///< how often
  std::shared_mutex mutex;
  std::unordered_map<CUfunction, std::shared_ptr<const ForeignKernel>> known;
};

/// Takes a copy of a launch, its parameters included.
TakenLaunch takeLaunch(const DriverLaunches &driver, ForeignKernels &kernels,
                       const CUlaunchConfig &config, CUfunction function, void **parameters,
                       void **extra);

} // namespace tally::hooks

#endif
