// The device that the process's work is served on: what there is on it of high priority and of best
// effort, from the first call that needs it to the reset of the device or the end of the process.
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

/// Thread-safe. What it is constructed with outlives it.
class ServedDevice {
public:
  /// What the process has beside the device.
  struct Process {
    const Settings &settings;
    runtime::Trace *trace; ///< or none
    StreamTable &streams;
    Registry &registry;
    LoadedImages &images;
    Captures &captures;
    Requests &requests;
    MemoryAccount &memory;
  };
  explicit ServedDevice(const Process &process)
      : process(process), mayJoin(process.settings.arena.isJoined) {}

  /// nullptr: nobody is told of work of high priority.
  Activity *activity(std::memory_order order = std::memory_order_acquire) const {
    return shared.load(order);
  }
  /// nullptr: there is no best-effort work.
  BestEffortEngine *engine() const { return running.load(std::memory_order_acquire); }
  /// nullptr: nothing pauses.
  HighFootprints *footprints() const { return seen.load(std::memory_order_acquire); }
  /// What pausing work leaves room for on each SM; nullptr where nothing pauses.
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

  /// The engine, made when it is first needed. nullptr where it cannot be had: then nothing is held
  /// back.
  BestEffortEngine *start(const CudaApi &api);
  /// Whether joinLater() has to be called behind a call of CUDA that came to `status`: if it
  /// succeeded the device's context is there.
  bool joinsAfter(int status) const {
    return mayJoin.load(std::memory_order_relaxed) && status == cudaSuccess;
  }
  /// The first work of high priority is there: joins the arena, on a thread of its own, for the
  /// calling thread's device.
  void joinLater(const CudaApi &api);
  /// Waits for all best-effort work that is queued.
  void drain() {
    if (BestEffortEngine *now = engine())
      now->drain();
  }
  /// The error that an operation left whose call had returned, else `status`.
  cudaError_t withDeferred(cudaError_t status, bool clear = true);
  /// The application has created or destroyed a stream.
  void countStreams();
  /// Launches may pass unseen (driver_hook.h): what is queued is waited for, and best-effort work
  /// runs as it would without tally from here on.
  void runPlainly();
  /// `call` resets the device. Before that all ends that there is on it; meanwhile nothing begins.
  cudaError_t reset(const std::function<cudaError_t()> &call);
  /// At the process's end: no thread of the hooks calls CUDA for the arena any more.
  void endJoining();
  /// In a forked child, which has none of the threads: nothing is there, and nothing begins.
  void beInForkedChild();
  /// What best-effort work has come to so far, before resets of the device too.
  Totals totals() const;

private:
  /// Under `starting`. nullptr where it cannot be had, or `forOthers` and there are no others.
  Activity *openActivity(const CudaApi &api, int device, bool forOthers);
  /// Whether all launches of the process are seen; if not, a line says why.
  bool seesAll();

  const Process process;
  std::atomic<Activity *> shared{nullptr}; ///< there is no engine without it
  std::atomic<BestEffortEngine *> running{nullptr};
  std::atomic<HighFootprints *> seen{nullptr}; ///< with the engine, where work may pause
  std::atomic<bool> mayJoin;                   ///< the arena was not tried yet
  std::mutex joinerMutex;
  std::thread joiner; ///< guarded by the mutex
  const pid_t joinerProcess = getpid();
  std::mutex starting; ///< what follows, and making the three
  std::atomic<bool> cannotStart{false};
  std::atomic<bool> isPlain{false};     ///< best-effort work is not queued any more
  std::atomic<std::uint64_t> resets{0}; ///< of the device
  Totals earlier;                       ///< of engines before a reset of the device
};

} // namespace tally::hooks

#endif
