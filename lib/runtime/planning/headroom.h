// The room that pausing work leaves on each SM: what the launches of high priority that were seen
// so far take, and never more than a part of the SM that the settings name. As long as none was
// seen, and once there was something of which nothing is known, that part.
#ifndef TALLY_LIB_RUNTIME_PLANNING_HEADROOM_H
#define TALLY_LIB_RUNTIME_PLANNING_HEADROOM_H

#include "planning/residency.h"

#include <array>
#include <atomic>
#include <cstdint>

namespace tally::runtime {

/// Thread-safe but for open(). What is seen is never forgotten: a launch that comes once an hour
/// finds its room, and what only ran at the beginning keeps it.
class Headroom {
public:
  /// Before anything is told. `percent`: the most that is left free of each resource.
  void open(const DeviceInfo &of, std::uint32_t percent) {
    device = of;
    most = reserveOf(of, percent);
  }

  /// What is to be left free now.
  Footprint now() const;
  /// Another number when that may be another. Read it first.
  std::uint64_t version() const { return changes.load(std::memory_order_acquire); }

  /// A launch of high priority, before it is made. False: not one block of it fits in what is ever
  /// left free, or, where they have to be there `together`, not all of them.
  bool see(const FunctionAttributes &function, const LaunchShape &shape, bool together = false);
  /// Launches come on one more stream: kernels of each may run at a time.
  void addStream() {
    streams.fetch_add(1);
    changes.fetch_add(1, std::memory_order_release);
  }
  /// One of them is gone.
  void dropStream() {
    streams.fetch_sub(1);
    changes.fetch_add(1, std::memory_order_release);
  }
  /// Work of high priority that runs kernels of the driver's own, which are taken to fit in the
  /// most that is left free.
  void seeOfDriver() { raise(most); }
  /// Something of which nothing is known: it may not even fit there.
  void seeUnknown() {
    if (!unknown.exchange(true))
      changes.fetch_add(1, std::memory_order_release);
  }
  /// Whether there were launches, and it is known what each of them takes.
  bool knowsAll() const { return seen && !unknown; }

  /// What is asked about once and seen often: a graph.
  struct Asked {
    Footprint need;    ///< of the largest of each resource
    bool fits = true;  ///< as see() says
    bool known = true; ///< of all of it
    /// Others that come one after the other; `beside`: at a time.
    void add(const Asked &other, bool beside);
  };
  Asked ask(const FunctionAttributes &function, const LaunchShape &shape, bool together) const;
  Asked ofDriver() const { return {most, true, true}; }
  /// Returns whether it fits, as far as that is known.
  bool see(const Asked &asked);

private:
  void raise(const Footprint &need);

  DeviceInfo device;
  Footprint most;
  std::array<std::atomic<std::uint32_t>, 4> needs{}; // of Footprint's fields
  std::atomic<std::uint32_t> streams{0};
  std::atomic<bool> seen{false}, unknown{false};
  std::atomic<std::uint64_t> changes{1};
};

} // namespace tally::runtime

#endif
