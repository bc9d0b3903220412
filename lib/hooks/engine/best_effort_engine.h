// The parts that a process has once it has best-effort work: the control word, the queue, and the
// order between high-priority calls and queued work.
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

/// Counts of launches. `nonPreemptible`, `throughVariants` and `ahead` (run_ahead.h) are
/// best-effort launches; `foreign...` are launches by libraries that are not linked with the hooks.
struct Totals {
  KindCounts byKind{}; ///< part of throughVariants
  std::uint64_t highLaunches = 0, throughVariants = 0, nonPreemptible = 0, foreignHigh = 0,
                foreignBestEffort = 0, ahead = 0, physical = 0, yields = 0, requests = 0,
                savedBlocks = 0, saveAreasRefused = 0, pauses = 0;
  /// Copies and fills made by the hooks' own kernels; not part of the launches.
  std::uint64_t copiesByKernels = 0;
  /// Waits of streams, on the device, for an earlier launch to end.
  std::uint64_t waits = 0;
  /// Physical launches on a part of the SMs, and the SMs of a lane's newest, the most of any.
  std::uint64_t confined = 0;
  std::uint32_t confinedSms = 0;
};

/// Thread-safe. Never destroyed: threads may use it as long as the process lives.
class BestEffortEngine {
public:
  /// For the activity's device. `trace` records the times of the work; it may be nullptr.
  static Result<std::unique_ptr<BestEffortEngine>> create(const CudaApi &api, Activity &activity,
                                                          const Settings &settings,
                                                          runtime::Trace *trace = nullptr);

  BestEffortQueue &queue() { return *work; }
  int deviceNumber() const { return device.number(); }
  /// The CUcontext of the device; nullptr where the driver does not tell it.
  void *context() const { return device.context(); }
  /// The counts of best-effort work so far. May also be called after retire().
  Totals totals() const;

  /// Makes a call that puts high-priority work on a stream. The call waits only for best-effort
  /// work that the stream is ordered behind.
  template <class Call> auto passHigh(StreamState &stream, const Call &call, bool recordsEvent) {
    std::uint64_t ahead = orderedAhead(stream);
    if (!work->isOverUpTo(ahead))
      work->waitUpTo(ahead, true);
    auto result = activity.pass(stream, call, recordsEvent);
    if (stream.kind != StreamKind::NonBlocking)
      device.noteCall(stream);
    return result;
  }

  /// Last ticket that a high-priority call on this stream must wait for.
  std::uint64_t orderedAhead(const StreamState &stream) const {
    if (stream.kind == StreamKind::NonBlocking)
      return 0;
    return stream.kind == StreamKind::Legacy ? work->lastBlocking() : work->lastLegacy();
  }

  /// Queues a call on a best-effort stream.
  std::uint64_t submit(StreamState &stream, Run run, Behind behind = {});
  /// Queues a call on the lane's own stream: later queued operations need not wait for the
  /// program's stream. `stream` belongs to this device.
  std::uint64_t submitOnLane(StreamState &stream, OnAnyStream call, Behind behind = {});
  /// Queues only an order: later operations on the stream come behind `behind`.
  std::uint64_t submitOrder(StreamState &stream, Behind behind);
  /// Queues a launch on a best-effort stream.
  void submit(StreamState &stream, const std::shared_ptr<const KernelLaunch> &launch);
  /// Queues the parts of a graph on a best-effort stream; no operation of another thread comes
  /// between the parts. All parts come after `event`, which may be nullptr. Returns the ticket of
  /// the last part.
  std::uint64_t submit(StreamState &stream, const std::vector<GraphPart> &parts,
                       const OrderingEvent &event, Behind behind);
  /// Queues a library's launch, which has this engine's context.
  void submit(StreamState &stream, const std::shared_ptr<const ForeignLaunch> &launch);
  /// Queues a copy or a fill that a kernel of the hooks makes. `run` makes it through CUDA, where
  /// it is not preemptible.
  std::uint64_t submit(StreamState &stream, OwnLaunch launch, RunOn run);
  /// nullptr where CUDA makes all copies and fills.
  OwnKernels *ownKernels() { return own ? &*own : nullptr; }
  Staging *stagingMemory() { return staging ? &*staging : nullptr; }
  /// Makes a call that puts `work` on a best-effort stream at once, while no other class of work is
  /// there. Returns nothing where the work has to be queued. `meet` is called before a kind of work
  /// that the stream has not had yet.
  template <class Call, class Meet>
  auto tryAhead(StreamState &stream, const AheadWork &work, const Call &call, const Meet &meet)
      -> std::optional<decltype(call())> {
    if (!ahead || stream.device != device.number())
      return std::nullopt;
    InHook inside;
    return ahead->tryPass(stream, work, [&] { return noted(stream, call); }, meet);
  }
  /// tryAhead() for a launch like earlier ones on the stream (RunAhead::passAgain()).
  template <class Call>
  auto passAgain(StreamState &stream, const AheadWork &work, const Call &call)
      -> std::optional<decltype(call())> {
    if (!ahead)
      return std::nullopt;
    InHook inside;
    return ahead->passAgain(stream, work, [&] { return noted(stream, call); });
  }
  bool isAhead() { return ahead && ahead->isAlone(); }
  /// Number of times that best-effort work was asked to yield.
  std::uint64_t requestsSoFar() const { return activity.controlWord().requests(); }
  /// Makes a call on the calling thread when its turn on the stream comes. `launches`: the call may
  /// launch a kernel. `identity` stands for the kernel, so that the engine can learn its duration.
  cudaError_t inTurn(StreamState &stream, bool launches, const void *identity, const Run &run,
                     Behind behind = {});
  /// A call was made without the queue: later launches on its stream, or on streams ordered with
  /// it, have to come behind that call's work.
  void noteCall(StreamState &stream) {
    if (stream.kind == StreamKind::PerThread)
      stream.isUnmarked = true;
    device.noteCall(stream);
  }
  ApiDevice &onDevice() { return device; }
  /// Waits for all queued operations. Where a high-priority thread waits, they are urgent.
  void drain() { work->drain(activity.isUrgent()); }
  void wait(std::uint64_t ticket) { work->wait(ticket, activity.isUrgent()); }
  void waitUpTo(std::uint64_t ticket) { work->waitUpTo(ticket, activity.isUrgent()); }
  /// Waits for the queued operations that a call on the stream comes behind.
  void waitBefore(const StreamState &stream, Behind behind = {}) {
    waitUpTo(std::max(orderedAhead(stream), behind.upTo));
    if (stream.bestEffort)
      wait(stream.lastTicket.load());
    wait(behind.one);
  }

  /// For a process that is about to end: asks running work to yield, sends nothing more, and
  /// returns when the device has no work of the process. Called on a thread of its own.
  void quiesce();

  /// Whether the device was told of every request to yield so far.
  bool isTold() const { return activity.controlWord().isTold(); }
  /// At the process's end: saves measurements. From now on the engine's threads call the CUDA
  /// runtime only for operations that are put on the queue.
  void end() {
    saveProfiles();
    device.end();
  }
  /// Stops all threads and frees the engine's device memory, before the device is reset. No
  /// operation is queued any more.
  void retire();
  /// Writes measurements to disk.
  void saveProfiles();

private:
  /// The calling thread is about to put best-effort work on a stream.
  static void noteThread() {
    threadState.launchedHigh = false;
    threadState.hasQueued = true;
  }
  /// Makes a call without the queue.
  template <class Call> auto noted(StreamState &stream, const Call &call) {
    noteThread();
    auto status = call();
    noteCall(stream);
    return status;
  }
  /// The calling thread is about to queue an operation on the stream.
  void beginQueued(StreamState &stream) {
    noteThread();
    markCalls(stream);
  }
  /// Queued operations come behind calls that were made without the queue. On a thread's default
  /// stream only that thread can record where those calls end. It records that only when it queues
  /// an operation, since a program that has waited for its work may ask whether the stream is idle.
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
  std::optional<RunAhead> ahead; ///< only where all work of the process is best effort
  std::optional<OwnKernels> own;
  std::optional<Staging> staging;       ///< only where `own` is set
  std::optional<Operations> operations; ///< the queue's
  std::atomic<std::uint64_t> copiesByKernels{0};
  std::optional<Storm> storm;
};

} // namespace tally::hooks

#endif
