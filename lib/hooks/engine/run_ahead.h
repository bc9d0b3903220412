// Best-effort work that goes to CUDA as it comes, while no work of another class can be waiting for
// it. Nothing of it yields, so whoever joins waits for what is ahead of the device: that is bounded
// in time, by what the same work took before.
//
// On each stream events stand between groups of operations of about a fifth of the bound. What lies
// between two events took what is between them by the device's clock; the operations of a group
// share it by what was expected of each. An operation that is new is measured alone, from an event
// right before it. A thread waits before an operation that would be further ahead than the bound.
// Where hardly anything is ahead one goes that takes longer by itself.
//
// The bound grows where it left the device without work (growing_bound.h).
//
// Not all that lies between two events is the operations'. Where the device had reached the first
// event before the last operation came, it may have waited for the thread. Where other streams were
// given work meanwhile, it may have waited for that: the legacy stream waits for all blocking ones,
// and any stream for an event of another. Such a time says how long the operations take at most.
// Where it is above what was expected, they are measured alone again, now and then.
//
// That nobody else is there is looked up for each operation. From the first one on that finds
// somebody operations are queued (best_effort_queue.h); where everybody is gone they go at once
// again when nothing is queued any more. What is queued comes behind what went at once, as behind
// all calls that were made past the queue.
//
// A thread never waits for ever: work may depend on what the same thread does next (a kernel that
// polls a word of the host's). Behind a wait that took far longer than expected the stream is let
// go, until what it waited for is over.
#ifndef TALLY_LIB_HOOKS_ENGINE_RUN_AHEAD_H
#define TALLY_LIB_HOOKS_ENGINE_RUN_AHEAD_H

#include "engine/activity.h"
#include "engine/best_effort_queue.h"
#include "engine/growing_bound.h"
#include "state/captures.h"
#include "state/streams.h"
#include "tables/cuda_api.h"
#include "trace/trace.h"

#include "tally/runtime/control_word.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tally::hooks {

/// What an operation does, as far as its duration goes.
struct AheadWork {
  const void *identity = nullptr; ///< the kernel, the executable graph, or the kind of copy;
                                  ///< nullptr: it is not bounded
  std::uint64_t size = 1;         ///< thread blocks, or bytes
  bool isCounted = true;          ///< among the program's launches, of kernels and graphs
};

class RunAhead;

/// Operations of one stream that were put on it, and how long they take. Thread-safe; no lock is
/// held during a call of the program's.
class StreamAhead {
public:
  StreamAhead(RunAhead &owner, const CudaApi &api, Captures &captures, Activity &activity,
              runtime::Nanoseconds bound, runtime::Trace *trace, std::uint8_t number)
      : owner(owner), api(api), captures(captures), activity(activity), trace(trace),
        number(number), bound(bound) {}

  RunAhead &owner;

  enum class Answer : std::uint8_t {
    Waited,     ///< it would have been too far ahead, and is to ask again
    Go,         ///< it is counted, and may be put on the stream
    GoUnknown,  ///< likewise; nothing is known of it, so closeBehind() is to be called then
    GoFirstTime ///< likewise, and it was not met on this stream before
  };
  /// Before an operation is put on the stream. While a capture is open, when events may not be
  /// asked about, all may go.
  Answer admit(StreamState &stream, const AheadWork &work);
  /// What such work took; zero where that is not known, or was said since it was last measured.
  runtime::Nanoseconds takeNews(const AheadWork &work);
  /// Behind an operation of which nothing was known: it is measured alone.
  void closeBehind(StreamState &stream);
  /// The operation was admitted, and its call failed: it is not counted, and the event before it is
  /// over when this returns, unless something of the program's is before that.
  void takeBack(StreamState &stream, const AheadWork &work);
  std::atomic<std::uint64_t> launches{0}; ///< made so far, of those that are counted

private:
  struct Kind {
    double nsOfUnit = 0; ///< of `size`, in the largest that was measured; 0: none was
    double largest = 0;
  };
  struct Estimate {
    Kind *kind = nullptr;
    double size = 1, ns = 0;
    bool isKnown = false, isMet = false, isNews = false;
    bool isDoubtful = false;      ///< to be measured alone again
    std::uint64_t learntFrom = 0; ///< a group's number
  };
  struct Work {
    Estimate *estimate = nullptr;
    double ns = 0; ///< expected then, of each operation
  };
  using Event = std::shared_ptr<CUevent_st>;
  struct Group {
    Event from, to;
    std::uint64_t othersAtFrom = 0; ///< what other streams had put when `from` was recorded
    bool isShared = false;          ///< they put more until `to` was
    bool isGapless = false;         ///< the device had not come to `from` when all was put
    runtime::Nanoseconds begun{0};
    double expected = 0; ///< ns
    std::uint64_t operations = 0;
    std::vector<Work> work; ///< one of operations of one estimate that follow each other
  };
  /// Unknown: the context has failed, which the program hears of by its own calls.
  enum class Said : std::uint8_t { No, Yes, Unknown };
  /// The estimate of work that was met not long ago.
  struct Recent {
    AheadWork work;
    Estimate *estimate = nullptr;
  };
  static constexpr std::size_t recentCount = 64;

  Estimate &estimateOf(const AheadWork &work) {
    std::uint64_t key = keyOf(work);
    Recent &known = recent[key % recentCount];
    if (!known.estimate || known.work.identity != work.identity || known.work.size != work.size)
      known = {work, &look(work, key)};
    return *known.estimate;
  }
  static std::uint64_t keyOf(const AheadWork &work);
  Estimate &look(const AheadWork &work, std::uint64_t key);
  Event record(StreamState &stream);
  template <class Question> Said ask(const Question &question);
  std::uint64_t putByOthers() const;
  void begin(StreamState &stream);
  void close(StreamState &stream);
  void sweep(runtime::Nanoseconds now);
  void dropIdle(StreamState &stream, runtime::Nanoseconds now);
  void learn(const Group &group);
  void doubt(const Group &group, double factor);
  double ahead(runtime::Nanoseconds now) const;
  /// By what is expected, or by the time since it was begun: it may take longer than expected.
  bool isFull(runtime::Nanoseconds now) const {
    double most = static_cast<double>(bound.asked().count()) / groupsOfBound;
    return open.expected >= most || static_cast<double>((now - open.begun).count()) >= most;
  }
  void noteDry(runtime::Nanoseconds now) { bound.ranDry(now, activity.restsSoFar()); }
  bool waitUntilAdmissible(StreamState &stream, double ns);
  bool isTooFar(double ns, runtime::Nanoseconds now) const;

  /// Events stand between groups of so much of the bound.
  static constexpr double groupsOfBound = 5;
  const CudaApi &api;
  Captures &captures;
  Activity &activity;
  runtime::Trace *const trace; ///< or none
  const std::uint8_t number;   ///< there
  std::mutex mutex;            ///< for what follows
  GrowingBound bound;
  std::unordered_map<const void *, Kind> kinds;
  std::array<Recent, recentCount> recent;
  std::unordered_map<std::uint64_t, Estimate> estimates; ///< by identity and size
  std::vector<cudaEvent_t> spare;
  std::deque<Group> closed;
  Group open;
  double closedExpected = 0;
  std::uint64_t groupsLearnt = 0;
  std::uint64_t put = 0; ///< operations so far
  std::uint64_t othersAtLast =
      0; ///< what other streams had put when `closed.back().to` was recorded
  runtime::Nanoseconds lastDoubt{0};
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
  /// queued. `meet` is called before work of a kind that the stream has not met.
  template <class Call, class Meet>
  auto tryPass(StreamState &stream, const AheadWork &work, const Call &call, const Meet &meet)
      -> std::optional<decltype(call())> {
    if (!mayPass(stream))
      return std::nullopt;
    using Answer = StreamAhead::Answer;
    StreamAhead &own = of(stream);
    Answer answer = own.admit(stream, work);
    for (; answer == Answer::Waited; answer = own.admit(stream, work))
      if (!mayPass(stream))
        return std::nullopt;
    if (answer == Answer::GoFirstTime)
      meet();
    auto status = call();
    if (static_cast<int>(status) != cudaSuccess) {
      own.takeBack(stream, work);
      return status;
    }
    if (work.isCounted)
      own.launches.fetch_add(1, std::memory_order_relaxed);
    if (answer != Answer::Go)
      own.closeBehind(stream);
    return status;
  }
  /// Operations that all streams were given so far.
  std::atomic<std::uint64_t> put{0};
  /// A test's: while set it is as if somebody else were there.
  std::atomic<bool> isHeldUp{false};
  /// What such work took on the stream when it went at once, for those that do not know it yet;
  /// zero where there is nothing new.
  static runtime::Nanoseconds takeNews(const StreamState &stream, const AheadWork &work) {
    StreamAhead *known = stream.ahead.load(std::memory_order_acquire);
    return known ? known->takeNews(work) : runtime::Nanoseconds(0);
  }
  /// Of the program itself: kernels and graphs so far.
  std::uint64_t launches() const;

  /// Sizes are told apart as powers of two: there are programs in which each copy has its own.
  static AheadWork copyOf(cudaMemcpyKind kind, std::uint64_t bytes) {
    return {&copies[static_cast<unsigned>(kind) % std::size(copies)], std::bit_ceil(bytes | 1),
            false};
  }
  static AheadWork fillOf(std::uint64_t bytes) { return {&fills, std::bit_ceil(bytes | 1), false}; }
  /// What is no kernel, no graph and no copy or fill of one range.
  static AheadWork other() { return {&others, 1, false}; }

  /// Whether nobody else is there.
  bool isAlone() { return !isHeldUp.load(std::memory_order_relaxed) && activity.isAlone(); }

private:
  bool mayPass(StreamState &stream) {
    return isOneClass(stream) && isAlone() && (queue.isIdle() || settle());
  }
  bool isOneClass(const StreamState &stream);
  bool settle();
  StreamAhead &of(StreamState &stream) {
    StreamAhead *known = stream.ahead.load(std::memory_order_acquire);
    return known && &known->owner == this ? *known : add(stream);
  }
  StreamAhead &add(StreamState &stream);

  static constexpr char copies[cudaMemcpyDefault + 1] = {}, fills = 0, others = 0;
  const CudaApi &api;
  Captures &captures;
  Activity &activity;
  BestEffortQueue &queue;
  const runtime::Nanoseconds bound;
  runtime::Trace *const trace;
  std::atomic<std::uint32_t> classes{0}; ///< of best effort, of streams so far; a bit each
  std::mutex settling;
  runtime::Nanoseconds settleAgain{0}; ///< guarded by it
  mutable std::mutex adding;
  std::deque<StreamAhead> streams; ///< they stay
};

} // namespace tally::hooks

#endif
