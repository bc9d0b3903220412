// A lane: one ordered queue of best-effort work on one physical stream. Application streams are
// mapped to lanes; what they put there keeps its order.
//
// Work goes out in batches, each under one epoch: the launches, then a marker that is polled in
// mapped memory. Two batches, three short ones, may be under way, so that the device has work while
// the host looks. A launch can have yielded only if the epoch has advanced; so the states that
// launches leave are read back only then, and a batch that was not disturbed costs one stream
// write. Launches take fresh states from a ring that is cleared half by half. What makes sending
// ahead sound:
//
//  - Batches under way at a time carry the same epoch. Once one launch has yielded, every launch
//    behind it yields wholly, since it starts later on the same stream and the epoch only grows.
//    Under a newer epoch it would run, on half a result; so a new epoch is used only once nothing
//    of an older one is under way.
//  - What cannot yield (copies, fills, slices, kernels without a variant) is sent only when nothing
//    that can yield is under way ahead of it, or begins a batch that the stream lets go once the
//    state of the newest launch ahead says that it is done. Where that has yielded, the stream
//    waits: what has to be resumed goes out on another stream, and when all of that is done, that
//    state is written to say so. What can yield behind the wait carries an older epoch and runs
//    nothing then (stream_waits.cpp).
//  - Kernels without a variant: a request waits for all of them that are under way. Those whose
//    predicted durations together stay below the bound are sent ahead; a longer one is sent when
//    the others are about to be over, and one of which nothing is known when there are none. A
//    short launch in front of one goes as the user's kernel too, so that the host need not see its
//    end in between.
//  - What is of a lower class of best effort goes while there is no work of a higher one. What a
//    higher one's waits for in another lane goes as if it were of that class, and what work of high
//    priority waits for as that.
//  - A put that may be late (the record of an event) is no reason to wait: it belongs to the batch
//    of what comes before it, and the host makes it, on the application's own stream, when it
//    sees that batch done.
//  - A call, which works on a stream of the application's own, is made only when nothing at all is
//    under way; a launch behind it waits for that stream.
//  - After a yield the lane sends nothing until all that was under way is back; then the first
//    launch that yielded is resumed, and the rest is sent again behind it.
#ifndef TALLY_LIB_RUNTIME_LANE_LANE_H
#define TALLY_LIB_RUNTIME_LANE_LANE_H

#include "base/list_ring.h"
#include "base/ranges.h"
#include "lane/lane_resources.h"
#include "lane/operation.h"
#include "planning/headroom.h"
#include "planning/loaded_kernel.h"
#include "trace/trace.h"

#include "tally/policy/policy.h"
#include "tally/runtime/variant_launch.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace tally::runtime {

using ClockFunction = std::function<Nanoseconds()>;

/// Saturates at anyDuration.
constexpr Nanoseconds sumOf(Nanoseconds a, Nanoseconds b) {
  return a > anyDuration - b ? anyDuration : a + b;
}

/// Best-effort work may go out now.
struct Permit {
  std::uint64_t epoch = 0; ///< under which
  Decision decision;       ///< what of it
  bool shares = false;     ///< beside high-priority work, or on a part of the SMs
  bool oftenAsked = false; ///< requests come, so that it may soon have to yield
};

/// Says whether best-effort work may go out now, and under which epoch.
class Gate {
public:
  virtual ~Gate() = default;
  /// For work of that class of best effort.
  virtual std::optional<Permit> permit(std::uint32_t bestEffortClass) const = 0;
  /// Lanes that have something under way: they have the device between them.
  virtual std::size_t lanesUnderWay() const = 0;
  /// What is left, on all lanes, of kernels under way that cannot yield: as Lane::wholesLeft().
  virtual Nanoseconds wholesLeft() const = 0;
  /// The newest epoch that anything was asked to yield by.
  virtual std::uint64_t currentEpoch() const = 0;
  /// Something goes out that does not pause when it is told to. Said before permit() is asked.
  virtual void expectOthers() const = 0;
  /// Something goes out that pauses when it is told to, before it does.
  virtual void expectPausing() const = 0;
  /// Nothing goes out any more, not even what high priority waits for.
  virtual bool isClosed() const { return false; }
};

struct LaneOptions {
  std::vector<Kind> kinds;
  DevicePtr control = 0; ///< the control word
  ClockFunction clock;
  /// States in one half of the ring: at least as many as there are under way when a batch is sent,
  /// so that the half that is entered holds none of these. It is cleared then, so more makes that
  /// rarer.
  std::size_t halfRing = 1024;
  /// How much of kernels that cannot yield may be sent ahead: what a request may wait for.
  Nanoseconds bound{20000};
  double boundsToDrain = 3; ///< PlanRules
  /// Percent of an SM: the most that work that pauses leaves free; with 0 nothing pauses.
  std::uint32_t reserve = 25;
  const Headroom *headroom = nullptr; ///< that it leaves; the dispatcher's to set
  bool limitsSms = true;              ///< PlanRules; the dispatcher asks the policy
  /// Whether kinds are chosen by what they are measured to take, and where that is kept, or none.
  bool measures = false;
  ProfileStore *profiles = nullptr;
  /// Above 0: kernels that cannot yield run on a stream that has so many of the device's SMs.
  std::uint32_t smsOfWholes = 0;
  /// Whether what cannot yield may be sent behind a wait of the lane's stream.
  bool waits = true;
  /// Lanes try whether their streams may wait: Lane::tryWaits(). Else they may where the device
  /// says so.
  bool triesWaits = false;
  /// Told what a stream waits for where nothing moves; or empty.
  std::function<void(const std::string &)> warn;
  /// Where it is noted what ran when, or nowhere; and the lane's number there.
  Trace *trace = nullptr;
  std::uint8_t number = 0;
};

/// What a lane has done. Written by the dispatcher's thread, read by any.
struct LaneCounters {
  std::array<std::atomic<std::uint64_t>, allKinds.size()> launchesByKind{};
  std::atomic<std::uint64_t> finishedLaunches{0}, ///< but those of launchWhole
      physicalLaunches{0}, yields{0}, savedBlocks{0},
      saveAreasRefused{0}; ///< the device had no memory for one, so that another kind was taken
  std::atomic<std::uint64_t> waits{0}; ///< of a lane's stream, for a launch ahead to be done
};

/// Cheaper than an addition in one: for the only thread that writes the counter.
inline void countOne(std::atomic<std::uint64_t> &counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

/// How long what was sent took, the newest counting most. Not thread-safe.
struct LaunchPace {
  Nanoseconds ran{0};
  std::uint64_t launches = 0;

  void add(Nanoseconds took, std::uint64_t count) {
    constexpr Nanoseconds memory{10'000'000};
    ran += took;
    launches += count;
    if (ran > memory) {
      ran /= 2;
      launches = (launches + 1) / 2;
    }
  }
};

class Lane {
public:
  static Result<std::unique_ptr<Lane>> create(StreamDevice &device, LaneOptions options);
  ~Lane() { close(); }

  /// Waits for what is on the device, and gives back what the lane has there; what was not sent is
  /// forgotten. Waits of other threads end, as if the device had failed. Nobody calls step() any
  /// more.
  void close();

  // For any thread.

  /// Puts one operation on its stream and returns its number in the lane, from 1. Blocks while the
  /// lane's queue is full; fails when the stream has failed.
  Result<std::uint64_t> submit(Operation operation);
  /// Whether the operation of that number is over, and so all before it. True when the lane broke.
  bool isOver(std::uint64_t number) const { return finished.load() >= number || isBroken; }
  /// Blocks until it is.
  void waitFor(std::uint64_t number);
  /// What is up to that number goes out whether best-effort work may run or not: work of high
  /// priority waits for it. Wake the dispatcher afterwards.
  void inheritHighPriority(std::uint64_t number);
  /// Of what is put on it; before anything is.
  void setClass(std::uint32_t number) { ownClass.store(number); }
  /// Lets streams of these lanes wait, where those for what is resumed are seen to go on while all
  /// others wait. Before anything is put on them.
  static void tryWaits(std::span<const std::unique_ptr<Lane>> lanes);
  /// Blocks until all that was put on the stream so far is done; the stream's failure, if any.
  Result<void> wait(LaneStream &stream);
  const LaneCounters &counters() const { return counts; }
  const LaneResources &resources() const { return own; }
  bool hasWork() const { return unfinished.load() != 0; }

  // For the dispatcher's thread.

  /// Takes back what came back and sends what may go. Returns whether anything happened.
  bool step(const Gate &gate);
  bool underWay() const { return !batches.empty(); }
  /// The epoch of what is under way; only while something is.
  std::uint64_t epochUnderWay() const { return batches.front().epoch; }
  /// What is left of kernels under way that cannot yield, by the high predictions of their
  /// durations; zero without any, max() where nothing is predicted or what was has run out.
  Nanoseconds wholesLeft() const;
  /// What of what is under way pauses when it is told to.
  Pausing pausing() const;
  /// Whether what is under way and pauses leaves less room than it should by now.
  bool lacksHeadroom() const;
  /// The SMs that what is under way may use, where that shares the device with high-priority work.
  std::optional<std::uint32_t> sharedSms() const;
  /// A stream waits for what has to be resumed, which goes out though nothing else does any more.
  bool isHeld() const { return !held.empty(); }
  /// What is next or under way must go, whatever the policy says.
  bool inheritsHighPriority() const { return finished.load() < inheritsHighPriorityUntil.load(); }
  /// Which class of best effort the oldest operation goes as: the lane's, or a higher one's that
  /// waits for it.
  std::uint32_t currentClass() const { return classAt(finished.load()); }
  /// For how long work has been on the device, and that of a client's.
  Nanoseconds ran() const { return ranInAll; }
  Nanoseconds ranOf(std::uint32_t client, std::uint32_t generation) const {
    bool isKnown = client < ranByClient.size() && ranByClient[client].generation == generation;
    return isKnown ? ranByClient[client].ran : Nanoseconds(0);
  }
  /// Lately: how long launches and the like were on the device, and how many they were.
  const LaunchPace &pace() const { return lately; }
  /// Calls `each` with the clients of what is under way and of what is next.
  template <class Each> void forReadyClients(Each each) const {
    for (std::size_t i = 0; i < pending.size() && i <= sent; ++i)
      each(pending[i]->stream->client);
  }
  /// Since when a launch has been waiting that the policy did not let go for its duration.
  std::optional<Nanoseconds> heldBackSince() const { return heldSince; }

private:
  static constexpr std::size_t maxBatches = 3, maxItems = 32;

  /// One thing of a batch on the device.
  struct Item {
    Operation *operation = nullptr;
    bool dropped = false;  // nothing was sent: it, or its stream, had failed
    bool canYield = false; // guard, kinds with workers
    bool heavy = false;    // ends its batch
    // Of what cannot yield and is a kernel: what it should take, and the most that it should.
    Nanoseconds expected{0}, predicted{0};
    bool leavesVariant = false; // the user's kernel goes, whole, though there is a variant
    bool completes = false;     // the operation ends with it, unless it yields
    bool resumes = false;       // the operation was launched before, and yielded
    bool isTimed = false;       // for what its blocks take
    bool isMeasured = false;    // it goes alone for that, and nothing is sent until it is back
    PhysicalLaunch launch;
    std::optional<ListRing::Region> list;
    std::shared_ptr<LaunchPlan> plan; // of launches
  };
  /// By what the state of a launch says that it is done: VariantLaunch::countsBlocks().
  struct Awaited {
    bool countsBlocks = false, saves = false;
    std::uint32_t blocks = 0;
  };
  struct Batch {
    std::uint64_t epoch = 0, marker = 0;
    const MappedMemory *markerAt = nullptr; // where the marker is written
    /// The state of a launch, by which its stream lets it go; 0: it waits for none.
    DevicePtr behind = 0;
    Awaited behindLaunch;
    std::size_t slot = 0;       // of the mirrors
    std::size_t firstState = 0; // in the ring; item i has the i-th from there
    bool statesComing = false;  // the marker stands behind a copy of the states
    bool shares = false;
    bool mayBeAsked = false; // requests come
    std::uint32_t sms = allSms;
    Nanoseconds sentAt{0}, issuedAt{0}; // before its first call, behind its last one
    bool hasOthers = false;             // other lanes had something under way
    /// Of a timed launch that waits for an application's stream: what the device writes once it has
    /// waited, or 0; and when that was seen, or zero.
    std::uint64_t beginMark = 0;
    Nanoseconds begunAt{0};
    Nanoseconds notBegunAt{0}; // when it was last seen not to have begun
    Nanoseconds waitedFrom{0}; // since when the device could have worked on it
    Nanoseconds askedAt{0};    // when it was seen that it was told to yield
    std::vector<Item> items;
    /// Puts behind the items. The host makes them once all of these are done, on the application's
    /// stream, where nothing is under way then.
    std::vector<Operation *> late;
    std::uint64_t range = 0;                  // for a profiler
    std::shared_ptr<std::atomic<bool>> ended; // of its call, which has to end before the marker
    bool canYield() const;
    bool pauses() const; // all of it
    /// What its kernels that cannot yield should take at most, with one more: one of them may take
    /// longer than is expected of it.
    Nanoseconds wholes(const Item *more = nullptr) const;
  };

  Lane(StreamDevice &device, LaneOptions options)
      : device(device), options(std::move(options)), own(device) {}
  Result<void> initialise();

  // lane.cpp: the queue, and batches coming back.
  void takeInbox();
  bool collect(const Gate &gate);
  void takeBack(const Batch &batch, const Gate &gate);
  static bool isReached(const Batch &batch);
  bool endCall(Batch &batch);
  void seeBegin(Batch &batch) const;
  void failStream(LaneStream &stream, const Error &error);
  void failOperation(Operation &operation, const Error &error);
  void failAll(const Error &error);
  void publish();
  void checkHealth(const Gate &gate);
  template <class Over> void waitUntil(std::unique_lock<std::mutex> &lock, Over over);
  // lane_resume.cpp: what of a batch is done, and what yielded.
  Result<void> readStates();
  Result<void> continueOn(StreamId target);
  void take(const Batch &batch);
  void absorb(const Item &item, const tally_launch_state &state, std::uint64_t epoch);
  void releaseRetained();
  void finishFront(const Operation *operation);
  void dropFailed();
  // lane_measure.cpp
  void account(const Batch &batch, std::size_t lanes);
  void measureBlocks(const Batch &batch, std::size_t lanes);
  void noteBlocks(const Operation &operation, std::uint64_t left, std::size_t lanes);
  void noteLong(const Batch &batch, std::size_t lanes) const;
  void noteLate(const Batch &batch);
  const Item *lastToRun(const Batch &batch) const;
  static bool goesByShape(const Item &item);
  void learnDurations(const Batch &batch);
  Nanoseconds launchTurn(const Batch &batch) const;
  bool isMeasurable(const Batch &batch) const;
  // lane_trace.cpp
  void traceWait(bool waits);
  void traceBatch(const Batch &batch);
  void beginBatchRange(Batch &batch) const;
  TraceEvent traced(const Item &item) const;
  bool willYield(const Batch &batch, std::size_t index) const;
  bool willHaveRunNothing(const Batch &batch, std::size_t index) const;

  // stream_waits.cpp: batches whose stream waits for a launch.
  const Item *newestThatYields(const Batch *&of) const;
  bool mayComeBehind(const Operation &operation) const;
  bool isBehindWait(const Batch &batch) const;
  void putBehind(Batch &batch) const;
  Result<void> sendWait(const Batch &batch);
  Result<void> sayDone(const Batch &batch);
  void hold();
  bool letGo(const Gate &gate);
  const Operation *awaited() const;
  void watchWaits(const Gate &gate);
  void letAllGo();
  bool waitsBehindFront() const;
  std::size_t sendable() const { return held.empty() ? pending.size() : toResume; }
  StreamId home() const { return held.empty() ? stream : *resumes; }
  static WordWait isBack(const Batch &batch);
  static std::size_t completed(const Batch &batch);

  // lane_issue.cpp: what goes out next.
  struct Budget {
    Nanoseconds time{0}, batchTime{0};
    std::uint64_t guardBlocks = 0;
    Decision decision;         // Permit's
    Nanoseconds wholesLeft{0}; // Gate's
  };
  bool isFull() const;
  bool issue(const Gate &gate);
  std::size_t freeSlot() const;
  std::optional<Permit> permit(const Gate &gate) const;
  void planBatch(Batch &batch, const Gate &gate, const Permit &permit);
  bool addLate(Batch &batch);
  bool mayStart(Operation &operation);
  std::uint32_t classAt(std::uint64_t before) const;
  void inheritClass(std::uint64_t number, std::uint32_t bestEffortClass);
  bool planItem(std::size_t index, Batch &batch, Budget &used);
  bool fitsSms(Item &item, std::uint32_t sms) const;
  bool planYielding(Item &item, const Batch &batch, Budget &used);
  bool reserveList(Item &item, const Batch &batch);
  ListRing &ring() { return held.empty() ? lists : resumedLists; }
  // nonpreemptible_admission.cpp: when what cannot yield goes.
  static void predict(Item &item);
  bool isShort(const Operation &operation) const;
  bool isBetweenWholes(std::size_t index, const Batch &batch, const Budget &used);
  bool planCall(Item &item, const Batch &batch);
  bool planWhole(Item &item, const Batch &batch, const Budget &used);
  bool fitsBehind(const Item &item, const Batch &batch, const Budget &used) const;
  bool goesByDuration(Nanoseconds predicted, const Budget &used);
  // lane_plan.cpp: what they go out as.
  PlanRules planRules() const;
  bool preparePlan(Operation &operation);
  void reconsider(Operation &operation);
  bool isOutdated(const Operation &operation) const;
  void leaveHeadroom(Operation &operation);
  std::shared_ptr<LaunchPlan> planByIdentity(const Operation &operation);
  // save_area.cpp
  bool growSaveArea(Item &item, const Batch &batch);
  bool allocateSaveArea(std::uint64_t least);
  bool takeSaveArea(std::uint64_t bytes);
  Result<void> clear(DevicePtr memory, std::uint64_t bytes);
  Result<void> awaitShortly(StreamId other);
  void takeFirstSaveArea();

  // lane_send.cpp: batches going out.
  Result<void> send(Batch &batch, const Gate &gate);
  Result<void> claimStates(Batch &batch);
  Result<void> sendItem(Batch &batch, std::size_t index);
  Result<void> sendMarker(Batch &batch);
  Result<void> putMarker(Batch &batch, const MappedMemory &word, StreamId on);
  static bool standIn(Operation &operation);
  bool isHeldUp(const Operation &operation) const;
  Result<void> setState(DevicePtr address, const tally_launch_state &state);
  Result<void> sendBehind(Batch &batch, std::size_t index);
  Result<void> sendLaunch(Batch &batch, std::size_t index);
  /// Those of a batch on `resumes` are apart: the ring's may be waited for.
  DevicePtr stateAddress(const Batch &batch, std::size_t index) const {
    return states + (batch.firstState + index) * sizeof(tally_launch_state);
  }

  StreamDevice &device;
  LaneOptions options;
  LaneResources own;
  StreamId stream{};
  StreamId wholes{};             // for kernels that cannot yield; mostly the same
  StreamId current{};            // where the newest work is; the other stream's is done before it
  std::optional<StreamId> marks; // for markers beside the work
  /// For what is resumed while `stream` waits; none: it never does.
  std::optional<StreamId> resumes;
  LaneCounters counts;

  // The applications' side.
  std::mutex mutex;
  std::condition_variable changed; // something finished or failed
  std::vector<std::unique_ptr<Operation>> inbox;
  /// Kernels' that are over: threads that submit others free them, since the dispatcher's time is
  /// what short launches take. As many at most as may be unfinished.
  std::vector<std::unique_ptr<Operation>> spent;
  std::atomic<bool> inboxFilled{false};
  std::atomic<std::uint64_t> unfinished{0}; // operations submitted and not finished
  std::uint64_t submitted = 0;              // guarded by the mutex
  std::atomic<std::uint64_t> finished{0}, inheritsHighPriorityUntil{0};
  std::atomic<std::uint32_t> ownClass{1}; // of best effort
  std::optional<Error> broken; // the physical stream is of no use any more; set under the mutex
  std::atomic<bool> isBroken{false};

  // The dispatcher's side.
  /// Not finished, in order; the first `sent` are under way.
  std::deque<std::unique_ptr<Operation>> pending;
  std::size_t sent = 0;
  std::vector<std::unique_ptr<Operation>> over; // to be `spent`
  std::uint64_t finishedNow = 0;                // `unfinished` still counts them
  std::deque<Batch> batches;
  std::deque<Batch> held;   // the stream waits ahead of them for what is resumed; of `pending` they
  std::size_t toResume = 0; // come behind so many, and are not among the first `sent`
  std::uint64_t inheritsClassUntil = 0; // up to that number operations go as of `inheritedClass`
  std::uint32_t inheritedClass = lowestBestEffortClass;
  std::optional<Nanoseconds> heldSince;
  const bool hasRanges = rangesAreOn();
  std::optional<Nanoseconds> waitsSince; // of a trace: work is there, and may not go
  Nanoseconds ranInAll{0};
  LaunchPace lately;
  struct RanOfClient {
    std::uint32_t generation = 0; // whose number it is
    Nanoseconds ran{0};
  };
  std::vector<RanOfClient> ranByClient;
  using WholeKey = std::pair<std::uint64_t, LoadedKernel::ShapeKey>;
  std::map<WholeKey, std::shared_ptr<LaunchPlan>> wholePlans;
  bool draining = false; // a launch yielded, and not all that was under way is back yet
  bool somethingFinished = false;
  DevicePtr states = 0;      // the ring
  std::size_t nextState = 0; // in the ring
  int freshHalves = 2;       // of the ring, which are clear as they are entered
  std::span<tally_launch_state> mirrors[maxBatches + 1]; // the last of a batch on `resumes`
  // Each of the first three is written by one stream.
  MappedMemory markerWord, markerBeside, markerResumed, beginWord;
  std::uint64_t lastMarker = 0;
  ListRing lists, resumedLists;             // the second of what is on `resumes`
  std::optional<ListRing::Region> retained; // the list that the front operation is resumed from
  ListRing *retainedIn = nullptr;           // while there is one
  DevicePtr saveArea = 0; // where the front operation's blocks are saved, if it is a checkpoint
  std::uint64_t saveAreaBytes = 0;
  /// Registers and shared memory of a whole device are below 128 MiB; a lane's launches have as
  /// many blocks as run at a time.
  /// Blocks that may stand in a save area: 64 an SM of as many as there are.
  static constexpr std::uint32_t maxSavedBlocks = 16384;
  std::uint64_t maxSaveBytes = std::uint64_t{256} << 20;
  std::vector<std::byte> parameterBuffer;
  Nanoseconds lastCollected{0}, lastProgress{0};
  Nanoseconds shortest = anyDuration;    // that a batch took on an idle device, as the host saw it
  std::optional<Nanoseconds> stillSince; // nothing has moved; none: something has, or it was said
  std::uint64_t lastEpoch = 0;           // of the batch that was collected then
  bool hadMore = false;                  // then: there was something to send
  bool closed = false;
};

} // namespace tally::runtime

#endif
