// The dispatcher: one thread that sends best-effort work under the policy, takes back what yielded,
// and closes the implicit scopes of high-priority streams that have come to rest.
#ifndef TALLY_LIB_RUNTIME_DISPATCHER_H
#define TALLY_LIB_RUNTIME_DISPATCHER_H

#include "high_priority.h"
#include "lane.h"

#include "tally/runtime/policy.h"
#include "tally/runtime/runtime.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace tally::runtime {

struct DispatcherOptions {
  PriorityPolicy policy;
  LaneOptions lane;
  std::size_t lanes = 2;
  std::function<void()> prepare = [] {}; ///< called first by the thread that start() makes
};

class Dispatcher final : private Gate {
public:
  static Result<std::unique_ptr<Dispatcher>> create(StreamDevice &device, DeviceControl &control,
                                                    HighPriority &highPriority,
                                                    DispatcherOptions options);
  /// Stops the thread. What was not finished stays so.
  ~Dispatcher() override;

  /// From here on a thread of its own calls step().
  void start();
  /// Work was put on a lane.
  void wake();
  /// The last scope was closed: wakes the thread if anything waits for that.
  void resume() {
    if (hasWork())
      wake();
  }
  /// Ends the thread.
  void stop();

  /// The lane for the next best-effort stream.
  Lane &assignLane();
  void addTo(Statistics &statistics) const;

  /// One pass over all lanes and the monitor. Returns whether anything happened. For the thread,
  /// or for a test in its place.
  bool step();

private:
  Dispatcher(DeviceControl &control, HighPriority &highPriority, DispatcherOptions options);

  std::optional<std::uint64_t> permit() const override;
  std::uint64_t currentEpoch() const override { return control.currentEpoch(); }
  std::optional<std::uint64_t> oldestUnderWay() const;
  void measureTurnaround(std::optional<std::uint64_t> oldestBefore);
  bool monitor();
  void run();
  void rest(Nanoseconds idleFor);
  bool hasWork() const;

  DeviceControl &control;
  HighPriority &highPriority;
  DispatcherOptions options;
  std::vector<std::unique_ptr<Lane>> lanes;
  std::atomic<std::size_t> nextLane{0};

  Nanoseconds lastMonitored{0};
  std::optional<std::uint64_t> yieldingEpoch; // what was under way when the request came
  Nanoseconds requestedAt{0};
  mutable std::mutex statisticsMutex;
  std::vector<std::uint64_t> turnarounds; // a ring once it is full
  std::size_t nextTurnaround = 0;

  std::mutex sleepMutex;
  std::condition_variable woken;
  std::atomic<bool> asleep{false}, stopping{false};
  std::atomic<std::uint64_t> wakes{0};
  std::thread thread;
};

} // namespace tally::runtime

#endif
