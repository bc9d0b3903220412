// What the process has once there is best-effort work in it: the control word, the queue, and what
// of high-priority calls has to wait for it.
#ifndef TALLY_LIB_HOOKS_ENGINE_BEST_EFFORT_ENGINE_H
#define TALLY_LIB_HOOKS_ENGINE_BEST_EFFORT_ENGINE_H

#include "engine/activity.h"
#include "engine/best_effort_queue.h"
#include "engine/operations.h"
#include "engine/run_ahead.h"
#include "engine/staging.h"
#include "engine/storm.h"
#include "state/in_hook.h"
#include "state/settings.h"
#include "state/streams.h"
#include "work/api_device.h"
#include "work/foreign_launch.h"
#include "work/graph_parts.h"
#include "work/kernel_launch.h"
#include "work/own_kernels.h"

#include "tally/policy/policy.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>

namespace tally::hooks {

/// What was launched. `nonPreemptible`, `throughVariants` and `ahead` (run_ahead.h) are best
/// effort; `foreign...`: by libraries that are not linked with the hooks.
struct Totals {
  KindCounts byKind{}; ///< of throughVariants
  std::uint64_t highLaunches = 0, throughVariants = 0, nonPreemptible = 0, foreignHigh = 0,
                foreignBestEffort = 0, ahead = 0, physical = 0, yields = 0, requests = 0,
                savedBlocks = 0, saveAreasRefused = 0, pauses = 0;
  /// Copies and fills that kernels of the hooks' own made: none of the launches.
  std::uint64_t copiesByKernels = 0;
  /// Of streams on the device, for a launch ahead to be done.
  std::uint64_t waits = 0;
};

/// Thread-safe. Never destroyed: threads may be in it as long as the process lives.
class BestEffortEngine {
public:
  /// For the activity's device.
  /// `trace`: where it is noted what ran when, or nowhere.
  static Result<std::unique_ptr<BestEffortEngine>> create(const CudaApi &api, Activity &activity,
                                                          const Settings &settings,
                                                          runtime::Trace *trace = nullptr);

  BestEffortQueue &queue() { return *work; }
  int deviceNumber() const { return device.number(); }
  /// The CUcontext of that device, where the driver says it.
  void *context() const { return device.context(); }
  /// What best-effort work has come to so far. Also after retire().
  Totals totals() const;

  /// A call that puts work of high priority on a stream. It waits only for best-effort work that
  /// the stream is ordered behind.
  template <class Call> auto passHigh(StreamState &stream, const Call &call, bool recordsEvent) {
    std::uint64_t ahead = orderedAhead(stream);
    if (!work->isOverUpTo(ahead))
      work->waitUpTo(ahead, true);
    threadState.launchedHigh = true;
    auto result = activity.pass(stream, call, recordsEvent);
    if (stream.kind != StreamKind::NonBlocking)
      device.noteCall(stream);
    return result;
  }

  /// The ticket of what is queued and ordered before a call on this stream that is no best effort.
  std::uint64_t orderedAhead(const StreamState &stream) const {
    if (stream.kind == StreamKind::NonBlocking)
      return 0;
    return stream.kind == StreamKind::Legacy ? work->lastBlocking() : work->lastLegacy();
  }

  /// Queues a call that is ordered by a best-effort stream.
  std::uint64_t submit(StreamState &stream, Run run, Behind behind = {});
  /// The same on the lane's own stream: what is queued behind it need not wait for the program's.
  /// `stream` is one of this device.
  std::uint64_t submitOnLane(StreamState &stream, OnAnyStream call, Behind behind = {});
  /// Queues nothing but an order: what follows on the stream comes behind these.
  std::uint64_t submitOrder(StreamState &stream, Behind behind);
  /// Queues a launch on a best-effort stream.
  void submit(StreamState &stream, const std::shared_ptr<const KernelLaunch> &launch);
  /// Queues the parts of a graph on a best-effort stream, where nothing of other threads comes
  /// between them. `event`: one that all of it comes after, or nullptr. Returns the last one's
  /// ticket.
  std::uint64_t submit(StreamState &stream, const std::vector<GraphPart> &parts,
                       const OrderingEvent &event, Behind behind);
  /// The same of a library's launch, whose context is this one's.
  void submit(StreamState &stream, const std::shared_ptr<const ForeignLaunch> &launch);
  /// The same of a copy or a fill by a kernel of the hooks' own. `run`: by CUDA, where it goes
  /// whole.
  std::uint64_t submit(StreamState &stream, OwnLaunch launch, RunOn run);
  /// nullptr where copies and fills are left to CUDA.
  OwnKernels *ownKernels() { return own ? &*own : nullptr; }
  Staging *stagingMemory() { return staging ? &*staging : nullptr; }
  /// Makes a call that puts `work` on a best-effort stream at once, where nobody else is there.
  /// Nothing: it has to be queued. `meet` is called before work that the stream has not had yet.
  template <class Call, class Meet>
  auto tryAhead(StreamState &stream, const AheadWork &work, const Call &call, const Meet &meet)
      -> std::optional<decltype(call())> {
    if (!ahead || stream.device != device.number())
      return std::nullopt;
    InHook inside;
    auto noted = [&] {
      threadState.launchedHigh = false;
      threadState.hasQueued = true;
      auto status = call();
      noteCall(stream);
      return status;
    };
    return ahead->tryPass(stream, work, noted, meet);
  }
  bool isAhead() { return ahead && ahead->isAlone(); }
  /// How often best-effort work was asked to yield.
  std::uint64_t requestsSoFar() const { return activity.controlWord().requests(); }
  /// Makes a call on the calling thread when its turn on the stream comes. `launches`: it may
  /// launch a kernel; what stands for that, so that its duration can be known.
  cudaError_t inTurn(StreamState &stream, bool launches, const void *identity, const Run &run,
                     Behind behind = {});
  /// A call was made past the queue: launches behind it have to come behind what it put on the
  /// stream, or on one that is ordered with it.
  void noteCall(StreamState &stream) {
    if (stream.kind == StreamKind::PerThread)
      stream.isUnmarked = true;
    device.noteCall(stream);
  }
  ApiDevice &onDevice() { return device; }
  /// Waits for all that is queued; what a thread of high priority waits for is urgent.
  void drain() { work->drain(activity.isUrgent()); }
  void wait(std::uint64_t ticket) { work->wait(ticket, activity.isUrgent()); }
  void waitUpTo(std::uint64_t ticket) { work->waitUpTo(ticket, activity.isUrgent()); }
  /// Waits for what of the queue a call on the stream comes behind.
  void waitBefore(const StreamState &stream, Behind behind = {}) {
    waitUpTo(std::max(orderedAhead(stream), behind.upTo));
    if (stream.bestEffort)
      wait(stream.lastTicket.load());
    wait(behind.one);
  }

  /// For a process that is about to end: asks what runs to yield, sends nothing more, and returns
  /// when the device has no work of the process. On a thread of its own.
  void quiesce();

  /// Whether the device was told of every request to yield so far.
  bool isTold() const { return activity.controlWord().isTold(); }
  /// At the process's end: keeps what was measured; from now on the engine's threads call the CUDA
  /// runtime for what is put on the queue only.
  void end() {
    saveProfiles();
    device.end();
  }
  /// Stops all threads and gives the device's memory back, before the device is reset. Nothing is
  /// put on it any more.
  void retire();
  /// What was measured goes to disk.
  void saveProfiles();

private:
  /// The calling thread is about to queue something on the stream.
  void beginQueued(StreamState &stream) {
    threadState.launchedHigh = false;
    threadState.hasQueued = true;
    markCalls(stream);
  }
  /// What is queued comes behind calls that were made past the queue. Where those end on a thread's
  /// default stream that thread alone can say; and not before something is queued, since a program
  /// that has waited for its work may ask whether the stream is idle.
  void markCalls(StreamState &stream) {
    if (stream.kind == StreamKind::PerThread && std::exchange(stream.isUnmarked, false))
      activity.mark(stream);
  }
  BestEffortEngine(const CudaApi &api, Activity &activity, const Settings &settings,
                   runtime::Trace *trace)
      : api(api), activity(activity), settings(settings), trace(trace),
        device(activity.onDevice()) {}
  Result<void> open();
  Result<void> openOnOwnThread();
  BestEffortQueue::Lanes openLanes(std::uint32_t bestEffortClass);
  std::uint32_t confinement();
  bool mayRunAhead() const;
  void openProfiles(runtime::LaneOptions &lane);

  const CudaApi &api;
  Activity &activity;
  const Settings settings;
  runtime::Trace *const trace;
  std::optional<runtime::ProfileStore> profiles;
  ApiDevice &device;
  std::unique_ptr<runtime::Dispatcher> dispatcher;
  std::optional<BestEffortQueue> work;
  std::optional<RunAhead> ahead; ///< where all work of the process is best effort
  std::optional<OwnKernels> own;
  std::optional<Staging> staging;       ///< with those
  std::optional<Operations> operations; ///< of the queue
  std::atomic<std::uint64_t> copiesByKernels{0};
  std::optional<Storm> storm;
};

} // namespace tally::hooks

#endif
