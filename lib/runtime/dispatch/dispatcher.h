// The dispatcher: one thread that sends best-effort work under the policy, takes back launches that
// yielded, and closes the implicit scopes of high-priority streams that have come to rest.
#ifndef TALLY_LIB_RUNTIME_DISPATCH_DISPATCHER_H
#define TALLY_LIB_RUNTIME_DISPATCH_DISPATCHER_H

#include "base/spin.h"
#include "dispatch/busy_times.h"
#include "dispatch/client_table.h"
#include "dispatch/dispatcher_options.h"
#include "dispatch/lane_table.h"
#include "dispatch/pauses.h"
#include "dispatch/sleeper.h"
#include "dispatch/turnarounds.h"
#include "lane/lane.h"
#include "requests/armed_limit.h"
#include "requests/request_scope_tracker.h"

#include "tally/runtime/any_policy.h"
#include "tally/runtime/runtime.h"

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <thread>

namespace tally::runtime {

/// Other processes on the device, as the dispatcher sees them. The dispatcher's thread calls it.
class Neighbours {
public:
  virtual ~Neighbours() = default;
  Neighbours(const Neighbours &) = delete;
  Neighbours &operator=(const Neighbours &) = delete;

  /// Tells whether best-effort work is waiting or under way. Called often. The dispatcher sends no
  /// work before it called setBusy(true); when the call returns, the activity of other processes is
  /// known.
  virtual void setBusy(bool now) = 0;
  /// Whether other processes may be waiting for this process to close its scopes.
  virtual bool isWaitedFor() const = 0;
  /// The number of waits for high-priority work in other processes so far. Called often.
  virtual std::uint64_t waitsElsewhere() const = 0;
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
  /// Stops the thread. Unfinished operations stay unfinished.
  ~Dispatcher() override;

  /// Call this before start(). `others` must live as long as the thread.
  void setNeighbours(Neighbours *others) { neighbours = others; }
  /// Starts the thread that calls step().
  void start();
  /// Wakes the thread; call it after work was put on a lane.
  void wake() { sleeper.wake(); }
  /// Wakes the thread if lanes have work; call it after the last scope was closed.
  void resume() {
    if (laneTable.hasWork())
      wake();
  }
  /// Ends the thread and closes the lanes. Results and statistics stay.
  void close();
  /// Stops sending, for a process that is about to end. Work under way still comes back; a thread
  /// that waits for work that was not sent waits for ever.
  void stopSending() {
    closed = true;
    wake();
  }
  bool isClosed() const override { return closed.load(std::memory_order_relaxed); }
  /// After stopSending(): whether no batch is under way any more.
  bool isAtRest() const { return atRest; }
  /// Stops sending, asks running work to yield and returns when no batch is under way any more.
  /// Call it after start().
  void bringToRest();

  /// Returns the lanes of a class of best effort, 1 to 4; their work stops work of lower classes.
  /// Makes the lanes if the class is new, which fails when the device does. Thread-safe.
  Result<std::span<const std::unique_ptr<Lane>>> lanesOf(std::uint32_t bestEffortClass) {
    return laneTable.of(bestEffortClass);
  }
  /// Returns the lane for the next best-effort stream of `client`. If the policy tells clients
  /// apart, clients get different lanes as far as there are enough.
  Result<Lane *> assignLane(std::uint32_t client = 0, std::uint32_t bestEffortClass = 1) {
    return laneTable.assign(client, bestEffortClass);
  }
  /// Sets ClientProgress::generation of a client's number. Call it before the client has work. The
  /// generation of other numbers is 0. Thread-safe.
  void noteClient(std::uint32_t client, std::uint32_t generation) {
    clients.note(client, generation);
  }
  void addTo(Statistics &statistics) const;
  LaneTotals totals() const { return laneTable.totals(); }

  /// Makes one pass over all lanes and the monitor. Returns whether anything happened. For the
  /// dispatcher's thread, or for a test in its place.
  bool step();

private:
  Dispatcher(StreamDevice &device, DeviceControl &control, RequestScopeTracker &highPriority,
             DispatcherOptions options);

  std::optional<Permit> permit(std::uint32_t bestEffortClass) const override;
  Nanoseconds nonPreemptibleLeft() const override { return laneTable.nonPreemptibleLeft(); }
  std::size_t lanesUnderWay() const override { return laneTable.underWay(); }
  Snapshot snapshot() const;
  /// The policy's decision, with a number of SMs that the lanes can keep work to.
  Decision decide(const Snapshot &now) const;
  void enforcePolicy();
  void stopByPolicy();
  void enforceClasses();
  std::uint64_t currentEpoch() const override { return control.currentEpoch(); }
  void expectOthers() const override {
    if (control.whatPauses() == Pausing::All)
      control.setPausing(Pausing::Some);
  }
  void expectPausing() const override { pauses.expect(); }
  bool leavesDriver() const;
  bool monitor();
  void keepPolicy();
  void run();
  void tellNeighbours(bool hasWork);
  void rest(Nanoseconds idleFor);
  void restWithoutWork(Sleeper::Nap &sleep);
  void arm(Nanoseconds idleFor);

  StreamDevice &device;
  DeviceControl &control;
  RequestScopeTracker &highPriority;
  DispatcherOptions options;
  const bool mayPause;       // whether kind pause is among the kinds
  std::uint32_t smCount = 0; // of the device
  std::atomic<bool> closed{false}, atRest{false};
  LaneTable laneTable;
  Pauses pauses;
  mutable ClientTable clients;
  Neighbours *neighbours = nullptr;
  bool neighboursKnow = true; ///< whether setBusy(true) was told; true without neighbours

  BusyTimes busyTimes; // of high-priority work
  Turnarounds turnarounds;
  Nanoseconds lastImplicit{0}; // time at which an implicit scope was last seen open
  Nanoseconds lastMonitored{0}, lastNoted{0}, lastKept{0}, armedAt{0};

  Sleeper sleeper;
  OccasionalYield yieldInTurn;
  std::atomic<bool> stopping{false};
  ArmedLimit armedLimit;
  std::thread thread;
};

} // namespace tally::runtime

#endif
