// The lanes of a dispatcher, by classes of best effort, and what is to be known of all of them.
#ifndef TALLY_LIB_RUNTIME_DISPATCH_LANE_TABLE_H
#define TALLY_LIB_RUNTIME_DISPATCH_LANE_TABLE_H

#include "dispatch/dispatcher_options.h"
#include "lane/lane.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

namespace tally::runtime {

/// Lanes are added, and stay. Those of a class lie one behind the other.
class LaneTable {
public:
  /// `options` lives as long as this, and is complete when the first lanes are made.
  LaneTable(StreamDevice &device, const DispatcherOptions &options)
      : device(device), options(options) {}

  /// Makes the first ones, which are those of whichever class asks first.
  Result<void> open() { return make(); }
  std::span<const std::unique_ptr<Lane>> all() const {
    return {slots.data(), count.load(std::memory_order_acquire)};
  }
  /// Those of a class, 1 to 4. Makes them where the class is new, which fails when the device does.
  /// Thread-safe.
  Result<std::span<const std::unique_ptr<Lane>>> of(std::uint32_t bestEffortClass);
  /// The one for the next best-effort stream, of that client. Where the policy tells clients apart
  /// so do lanes, as far as there are enough. Thread-safe.
  Result<Lane *> assign(std::uint32_t client, std::uint32_t bestEffortClass);
  /// Whether lanes of several classes were asked for.
  bool hasClasses() const { return several; }

  // For the dispatcher's thread.

  /// Finds the highest class that there is work of, or was lately. What works for a higher class,
  /// which waits for it, counts as that.
  void findLeadingClass();
  std::uint32_t leadingClass() const { return leading; }

  // Of all lanes.

  bool hasWork() const;
  Nanoseconds nonPreemptibleLeft() const;
  /// How many have something under way.
  std::size_t underWay() const;
  std::optional<std::uint64_t> oldestUnderWay() const;
  bool inheritsHighPriority() const;
  bool lacksHeadroom() const;
  Pausing pausing() const;
  LaunchPace pace() const;
  LaneTotals totals() const;

private:
  Result<void> make();

  StreamDevice &device;
  const DispatcherOptions &options;
  static constexpr std::size_t maxLanesOfClass = 16;
  std::array<std::unique_ptr<Lane>, lowestBestEffortClass * maxLanesOfClass> slots;
  std::atomic<std::size_t> count{0}, next{0};
  std::mutex adding;
  /// Lane of each class; guarded by `adding`.
  std::array<std::optional<std::size_t>, lowestBestEffortClass> first;
  std::size_t classCount = 0; ///< likewise: that have lanes
  std::atomic<bool> several{false};
  // The dispatcher's thread's own.
  std::uint32_t leading = lowestBestEffortClass;
  std::array<std::optional<Nanoseconds>, lowestBestEffortClass> lastWork;
};

} // namespace tally::runtime

#endif
