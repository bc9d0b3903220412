// The lanes of a dispatcher, by class of best effort, and queries over all of them.
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

/// Lanes are added and never removed. The lanes of a class lie one after another.
class LaneTable {
public:
  /// `options` must outlive the table, and be complete when the first lanes are made.
  LaneTable(StreamDevice &device, const DispatcherOptions &options)
      : device(device), options(options) {}

  /// Makes the first lanes; the class that asks first gets them.
  Result<void> open() { return make(); }
  std::span<const std::unique_ptr<Lane>> all() const {
    return {slots.data(), count.load(std::memory_order_acquire)};
  }
  /// Returns the lanes of a class, 1 to 4. Makes them if the class is new, which fails when the
  /// device does. Thread-safe.
  Result<std::span<const std::unique_ptr<Lane>>> of(std::uint32_t bestEffortClass);
  /// Returns the lane for the next best-effort stream of `client`. If the policy tells clients
  /// apart, clients get different lanes as far as there are enough. Thread-safe.
  Result<Lane *> assign(std::uint32_t client, std::uint32_t bestEffortClass);
  /// Whether lanes of several classes were asked for.
  bool hasClasses() const { return several; }

  // For the dispatcher's thread.

  /// Finds the highest class that has work or had work lately. Work that a higher class waits for
  /// counts as work of the higher class.
  void findLeadingClass();
  std::uint32_t leadingClass() const { return leading; }

  // Sums and queries over all lanes.

  bool hasWork() const;
  Nanoseconds nonPreemptibleLeft() const;
  /// The number of lanes with a batch under way.
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
  /// Index of the first lane of each class; guarded by `adding`.
  std::array<std::optional<std::size_t>, lowestBestEffortClass> first;
  std::size_t classCount = 0; ///< guarded by `adding`: number of classes that have lanes
  std::atomic<bool> several{false};
  // Used only by the dispatcher's thread.
  std::uint32_t leading = lowestBestEffortClass;
  std::array<std::optional<Nanoseconds>, lowestBestEffortClass> lastWork;
};

} // namespace tally::runtime

#endif
