// How long it takes from a request until nothing runs any more that was to yield.
#ifndef TALLY_LIB_RUNTIME_DISPATCH_TURNAROUNDS_H
#define TALLY_LIB_RUNTIME_DISPATCH_TURNAROUNDS_H

#include "dispatch/dispatcher_options.h"
#include "dispatch/lane_table.h"
#include "requests/device_control.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace tally::runtime {

class Turnarounds {
public:
  /// All outlive this.
  Turnarounds(const DeviceControl &control, const DispatcherOptions &options,
              const LaneTable &lanes)
      : control(control), options(options), lanes(lanes) {}

  /// For the dispatcher's thread, behind a pass over the lanes; `oldestBefore`: the oldest epoch
  /// under way before it. The turnaround that has just ended, if one has.
  std::optional<Nanoseconds> measure(std::optional<std::uint64_t> oldestBefore);
  /// The newest, the oldest of them first, nanoseconds. Thread-safe.
  std::vector<std::uint64_t> all() const;

private:
  const DeviceControl &control;
  const DispatcherOptions &options;
  const LaneTable &lanes;
  std::optional<std::uint64_t> yieldingEpoch; // what was under way when the request came
  Nanoseconds requestedAt{0};
  mutable std::mutex mutex;
  std::vector<std::uint64_t> kept; // a ring once it is full
  std::size_t next = 0;
};

} // namespace tally::runtime

#endif
