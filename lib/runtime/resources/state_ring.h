// The states that a lane's launches leave in device memory, and the host's copies of them.
#ifndef TALLY_LIB_RUNTIME_RESOURCES_STATE_RING_H
#define TALLY_LIB_RUNTIME_RESOURCES_STATE_RING_H

#include "resources/physical_streams.h"

#include "tally/runtime/variant_launch.h"

#include <array>
#include <cstddef>
#include <span>

namespace tally::runtime {

/// A ring of cleared states that is cleared half by half, plus separate states for launches resumed
/// while the lane's stream waits, since the stream may wait for a state of the ring. For the
/// dispatcher's thread.
class StateRing {
public:
  static constexpr std::size_t maxItems = 32;  ///< most states of one batch
  static constexpr std::size_t maxBatches = 3; ///< under way, besides a resumed one

  StateRing(StreamDevice &device, LaneResources &own, PhysicalStreams &streams)
      : device(device), own(own), streams(streams) {}

  /// `halfRing`: states in one half.
  Result<void> open(std::size_t halfRing);
  /// Claims `count` consecutive cleared states and returns the number of the first. A half of the
  /// ring is cleared on the stream `on` when it is entered.
  Result<std::size_t> claim(std::size_t count, StreamId on, bool isHeld);
  /// Call this after claim(): `used` of the states from `first` on were used.
  void advance(std::size_t first, std::size_t used, bool isHeld) {
    if (!isHeld)
      next = (first + used) % (2 * half);
  }
  DevicePtr address(std::size_t number) const {
    return states + number * sizeof(tally_launch_state);
  }
  /// The host's copies of the states of the batch with that slot.
  std::span<tally_launch_state> mirror(std::size_t slot) const { return mirrors[slot]; }

private:
  StreamDevice &device;
  LaneResources &own;
  PhysicalStreams &streams;
  DevicePtr states = 0;
  std::size_t half = 0, next = 0;
  int freshHalves = 2; // halves that are still clear from open()
  std::array<std::span<tally_launch_state>, maxBatches + 1> mirrors;
};

} // namespace tally::runtime

#endif
