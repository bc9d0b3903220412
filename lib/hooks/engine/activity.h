// The process's high-priority work on one device. Best-effort work has to yield to it: the
// process's own best-effort work reads the control word, other processes read a slot of the arena.
//
// A process that has only high-priority work has an Activity and no engine: no control word in
// device memory, no queue, no stream. Counting a call takes one or two atomic additions. The hooks
// ask the device whether the work is over only while a process with best-effort work is in the
// arena.
#ifndef TALLY_LIB_HOOKS_ENGINE_ACTIVITY_H
#define TALLY_LIB_HOOKS_ENGINE_ACTIVITY_H

#include "dispatch/arena_link.h"
#include "dispatch/high_monitor.h"
#include "requests/request_scope_tracker.h"
#include "state/captures.h"
#include "state/in_hook.h"
#include "state/requests.h"
#include "state/settings.h"
#include "state/streams.h"
#include "state/thread_state.h"
#include "work/api_device.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

namespace tally::hooks {

/// Thread-safe. Never destroyed: threads may use it as long as the process lives.
class Activity {
public:
  /// For a device whose context exists. Joins the arena if `settings` ask for it. Where the process
  /// cannot join, it prints a warning and acts as if no other process were there. `trace` records
  /// the times of active work; it may be nullptr. `trace` and `requests`, the process's, outlive
  /// the activity.
  static Result<std::unique_ptr<Activity>> create(const CudaApi &api, Captures &captures,
                                                  Requests &requests, const Settings &settings,
                                                  int number, runtime::Trace *trace = nullptr);

  int servedDevice() const { return device.number(); }
  /// Whether other processes see the work that is counted here.
  bool isInArena() const { return link != nullptr; }
  /// Shows the memory status to other processes. Only where isInArena().
  void noteMemory(const runtime::MemoryStatus &now) { link->noteMemory(now); }

  /// Makes a call that puts high-priority work on a stream. A thread's own default stream cannot be
  /// queried by other threads, so an event marks the end of its work. The event is recorded behind
  /// the call. Where the call records an event of the program's, it is recorded ahead of the call:
  /// a program that has waited for its own event may ask whether the stream is idle.
  template <class Call>
  auto pass(StreamState &stream, const Call &call, bool recordsEvent = false) {
    // A wake writes on a stream of tally's own; the driver-level hook must not take that stream for
    // the program's.
    InHook inside;
    threadState.launchedHigh = true;
    runtime::HighStream *high = highOf(stream);
    bool counted = high && highPriority->countCall(*high);
    bool marks = stream.kind == StreamKind::PerThread && isWaitedFor();
    if (marks && recordsEvent)
      mark(stream);
    auto result = call();
    if (marks && !recordsEvent)
      mark(stream);
    if (counted)
      highPriority->endCall(*high);
    return result;
  }
  /// Begins to count a request that only the calling thread holds, unless the request is counted
  /// elsewhere already or its stream belongs to another device. `at`, here and below: the current
  /// time, which the caller has just read.
  void countRequest(Requests::Record &request, runtime::Nanoseconds at);
  /// Ends a request that is counted here. Where best-effort work waits, it asks the request's
  /// streams whether they are idle. Best-effort work may go on before this returns.
  void endRequest(Requests::Record &request, runtime::Nanoseconds at);
  /// Shows how long a request took. The request need not have been counted here.
  void noteRequest(bool wasCounted, runtime::Nanoseconds took, bool missedDeadline) {
    highPriority->noteRequest(took, missedDeadline, wasCounted);
  }
  /// The calling thread has waited for an event or for the device, with this result. After success
  /// its request's work is over.
  void noteWait(cudaError_t status) {
    if (status == cudaSuccess && threadState.launchedHigh)
      highPriority->waits().note(runtime::SteadyClock()());
  }
  /// Whether work that the calling thread waits for must not yield to high-priority work.
  bool isUrgent() const;

  /// Work that was put on these streams earlier was not counted: from now on it counts until the
  /// streams are idle.
  void countWhatWasThere(const std::vector<StreamState *> &streams);

  /// Called before the stream is destroyed, or for the calling thread's own stream: from now on an
  /// event marks the end of the stream's work.
  void mark(StreamState &stream);
  /// A high-priority stream is about to be destroyed.
  void forget(StreamState &stream);
  /// Runs `wait`, in which the program waits for a stream or queries whether it is idle. Returns
  /// the result of `wait`.
  template <class Wait> cudaError_t synchronize(StreamState &stream, Wait wait) {
    runtime::HighStream *high = stream.high.load(std::memory_order_acquire);
    if (!high)
      return wait();
    cudaError_t status = cudaSuccess;
    highPriority->synchronizeBy(*high, [&] {
      status = wait();
      return status == cudaSuccess;
    });
    return status;
  }

  // For the engine, once there is best-effort work.

  ApiDevice &onDevice() { return device; }
  Captures &openCaptures() { return captures; }
  runtime::DeviceControl &controlWord() { return *control; }
  runtime::RequestScopeTracker &scopes() { return *highPriority; }
  /// The stream as the request scopes know it; nullptr where they do not know it.
  runtime::HighStream *highOf(StreamState &stream) {
    if (stream.device != device.number()) {
      warnOfOtherDevice(stream.device, device.number());
      return nullptr;
    }
    runtime::HighStream *high = stream.high.load(std::memory_order_acquire);
    return high ? high : adopt(stream);
  }
  /// From now on the dispatcher, which is not started yet, closes request scopes, and best-effort
  /// work is shown in the arena and asked to yield through it.
  void serve(runtime::Dispatcher &dispatcher);
  /// Called before the dispatcher is destroyed.
  void leaveDispatcher();
  /// Whether no other process yields to this process's best-effort work, and the reverse.
  bool isAlone() { return !link || link->isAlone(); }
  /// Counts operations that went to the device without the dispatcher.
  void noteAhead(std::uint64_t operations) {
    if (link)
      link->noteAhead(operations);
  }
  /// The program has waited for all work that it had put on the device.
  void noteAtRest() {
    rests.fetch_add(1, std::memory_order_relaxed);
    if (link)
      link->showAhead(false);
  }

  /// Number of calls of noteAtRest().
  std::uint64_t restsSoFar() const { return rests.load(std::memory_order_relaxed); }

  /// At the process's end: stops the monitor, which looks for the end of request scopes.
  void stopMonitor() { monitor.reset(); }
  /// Gives the arena's slots back and stops all threads, before the device is reset.
  void retire();

private:
  Activity(const CudaApi &api, Captures &captures, Requests &requests, runtime::Trace *trace)
      : captures(captures), requests(requests), trace(trace), device(api, captures) {}
  bool isDone(StreamState &stream);
  Result<void> open(const CudaApi &api, const Settings &settings);
  void join(const Settings &settings);
  runtime::HighStream *adopt(StreamState &stream);
  bool isWaitedFor() const {
    return served.load(std::memory_order_relaxed) != nullptr || (link && link->isWaitedFor());
  }

  Captures &captures;
  Requests &requests;
  runtime::Trace *const trace; ///< may be nullptr
  ApiDevice device;
  std::optional<runtime::DeviceControl> control;
  std::optional<runtime::RequestScopeTracker> highPriority;
  std::mutex adopting;
  std::unique_ptr<runtime::ArenaLink> link;
  std::unique_ptr<runtime::HighMonitor> monitor;
  std::atomic<runtime::Dispatcher *> served{nullptr};
  std::atomic<std::uint64_t> rests{0};
};

} // namespace tally::hooks

#endif
