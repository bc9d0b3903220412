// The device that serves the process's work, with its high-priority and best-effort parts, from the
// first call that needs them to the reset of the device or the end of the process.
#ifndef TALLY_LIB_HOOKS_PROCESS_SERVED_DEVICE_H
#define TALLY_LIB_HOOKS_PROCESS_SERVED_DEVICE_H

#include "engine/activity.h"
#include "engine/best_effort_engine.h"
#include "engine/high_footprints.h"
#include "state/captures.h"
#include "state/memory_account.h"
#include "state/registry.h"
#include "state/requests.h"
#include "state/settings.h"
#include "state/streams.h"
#include "tables/cuda_api.h"
#include "work/loaded_images.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include <unistd.h>

namespace tally::hooks {

/// Thread-safe. The constructor's arguments outlive it.
class ServedDevice {
public:
  /// The state that the process has beside the device.
  struct Process {
    const Settings &settings;
    runtime::Trace *trace; ///< may be nullptr
    StreamTable &streams;
    Registry &registry;
    LoadedImages &images;
    Captures &captures;
    Requests &requests;
    MemoryAccount &memory;
  };
  explicit ServedDevice(const Process &process)
      : process(process), mayJoin(process.settings.arena.isJoined) {}

  /// nullptr: high-priority work is not reported.
  Activity *activity(std::memory_order order = std::memory_order_acquire) const {
    return shared.load(order);
  }
  /// nullptr: there is no best-effort work.
  BestEffortEngine *engine() const { return running.load(std::memory_order_acquire); }
  /// nullptr: no work pauses.
  HighFootprints *footprints() const { return seen.load(std::memory_order_acquire); }
  /// The headroom that pausing work leaves on each SM; nullptr where no work pauses.
  const runtime::Headroom *headroom() const {
    HighFootprints *now = footprints();
    return now ? &now->headroom() : nullptr;
  }
  /// Whether best-effort work goes to the device at once now.
  bool isAhead() const {
    BestEffortEngine *now = engine();
    return now && now->isAhead();
  }
  /// Whether best-effort work of the context can be queued.
  bool isServedContext(const void *context) const {
    BestEffortEngine *now = engine();
    return now && now->context() == context;
  }

  /// The engine, made at its first use. Returns nullptr where it cannot be made: then no work is
  /// held back.
  BestEffortEngine *start(const CudaApi &api);
  /// Whether joinLater() has to be called after a CUDA call that returned `status`: if the call
  /// succeeded, the device's context exists.
  bool joinsAfter(int status) const {
    return mayJoin.load(std::memory_order_relaxed) && status == cudaSuccess;
  }
  /// The first high-priority work is there: joins the arena for the calling thread's device, on a
  /// thread of its own.
  void joinLater(const CudaApi &api);
  /// Waits for all queued best-effort work.
  void drain() {
    if (BestEffortEngine *now = engine())
      now->drain();
  }
  /// The error of an operation whose call had already returned, else `status`.
  cudaError_t withDeferred(cudaError_t status, bool clear = true);
  /// The application has created or destroyed a stream.
  void countStreams();
  /// Launches may bypass the hooks unseen (driver_hook.h): waits for all queued operations. From
  /// then on best-effort work runs as without Tally.
  void runPlainly();
  /// `call` resets the device. Ends all work and state on the device first; nothing new begins
  /// meanwhile.
  cudaError_t reset(const std::function<cudaError_t()> &call);
  /// At the process's end: from now on no thread of the hooks calls CUDA for the arena.
  void endJoining();
  /// In a forked child, which has none of the threads: drops the activity and the engine, and makes
  /// no new ones.
  void beInForkedChild();
  /// The counts of best-effort work so far, including those from before resets of the device.
  Totals totals() const;

private:
  /// Under `starting`. Returns nullptr where it cannot be opened, or where `forOthers` is set and
  /// there are no other processes.
  Activity *openActivity(const CudaApi &api, int device, bool forOthers);
  /// Returns whether the hooks see all launches of the process; if not, a line on standard error
  /// has the reason.
  bool seesAll();

  const Process process;
  std::atomic<Activity *> shared{nullptr}; ///< no engine exists without it
  std::atomic<BestEffortEngine *> running{nullptr};
  std::atomic<HighFootprints *> seen{nullptr}; ///< made with the engine, where work may pause
  std::atomic<bool> mayJoin;                   ///< the arena was not tried yet
  std::mutex joinerMutex;
  std::thread joiner; ///< guarded by `joinerMutex`
  const pid_t joinerProcess = getpid();
  std::mutex starting; ///< guards the members below, and making the activity, the engine and the
                       ///< footprints
  std::atomic<bool> cannotStart{false};
  std::atomic<bool> isPlain{false};     ///< best-effort work is not queued any more
  std::atomic<std::uint64_t> resets{0}; ///< of the device
  Totals earlier;                       ///< counts of engines before a reset of the device
};

} // namespace tally::hooks

#endif
