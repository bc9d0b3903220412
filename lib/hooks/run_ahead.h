// Best-effort work that goes to CUDA as it comes, while no work of another class can be waiting for
// it. Nothing of it yields, so whoever joins waits for what is ahead of the device: that is bounded
// in time, by what the same work took before.
//
// On each stream events stand between groups of operations of about a fifth of the bound. What lies
// between two events took what is between them by the device's clock; the operations of a group
// share it by what was expected of each. An operation that is new is measured alone. A thread waits
// before an operation that would be further ahead than the bound. Where nothing is ahead one goes
// that takes longer by itself.
//
// That nobody else is there is looked up for each operation. From the first one on that finds
// somebody operations are queued (best_effort_queue.h); where everybody is gone they go at once
// again when nothing is queued any more. What is queued comes behind what went at once, as behind
// all calls that were made past the queue.
//
// A thread never waits for ever: work may depend on what the same thread does next (a kernel that
// polls a word of the host's). Behind a wait that took far longer than expected the stream is let
// go, until what it waited for is over.
#ifndef TALLY_LIB_HOOKS_RUN_AHEAD_H
#define TALLY_LIB_HOOKS_RUN_AHEAD_H

#include "activity.h"
#include "best_effort_queue.h"
#include "captures.h"
#include "cuda_api.h"
#include "streams.h"
#include "trace.h"

#include "tally/runtime/control_word.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tally::hooks {

/// What an operation does, as far as its duration goes.
struct AheadWork {
  const void *identity = nullptr; ///< the kernel, the executable graph, or one for all copies
  std::uint64_t size = 1;         ///< thread blocks, or bytes
};

class RunAhead;

/// Operations of one stream that were put on it, and how long they take. For one thread at a time:
/// who has the mutex.
class StreamAhead {
public:
  StreamAhead(const RunAhead &owner, const CudaApi &api, Captures &captures,
              runtime::Nanoseconds bound, runtime::Trace *trace, std::uint8_t number)
      : owner(owner), api(api), captures(captures), bound(bound), trace(trace), number(number) {}

  const RunAhead &owner;
  std::mutex mutex; ///< never held during a call of the program's

  /// Before an operation is put on the stream: waits while that would be too far ahead.
  void admit(StreamState &stream, const AheadWork &work);
  /// It was put there. Returns how many operations are new since an event was put behind some; 0
  /// mostly.
  std::uint64_t put(StreamState &stream, const AheadWork &work);

private:
  struct Kind {
    double nsOfUnit = 0; ///< of `size`; 0: none was measured
  };
  struct Estimate {
    Kind *kind = nullptr;
    double size = 1, ns = 0;
    bool isKnown = false;
  };
  using Event = std::shared_ptr<CUevent_st>;
  struct Group {
    Event from, to;
    double expected = 0; ///< ns
    std::uint64_t operations = 0;
    std::vector<std::pair<Estimate *, std::uint32_t>> work;
  };
  /// Unknown: the context has failed, which the program hears of by its own calls.
  enum class Answer : std::uint8_t { No, Yes, Unknown };

  Estimate &estimateOf(const AheadWork &work);
  Event record(StreamState &stream);
  template <class Question> Answer ask(const Question &question);
  void begin(StreamState &stream);
  void close(StreamState &stream);
  void sweep(runtime::Nanoseconds now);
  void dropIdle(StreamState &stream, runtime::Nanoseconds now);
  void learn(Group &group);
  double ahead(runtime::Nanoseconds now) const;
  void waitForFirst(runtime::Nanoseconds until);

  const CudaApi &api;
  Captures &captures;
  const runtime::Nanoseconds bound;
  runtime::Trace *const trace; ///< or none
  const std::uint8_t number;   ///< there
  std::unordered_map<const void *, Kind> kinds;
  std::unordered_map<std::uint64_t, Estimate> estimates; ///< by identity and size
  std::vector<cudaEvent_t> spare;
  std::deque<Group> closed;
  Group open;
  double closedExpected = 0;
  runtime::Nanoseconds firstSince{0}; ///< the first of `closed` has had the device at most so long
  runtime::Nanoseconds lastPut{0}, lastSweep{0};
  bool isLetGo = false;
};

/// Those of all streams of a process in which all work is best effort. Thread-safe.
class RunAhead {
public:
  /// `trace`: where it is noted when groups ran, or nowhere. `bound`: how far a stream's operations
  /// may be ahead of the device.
  RunAhead(const CudaApi &api, Captures &captures, Activity &activity, BestEffortQueue &queue,
           runtime::Nanoseconds bound, runtime::Trace *trace)
      : api(api), captures(captures), activity(activity), queue(queue), bound(bound), trace(trace) {
  }

  /// Makes the call, which puts `work` on the stream, if it may go at once. Nothing: it has to be
  /// queued.
  template <class Call>
  auto tryPass(StreamState &stream, const AheadWork &work, const Call &call)
      -> std::optional<decltype(call())> {
    if (!mayPass(stream))
      return std::nullopt;
    admit(stream, work);
    if (!mayPass(stream)) // while it waited
      return std::nullopt;
    auto status = call();
    if (static_cast<int>(status) == cudaSuccess)
      put(stream, work);
    return status;
  }
  /// A test's: while set it is as if somebody else were there.
  std::atomic<bool> isHeldUp{false};
  /// Kernels and graphs so far, but copies.
  std::uint64_t launches() const { return launched.load(std::memory_order_relaxed); }

  /// All copies and fills are of one identity.
  static AheadWork copyOf(std::uint64_t bytes) { return {&copies, bytes}; }

  /// Whether nobody else is there.
  bool isAlone() { return !isHeldUp.load(std::memory_order_relaxed) && activity.isAlone(); }

private:
  bool mayPass(StreamState &stream) {
    return isOneClass(stream) && isAlone() && (queue.isIdle() || settle());
  }
  bool isOneClass(const StreamState &stream);
  bool settle();
  void admit(StreamState &stream, const AheadWork &work);
  void put(StreamState &stream, const AheadWork &work);
  StreamAhead &of(StreamState &stream);

  static constexpr char copies = 0;
  const CudaApi &api;
  Captures &captures;
  Activity &activity;
  BestEffortQueue &queue;
  const runtime::Nanoseconds bound;
  runtime::Trace *const trace;
  std::atomic<std::uint64_t> launched{0};
  std::atomic<std::uint32_t> classes{0}; ///< of best effort, of streams so far; a bit each
  std::mutex settling;
  runtime::Nanoseconds settleAgain{0}; ///< guarded by it
  std::mutex adding;
  std::deque<StreamAhead> streams; ///< they stay
};

} // namespace tally::hooks

#endif
