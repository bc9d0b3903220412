// Measures turnarounds: from a request to yield until all work that had to yield is gone.
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
  /// The arguments must outlive this object.
  Turnarounds(const DeviceControl &control, const DispatcherOptions &options,
              const LaneTable &lanes)
      : control(control), options(options), lanes(lanes) {}

  /// Returns the turnaround that has just ended, if one has. The dispatcher's thread calls this
  /// after each pass over the lanes; `oldestBefore`: the oldest epoch under way before the pass.
  std::optional<Nanoseconds> measure(std::optional<std::uint64_t> oldestBefore);
  /// The newest turnarounds in nanoseconds, oldest first. Thread-safe.
  std::vector<std::uint64_t> all() const;

private:
  const DeviceControl &control;
  const DispatcherOptions &options;
  const LaneTable &lanes;
  std::optional<DeviceControl::Request> request; // to which work still yields
  mutable std::mutex mutex;
  std::vector<std::uint64_t> kept; // a ring once it is full
  std::size_t next = 0;
};

} // namespace tally::runtime

#endif
