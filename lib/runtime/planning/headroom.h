// The headroom that pausing work leaves on each SM: the resources that the high-priority launches
// seen so far take, but never more than a part of the SM that the settings name. Before the first
// launch, and after a launch of unknown need, the headroom is this whole part.
#ifndef TALLY_LIB_RUNTIME_PLANNING_HEADROOM_H
#define TALLY_LIB_RUNTIME_PLANNING_HEADROOM_H

#include "planning/residency.h"

#include <array>
#include <atomic>
#include <cstdint>

namespace tally::runtime {

/// Thread-safe except open(). A launch that was seen is never forgotten: a launch that comes once
/// an hour finds its headroom, and a launch that ran only at the beginning keeps it.
class Headroom {
public:
  /// Call this first. `percent`: the most of each resource to leave free.
  void open(const DeviceInfo &of, std::uint32_t percent) {
    device = of;
    most = reserveOf(of, percent);
  }

  /// The resources of an SM to leave free now.
  Footprint now() const;
  /// A number that changes when now() may change. Read it before now().
  std::uint64_t version() const { return changes.load(std::memory_order_acquire); }

  /// Call this before a high-priority launch is made. Returns false if not one of its blocks fits
  /// in the largest headroom, or, if its blocks must run `together`, if not all of them fit.
  bool see(const FunctionAttributes &function, const LaunchShape &shape, bool together = false);
  /// Call this when launches come on one more stream: kernels of all streams may run at a time.
  void addStream() {
    streams.fetch_add(1);
    changes.fetch_add(1, std::memory_order_release);
  }
  /// Call this when one of the streams is gone.
  void dropStream() {
    streams.fetch_sub(1);
    changes.fetch_add(1, std::memory_order_release);
  }
  /// Call this for high-priority work that runs the driver's own kernels; they are assumed to fit
  /// in the largest headroom.
  void seeOfDriver() { raise(most); }
  /// Call this for work of unknown need: it may not even fit in the largest headroom.
  void seeUnknown() {
    if (!unknown.exchange(true))
      changes.fetch_add(1, std::memory_order_release);
  }
  /// Whether launches were seen and the need of each is known.
  bool knowsAll() const { return seen && !unknown; }

  /// The need of work that is computed once and seen often, such as a graph.
  struct Asked {
    Footprint need;    ///< the largest need of each resource
    bool fits = true;  ///< the result of see()
    bool known = true; ///< the need of all parts is known
    /// Adds work that runs before or after this; `beside`: that runs at the same time.
    void add(const Asked &other, bool beside);
  };
  Asked ask(const FunctionAttributes &function, const LaunchShape &shape, bool together) const;
  Asked ofDriver() const { return {most, true, true}; }
  /// Returns whether the work fits, as far as its need is known.
  bool see(const Asked &asked);

private:
  void raise(const Footprint &need);

  DeviceInfo device;
  Footprint most;
  std::array<std::atomic<std::uint32_t>, 4> needs{}; // one for each field of Footprint
  std::atomic<std::uint32_t> streams{0};
  std::atomic<bool> seen{false}, unknown{false};
  std::atomic<std::uint64_t> changes{1};
};

} // namespace tally::runtime

#endif
