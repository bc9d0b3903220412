// Best-effort work that goes to CUDA at once, while no work of another class can wait for it. This
// work does not yield, so a process or class that joins waits for the work that is ahead of the
// device. That time is bounded, by the time that the same work took before.
//
// On each stream events stand between groups of operations of about a fifth of the bound. Events
// and queries cost the thread some 2 us each; so a thread that is slower than the device has fewer
// of them. The device's clock gives the time between two events. The operations of the group share
// that time in proportion to the time expected of each. A new operation is measured alone, from an
// event right before it, but for a new size between measured ones (work_kind.h). A thread waits
// before an operation that would be further ahead than the bound. An operation longer than the
// bound goes when hardly anything is ahead of it.
//
// The bound grows where it left the device without work (growing_bound.h).
//
// The time between two events may hold more than the operations. Where the device reached the first
// event before the last operation came, it may have waited for the thread. Where other streams were
// given work meanwhile, it may have waited for that work: the legacy stream waits for all blocking
// streams, and any stream may wait for an event of another. Such a time is only an upper limit for
// the operations. Where it is above the expected time even without the time in which the thread put
// them, the operations are measured alone again, now and then.
//
// Most operations are like earlier ones, and join a group that has been begun. For these the hooks
// read no clock and ask the driver nothing (passAgain()). A program has some 10 us between two
// launches, so each launch finds the hooks' code and data outside the caches; this path reads few
// lines of them.
//
// Each operation checks whether other classes or processes are there. The first operation that
// finds any is queued, and so are all later ones (best_effort_queue.h). Once the others are gone,
// operations go at once again when the queue is empty. Queued operations come behind operations
// that went at once, as behind all calls that were made without the queue.
//
// A thread never waits for ever: work may depend on the next step of the same thread (a kernel that
// polls a word of host memory). After a wait that took far longer than expected the stream is not
// bounded until the work that it waited for is over.
#ifndef TALLY_LIB_HOOKS_ENGINE_RUN_AHEAD_H
#define TALLY_LIB_HOOKS_ENGINE_RUN_AHEAD_H

#include "engine/activity.h"
#include "engine/best_effort_queue.h"
#include "engine/doubts.h"
#include "engine/growing_bound.h"
#include "engine/work_kind.h"
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

/// The kind of an operation, as far as its duration depends on it.
struct AheadWork {
  const void *identity = nullptr; ///< the kernel, the executable graph, or the kind of copy;
                                  ///< nullptr: it is not bounded
  std::uint64_t size = 1;         ///< thread blocks, or bytes
  bool isCounted = true;          ///< one of the program's launches of kernels and graphs
};

class RunAhead;

/// Operations that were put on one stream, and their durations. Thread-safe; no lock is held during
/// a call of the program's.
class alignas(64) StreamAhead {
public:
  StreamAhead(RunAhead &owner, const CudaApi &api, Captures &captures, Activity &activity,
              runtime::Nanoseconds bound, runtime::Trace *trace, std::uint8_t number)
      : owner(owner), bound(bound), api(api), captures(captures), activity(activity), trace(trace),
        number(number) {}

  RunAhead &owner;

  enum class Answer : std::uint8_t {
    Meet,     ///< the operation is new to this stream; the caller prepares it, and asks again
    Waited,   ///< the operation would be too far ahead; the caller asks again
    Go,       ///< the operation is counted and may be put on the stream
    GoUnknown ///< as Go; the operation is measured alone, so the caller calls closeBehind() next
  };
  /// Called before an operation is put on the stream. While a capture is open, events may not be
  /// queried, and all operations may go.
  Answer admit(StreamState &stream, const AheadWork &work);
  enum class Passed : std::uint8_t {
    No,      ///< the caller asks admit()
    Counted, ///< as Answer::Go; it is one of the program's launches
    Yes      ///< as Answer::Go
  };
  /// As admit() without a question to the device, for an operation that was admitted before. It
  /// counts as it did then (AheadWork::isCounted).
  Passed passAgain(const AheadWork &work);
  /// The duration of such work; zero where it is not known or was returned since the last
  /// measurement.
  runtime::Nanoseconds takeNews(const AheadWork &work);
  /// Called behind an operation of which nothing was known: it is measured alone.
  void closeBehind(StreamState &stream);
  /// The operation was admitted, and its call failed: it is not counted any more. When this
  /// returns, the event before it is over, unless other work of the program's is before the event.
  void takeBack(StreamState &stream, const AheadWork &work);
  /// A launch was made: a counted one, or another one that passAgain() had passed.
  void noteLaunch(bool isCounted) { launches[isCounted].fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t launchesSoFar(bool areCounted) const {
    return launches[areCounted].load(std::memory_order_relaxed);
  }

private:
  struct Estimate;
  /// The estimate of a recently seen operation.
  struct Recent {
    std::uint64_t key = 0;
    Estimate *estimate = nullptr;
    float ns = 0;           ///< the estimate's
    bool isKnown = false;   ///< passAgain() may use it
    bool isCounted = false; ///< AheadWork::isCounted
  };
  struct Estimate {
    WorkKind *kind = nullptr;
    double size = 1, ns = 0;
    bool isKnown = false, isMet = false, isNews = false;
    bool isUnmeasured = true;     ///< never put alone, nor judged by measured sizes
    bool isDoubtful = false;      ///< has to be measured alone again
    Recent *recent = nullptr;     ///< where passAgain() finds it, unless another one is there
    std::uint64_t learntFrom = 0; ///< a group's number
  };
  struct Work {
    Estimate *estimate = nullptr;
    double ns = 0; ///< expected duration of each operation at that time
  };
  using Event = std::shared_ptr<CUevent_st>;
  /// An event behind all operations so far.
  struct End {
    Event event;
    runtime::Nanoseconds at{0}; ///< when it was recorded
    std::uint64_t others = 0;   ///< operations of other streams at that time
  };
  struct Group {
    double expected = 0;  ///< ns
    double mostAgain = 0; ///< passAgain() lets `expected` grow to this
    std::uint64_t operations = 0;
    std::vector<Work> work; ///< one entry for consecutive operations of one estimate
    runtime::Nanoseconds begun{0};
    runtime::Nanoseconds put{0}; ///< from the record of `from` until no more operations came
    End from;
    Event to;
    bool isExact = false;   ///< `from` was not over when the first operation came
    bool isReached = false; ///< `from` was seen to be over
    bool isShared = false;  ///< other streams put operations between `from` and `to`
    bool isGapless = false; ///< the device had not reached `from` when all operations were put
  };
  /// Unknown: the context has failed; the program learns that from its own calls.
  enum class Said : std::uint8_t { No, Yes, Unknown };
  /// The operations of two keys with the same hash. A step of a training has one to four hundred
  /// kinds of operations.
  struct alignas(64) RecentPair {
    Recent either[2];
    Recent &of(std::uint64_t key) { return either[1].key == key ? either[1] : either[0]; }
    Recent &forNew() { return either[0].estimate && !either[1].estimate ? either[1] : either[0]; }
  };
  RecentPair &recentOf(std::uint64_t key) { return recent[key % recent.size()]; }

  Estimate &estimateOf(const AheadWork &work) {
    std::uint64_t key = keyOf(work);
    Recent &known = recentOf(key).of(key);
    return known.estimate && known.key == key ? *known.estimate : remember(work, key);
  }
  Estimate &remember(const AheadWork &work, std::uint64_t key);
  static void noteRecent(const Estimate &estimate, bool isKnown) {
    if (Recent *recent = estimate.recent; recent && recent->estimate == &estimate) {
      recent->ns = static_cast<float>(estimate.ns);
      recent->isKnown = recent->isKnown && isKnown;
    }
  }
  static std::uint64_t keyOf(const AheadWork &work);
  Estimate &look(const AheadWork &work, std::uint64_t key);
  Event record(StreamState &stream);
  template <class Question> Said ask(const Question &question);
  std::uint64_t putByOthers() const;
  /// Counts the open group's operations; from now on no group is open.
  Group drop();
  void begin(StreamState &stream, runtime::Nanoseconds now, bool isMeasuredAlone);
  void close(StreamState &stream);
  void sweep(runtime::Nanoseconds now);
  void dropIdle(StreamState &stream, runtime::Nanoseconds now);
  void learn(const Group &group);
  void doubt(const Group &group, double ns);
  double ahead(runtime::Nanoseconds now) const;
  /// In ns, by the expected times.
  double mostOfGroup() const { return static_cast<double>(bound.asked().count()) / groupsOfBound; }
  /// Decides by the expected time, or by the time since the group was begun: the group may take
  /// longer than expected. The latter may be longer while the device keeps up with the thread.
  bool isFull(runtime::Nanoseconds now) const {
    return open.expected >= mostOfGroup() ||
           now - open.begun >= (isDry ? bound.asked() : bound.asked() / groupsOfBound);
  }
  void noteDry(runtime::Nanoseconds now) { bound.ranDry(now, activity.restsSoFar()); }
  bool waitUntilAdmissible(StreamState &stream, double ns);
  bool isTooFar(double ns, runtime::Nanoseconds now) const;

  static constexpr int groupsOfBound = 5; ///< the bound holds about this many groups
  // passAgain() uses the first of these members, on two cache lines. The mutex guards all up to
  // `recent`.
  std::mutex mutex;
  int passed = 0; ///< operations since the last admit()
  Group open;
  std::uint64_t putBefore = 0; ///< operations put before those of `open`
  bool isLetGo = false;
  bool isDry = false; ///< the device had reached the last group when all of it was put
  double closedExpected = 0;
  struct {
    runtime::Nanoseconds put{0}, sweep{0};
  } lastAt;                           ///< by admit()
  runtime::Nanoseconds firstSince{0}; ///< since when the first of `closed` may have run
  std::deque<Group> closed;
  End last; ///< of the newest of `closed`, which may be over
  GrowingBound bound;
  std::uint64_t groupsLearnt = 0;
  Doubts doubts;
  std::vector<cudaEvent_t> spare;
  std::unordered_map<const void *, WorkKind> kinds;
  std::unordered_map<std::uint64_t, Estimate> estimates; ///< estimates by identity and size
  std::array<RecentPair, 1024> recent;
  const CudaApi &api;
  Captures &captures;
  Activity &activity;
  runtime::Trace *const trace;                          ///< may be nullptr
  const std::uint8_t number;                            ///< the stream's number in the trace
  std::array<std::atomic<std::uint64_t>, 2> launches{}; ///< counted ones: [1]
};

/// The StreamAhead of all streams of a process in which all work is best effort. Thread-safe.
class alignas(64) RunAhead {
public:
  /// `trace` notes when groups ran; it may be nullptr. `bound`: how far a stream's operations may
  /// be ahead of the device.
  RunAhead(const CudaApi &api, Captures &captures, Activity &activity, BestEffortQueue &queue,
           runtime::Nanoseconds bound, runtime::Trace *trace)
      : captures(captures), activity(activity), queue(queue), api(api), bound(bound), trace(trace) {
  }

  /// Makes the call, which puts `work` on the stream, if it may go at once. Returns nothing where
  /// the work has to be queued. `meet` is called before a kind of work that is new to the stream: a
  /// kernel's code is loaded then, not while the kernel's time is taken.
  template <class Call, class Meet>
  auto tryPass(StreamState &stream, const AheadWork &work, const Call &call, const Meet &meet)
      -> std::optional<decltype(call())> {
    if (!mayPass(stream))
      return std::nullopt;
    using Answer = StreamAhead::Answer;
    StreamAhead &own = of(stream);
    Answer answer = own.admit(stream, work);
    for (; answer == Answer::Meet || answer == Answer::Waited; answer = own.admit(stream, work)) {
      if (answer == Answer::Meet)
        meet();
      if (!mayPass(stream))
        return std::nullopt;
    }
    auto status = call();
    if (static_cast<int>(status) != cudaSuccess) {
      own.takeBack(stream, work);
      return status;
    }
    if (work.isCounted)
      own.noteLaunch(true);
    if (answer == Answer::GoUnknown)
      own.closeBehind(stream);
    return status;
  }
  /// tryPass() for a launch like earlier ones on the stream, as which it counts. Nothing: it needs
  /// more checks than are made here.
  template <class Call>
  auto passAgain(StreamState &stream, const AheadWork &work, const Call &call)
      -> std::optional<decltype(call())> {
    StreamAhead *own = stream.ahead.load(std::memory_order_acquire);
    if (!own || &own->owner != this || captures.any() || !isOneClass(stream) || !isAlone() ||
        !queue.isIdle())
      return std::nullopt;
    StreamAhead::Passed passed = own->passAgain(work);
    if (passed == StreamAhead::Passed::No)
      return std::nullopt;
    auto status = call();
    if (static_cast<int>(status) != cudaSuccess)
      own->takeBack(stream, work);
    else
      own->noteLaunch(passed == StreamAhead::Passed::Counted);
    return status;
  }
  /// Operations put on all streams so far.
  std::uint64_t putSoFar() const { return put.load(std::memory_order_relaxed); }
  void notePut() { put.fetch_add(1, std::memory_order_relaxed); }
  /// For tests: while it is held up, other work counts as present.
  bool isHeldUp() const { return heldUp.load(std::memory_order_relaxed); }
  void holdUp(bool now) { heldUp = now; }
  /// The duration of such work on the stream when it went at once, for callers that do not know it
  /// yet; zero where there is nothing new.
  static runtime::Nanoseconds takeNews(const StreamState &stream, const AheadWork &work) {
    StreamAhead *known = stream.ahead.load(std::memory_order_acquire);
    return known ? known->takeNews(work) : runtime::Nanoseconds(0);
  }
  /// Kernels and graphs that went at once so far: those that the program itself launched, or others
  /// that passAgain() has passed.
  std::uint64_t launches(bool areCounted) const;

  /// Sizes are rounded up to powers of two: in some programs each copy has its own size.
  static AheadWork copyOf(cudaMemcpyKind kind, std::uint64_t bytes) {
    return {&copies[static_cast<unsigned>(kind) % std::size(copies)], std::bit_ceil(bytes | 1),
            false};
  }
  static AheadWork fillOf(std::uint64_t bytes) { return {&fills, std::bit_ceil(bytes | 1), false}; }
  /// An operation that is no kernel, no graph and no copy or fill of one range.
  static AheadWork other() { return {&others, 1, false}; }

  /// Whether no other class or process is there.
  bool isAlone() { return !isHeldUp() && activity.isAlone(); }

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
  Captures &captures;
  Activity &activity;
  BestEffortQueue &queue;
  std::atomic<std::uint64_t> put{0};
  std::atomic<bool> heldUp{false};
  std::atomic<std::uint32_t> classes{0}; ///< best-effort classes seen so far; one bit each
  const CudaApi &api;
  const runtime::Nanoseconds bound;
  runtime::Trace *const trace;
  std::mutex settling;
  runtime::Nanoseconds settleAgain{0}; ///< guarded by `settling`
  mutable std::mutex adding;
  std::deque<StreamAhead> streams; ///< never removed
};

} // namespace tally::hooks

#endif
