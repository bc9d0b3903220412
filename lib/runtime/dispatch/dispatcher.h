// The dispatcher: one thread that sends best-effort work under the policy, takes back what yielded,
// and closes the implicit scopes of high-priority streams that have come to rest.
#ifndef TALLY_LIB_RUNTIME_DISPATCH_DISPATCHER_H
#define TALLY_LIB_RUNTIME_DISPATCH_DISPATCHER_H

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
  void wake() { sleeper.wake(); }
  /// The last scope was closed: wakes the thread if anything waits for that.
  void resume() {
    if (laneTable.hasWork())
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
  Result<std::span<const std::unique_ptr<Lane>>> lanesOf(std::uint32_t bestEffortClass) {
    return laneTable.of(bestEffortClass);
  }
  /// The one for the next best-effort stream, of that client. Where the policy tells clients apart
  /// so do lanes, as far as there are enough.
  Result<Lane *> assignLane(std::uint32_t client = 0, std::uint32_t bestEffortClass = 1) {
    return laneTable.assign(client, bestEffortClass);
  }
  /// The number has gone to a client, before that has any work: ClientProgress::generation.
  /// Thread-safe. Of numbers that it is not called for that is 0.
  void noteClient(std::uint32_t client, std::uint32_t generation) {
    clients.note(client, generation);
  }
  void addTo(Statistics &statistics) const;
  LaneTotals totals() const { return laneTable.totals(); }

  /// One pass over all lanes and the monitor. Returns whether anything happened. For the thread,
  /// or for a test in its place.
  bool step();

private:
  Dispatcher(StreamDevice &device, DeviceControl &control, RequestScopeTracker &highPriority,
             DispatcherOptions options);

  std::optional<Permit> permit(std::uint32_t bestEffortClass) const override;
  Nanoseconds nonPreemptibleLeft() const override { return laneTable.nonPreemptibleLeft(); }
  std::size_t lanesUnderWay() const override { return laneTable.underWay(); }
  Snapshot snapshot() const;
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
  void run();
  void tellNeighbours(bool hasWork);
  void rest(Nanoseconds idleFor);
  void restWithoutWork(Sleeper::Nap &sleep);
  void arm(Nanoseconds idleFor);

  StreamDevice &device;
  DeviceControl &control;
  RequestScopeTracker &highPriority;
  DispatcherOptions options;
  const bool mayPause;       // kind pause is among the kinds
  std::uint32_t smCount = 0; // of the device
  std::atomic<bool> closed{false}, atRest{false};
  LaneTable laneTable;
  Pauses pauses;
  mutable ClientTable clients;
  Neighbours *neighbours = nullptr;
  bool neighboursKnow = true; ///< of work, where there are any

  BusyTimes busyTimes; // of high-priority work
  Turnarounds turnarounds;
  Nanoseconds lastImplicit{0}; // when an implicit scope was last seen open
  Nanoseconds lastMonitored{0}, lastNoted{0}, armedAt{0};

  Sleeper sleeper;
  std::atomic<bool> stopping{false};
  ArmedLimit armedLimit;
  std::thread thread;
};

} // namespace tally::runtime

#endif
