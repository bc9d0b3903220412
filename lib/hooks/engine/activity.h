// The process's high-priority work on one device, as those see it that have to make way: its own
// best-effort work by the control word, other processes by a slot of the arena.
//
// A process that has high-priority work only has this and no engine: no control word in device
// memory, no queue, no stream. Its calls are counted by two atomic additions or one; that what was
// called is over is asked of the device only while a process with best-effort work is in the arena.
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
#include "work/api_device.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

namespace tally::hooks {

/// Thread-safe. Never destroyed: threads may be in it as long as the process lives.
class Activity {
public:
  /// For a device whose context is there. Joins the arena where `settings` say so; what keeps the
  /// process from that is warned about, and leaves it alone. `trace`: where it is noted what was
  /// active when, or nowhere; it outlives the activity.
  /// `requests`: the process's, which outlive it too.
  static Result<std::unique_ptr<Activity>> create(const CudaApi &api, Captures &captures,
                                                  Requests &requests, const Settings &settings,
                                                  int number, runtime::Trace *trace = nullptr);

  int servedDevice() const { return device.number(); }
  /// Whether anybody sees what is counted here, but for the process's own best-effort work.
  bool isInArena() const { return link != nullptr; }
  /// Shows it to others. Only where isInArena().
  void noteMemory(const runtime::MemoryStatus &now) { link->noteMemory(now); }

  /// A call that puts work of high priority on a stream. Where that is a thread's own, which nobody
  /// else can ask, an event says when the work is done: behind the call; ahead of one that records
  /// an event of the program's, who has waited for that and may ask whether the stream is idle.
  template <class Call>
  auto pass(StreamState &stream, const Call &call, bool recordsEvent = false) {
    // A wake writes on a stream of tally's own, which must not be taken for one of the program's.
    InHook inside;
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
  /// A request that the calling thread has alone begins to count, unless it does somewhere or its
  /// stream is another device's. `at`, here and below: what the clock says, from who has just
  /// looked.
  void countRequest(Requests::Record &request, runtime::Nanoseconds at);
  /// A request that counts here ends; where somebody waits, its streams are asked whether they are
  /// idle. Best-effort work may go on before this returns.
  void endRequest(Requests::Record &request, runtime::Nanoseconds at);
  /// Shows what a request took, which need not have counted here.
  void noteRequest(bool wasCounted, runtime::Nanoseconds took, bool missedDeadline) {
    highPriority->noteRequest(took, missedDeadline);
    if (!wasCounted)
      highPriority->noteUncounted();
  }
  /// Whether what the calling thread waits for must not stand aside for high priority.
  bool isUrgent() const;

  /// What was put on these before was not counted: it counts until they are seen idle.
  void countWhatWasThere(const std::vector<StreamState *> &streams);

  /// The stream is about to be destroyed, or belongs to the calling thread: from here on an event
  /// says when its work is done.
  void mark(StreamState &stream);
  /// A stream of high priority is about to be destroyed.
  void forget(StreamState &stream);
  /// Around a wait of the program's for a stream, or a query that may say that there is nothing to
  /// wait for: returns what `wait` does.
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
  /// The stream as its scopes know it; nullptr where they do not.
  runtime::HighStream *highOf(StreamState &stream) {
    if (stream.device != device.number()) {
      warnOfOtherDevice(stream.device, device.number());
      return nullptr;
    }
    runtime::HighStream *high = stream.high.load(std::memory_order_acquire);
    return high ? high : adopt(stream);
  }
  /// From here on the dispatcher, which has not been started yet, closes scopes; best-effort work
  /// is seen in the arena and asked to yield from there.
  void serve(runtime::Dispatcher &dispatcher);
  /// Before the dispatcher goes away.
  void leaveDispatcher();
  /// Whether nothing of another process makes way for the process's best-effort work, nor the
  /// reverse.
  bool isAlone() { return !link || link->isAlone(); }
  /// So many operations have gone to the device past the dispatcher.
  void noteAhead(std::uint64_t operations) {
    if (link)
      link->noteAhead(operations);
  }
  /// The program has waited for all that it had put on the device.
  void noteAtRest() {
    rests.fetch_add(1, std::memory_order_relaxed);
    if (link)
      link->showAhead(false);
  }

  /// How often it has.
  std::uint64_t restsSoFar() const { return rests.load(std::memory_order_relaxed); }

  /// At the process's end: nobody looks for the end of scopes any more.
  void stopMonitor() { monitor.reset(); }
  /// Gives the slots back and stops all threads, before the device is reset.
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
  runtime::Trace *const trace; ///< or none
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
