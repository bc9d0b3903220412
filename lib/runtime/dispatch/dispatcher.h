// The dispatcher: one thread that sends best-effort work under the policy, takes back what yielded,
// and closes the implicit scopes of high-priority streams that have come to rest.
#ifndef TALLY_LIB_RUNTIME_DISPATCH_DISPATCHER_H
#define TALLY_LIB_RUNTIME_DISPATCH_DISPATCHER_H

#include "base/stable_table.h"
#include "dispatch/pause_backoff.h"
#include "lane/lane.h"
#include "requests/armed_limit.h"
#include "requests/request_scope_tracker.h"

#include "tally/runtime/any_policy.h"
#include "tally/runtime/runtime.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace tally::runtime {

struct DispatcherOptions {
  AnyPolicy policy;
  LaneOptions lane;      ///< its `profiles` must live as long as the dispatcher
  std::size_t lanes = 2; ///< of each class of best effort that there is work of; up to 16
  /// How long work that pauses waits for high-priority work of which nothing is seen to happen,
  /// before it goes on to the end of its blocks.
  Nanoseconds pauseDeadline{2000000};
  std::function<void()> prepare = [] {}; ///< called first by the thread that start() makes
};

/// Sums over all lanes.
struct LaneTotals {
  KindCounts launchesByKind{};
  std::uint64_t finishedLaunches = 0, physicalLaunches = 0, yields = 0, savedBlocks = 0,
                saveAreasRefused = 0, waits = 0;
  std::uint64_t ownStreams = 0, ownBytes = 0; ///< that lanes have on the device now
};

/// Other processes on the device, as the dispatcher sees them. Called by its thread.
class Neighbours {
public:
  virtual ~Neighbours() = default;
  Neighbours(const Neighbours &) = delete;
  Neighbours &operator=(const Neighbours &) = delete;

  /// Whether best-effort work is waiting or under way. Called often. Nothing goes before this was
  /// told; when it returns the others' activity is known.
  virtual void setBusy(bool now) = 0;
  /// Whether others may be waiting for scopes of this process to be closed.
  virtual bool isWaitedFor() const = 0;
  virtual void note(const LaneTotals &totals) = 0;
  virtual void noteTurnaround(Nanoseconds took) = 0;

protected:
  Neighbours() = default;
};

class Dispatcher final : private Gate {
public:
  static Result<std::unique_ptr<Dispatcher>> create(StreamDevice &device, DeviceControl &control,
                                                    RequestScopeTracker &highPriority,
                                                    DispatcherOptions options);
  /// Stops the thread. What was not finished stays so.
  ~Dispatcher() override;

  /// Before start(). They must live as long as the thread.
  void setNeighbours(Neighbours *others) { neighbours = others; }
  /// From here on a thread of its own calls step().
  void start();
  /// Work was put on a lane.
  void wake();
  /// The last scope was closed: wakes the thread if anything waits for that.
  void resume() {
    if (hasWork())
      wake();
  }
  /// Ends the thread, and closes the lanes. What was done stays known.
  void close();
  /// Nothing is sent any more; whoever waits for what was not sent waits for ever. For a process
  /// that is about to end. What is under way comes back.
  void stopSending() {
    closed = true;
    wake();
  }
  bool isClosed() const override { return closed.load(std::memory_order_relaxed); }
  /// After stopSending(): whether nothing is under way any more.
  bool isAtRest() const { return atRest; }
  /// Stops sending, and asks what runs to yield; returns when nothing is under way any more. After
  /// start().
  void bringToRest();

  /// The lanes of a class of best effort, 1 to 4, whose work stops that of lower ones. Makes them
  /// where the class is new, which fails when the device does. Thread-safe.
  Result<std::span<const std::unique_ptr<Lane>>> lanesOf(std::uint32_t bestEffortClass);
  /// The one for the next best-effort stream, of that client. Where the policy tells clients apart
  /// so do lanes, as far as there are enough.
  Result<Lane *> assignLane(std::uint32_t client = 0, std::uint32_t bestEffortClass = 1);
  /// The number has gone to a client, before that has any work: ClientProgress::generation.
  /// Thread-safe. Of numbers that it is not called for that is 0.
  void noteClient(std::uint32_t client, std::uint32_t generation);
  void addTo(Statistics &statistics) const;
  LaneTotals totals() const;

  /// One pass over all lanes and the monitor. Returns whether anything happened. For the thread,
  /// or for a test in its place.
  bool step();

private:
  Dispatcher(StreamDevice &device, DeviceControl &control, RequestScopeTracker &highPriority,
             DispatcherOptions options);

  std::optional<Permit> permit(std::uint32_t bestEffortClass) const override;
  Nanoseconds wholesLeft() const override;
  std::size_t lanesUnderWay() const override;
  Snapshot snapshot() const;
  void readClients(Snapshot &snapshot) const;
  std::uint32_t generationOf(std::uint32_t client) const {
    const std::atomic<std::uint32_t> *known = generations.find(client + std::uint64_t{1});
    return known ? known->load() : 0;
  }
  void observeBusyTimes();
  void enforcePolicy();
  void stopByPolicy();
  // dispatcher_classes.cpp
  Result<void> makeLanes();
  std::span<const std::unique_ptr<Lane>> lanes() const {
    return {laneSlots.data(), laneCount.load(std::memory_order_acquire)};
  }
  void enforceClasses();
  void findLeadingClass();

  std::uint64_t currentEpoch() const override { return control.currentEpoch(); }
  void expectOthers() const override {
    if (control.whatPauses() == Pausing::All)
      control.setPausing(Pausing::Some);
  }
  // dispatcher_pauses.cpp
  void expectPausing() const override;
  bool pausesAreAllowed() const;
  void endPauses();
  std::optional<PauseEnd> mustEndPause();
  bool isOverdue();
  bool lacksHeadroom() const;
  void release(PauseEnd why);
  void tracePause(Nanoseconds since, PauseEnd why) const;
  void choosePausing();
  bool inheritsHighPriority() const;
  bool leavesDriver() const;
  std::optional<std::uint64_t> oldestUnderWay() const;
  void measureTurnaround(std::optional<std::uint64_t> oldestBefore);
  bool monitor();
  void run();
  void tellNeighbours(bool hasWork);
  void rest(Nanoseconds idleFor);
  void arm(Nanoseconds idleFor);
  bool isWorthArming() const;
  template <class Awake>
  void restWithoutWork(std::unique_lock<std::mutex> &lock, const Awake &awake);
  bool hasWork() const;

  StreamDevice &device;
  DeviceControl &control;
  RequestScopeTracker &highPriority;
  DispatcherOptions options;
  const bool mayPause;       // kind pause is among the kinds
  std::uint32_t smCount = 0; // of the device
  // Lanes are added, and stay. Those of a class lie one behind the other.
  static constexpr std::size_t maxLanesOfClass = 16;
  std::array<std::unique_ptr<Lane>, lowestBestEffortClass * maxLanesOfClass> laneSlots;
  std::atomic<std::size_t> laneCount{0}, nextLane{0};
  std::mutex lanesMutex; // of adding
  std::array<std::optional<std::size_t>, lowestBestEffortClass>
      first;                                           // lane of each; guarded by it
  std::size_t classCount = 0;                          // likewise: that have lanes
  std::atomic<bool> hasClasses{false};                 // several
  StableTable<std::atomic<std::uint32_t>> generations; // of clients' numbers, each at its own and 1
  // The dispatcher's thread's own.
  std::uint32_t leadingClass =
      lowestBestEffortClass; // the highest that there is work of, or was lately
  std::array<std::optional<Nanoseconds>, lowestBestEffortClass> lastWork;
  Neighbours *neighbours = nullptr;
  bool neighboursKnow = true; ///< of work, where there are any

  DurationEstimate busyTimes;                  // of high-priority work
  std::optional<Nanoseconds> lastBusySince;    // the newest of them began then
  mutable std::vector<ClientProgress> clients; // of the newest snapshot
  Nanoseconds lastImplicit{0};                 // when an implicit scope was last seen open
  Nanoseconds lastMonitored{0}, lastNoted{0}, armedAt{0};
  Nanoseconds progressAt{0};      // of high-priority work during a pause, as far as it is seen
  Nanoseconds callSeenAt{0};      // likewise, of its calls and scopes
  std::uint64_t progressSeen = 0; // its calls and scopes then
  int longRuns = 0;               // pauses that were ended though all was known to fit
  Nanoseconds lookedForProgress{0};
  PauseBackoff pauseBackoff;
  std::optional<std::uint64_t> yieldingEpoch; // what was under way when the request came
  Nanoseconds requestedAt{0};
  mutable std::mutex statisticsMutex;
  std::vector<std::uint64_t> turnarounds; // a ring once it is full
  std::size_t nextTurnaround = 0;

  std::mutex sleepMutex;
  std::condition_variable woken;
  std::atomic<bool> asleep{false}, stopping{false};
  std::atomic<bool> closed{false}, atRest{false};
  std::atomic<std::uint64_t> wakes{0};
  ArmedLimit armedLimit;
  std::thread thread;
};

} // namespace tally::runtime

#endif
