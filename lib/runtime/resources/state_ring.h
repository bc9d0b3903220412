// The states that launches of a lane leave in the device's memory, and the host's copies of them.
#ifndef TALLY_LIB_RUNTIME_RESOURCES_STATE_RING_H
#define TALLY_LIB_RUNTIME_RESOURCES_STATE_RING_H

#include "resources/physical_streams.h"

#include "tally/runtime/variant_launch.h"

#include <array>
#include <cstddef>
#include <span>

namespace tally::runtime {

/// A ring of cleared states that is cleared half by half, and some apart for what is resumed while
/// the lane's stream waits: the ring's may be waited for. For the dispatcher's thread.
class StateRing {
public:
  static constexpr std::size_t maxItems = 32;  ///< states that one batch takes at most
  static constexpr std::size_t maxBatches = 3; ///< that may be under way; and one that is resumed

  StateRing(StreamDevice &device, LaneResources &own, PhysicalStreams &streams)
      : device(device), own(own), streams(streams) {}

  /// `halfRing`: states in one half.
  Result<void> open(std::size_t halfRing);
  /// So many consecutive cleared states; the number of the first. A half of the ring is cleared
  /// when it is entered, in the order of the stream.
  Result<std::size_t> claim(std::size_t count, bool isHeld);
  /// So many of those claimed last were used.
  void advance(std::size_t first, std::size_t used, bool isHeld) {
    if (!isHeld)
      next = (first + used) % (2 * half);
  }
  DevicePtr address(std::size_t number) const {
    return states + number * sizeof(tally_launch_state);
  }
  /// The host's copies, of the batch with that slot.
  std::span<tally_launch_state> mirror(std::size_t slot) const { return mirrors[slot]; }

private:
  StreamDevice &device;
  LaneResources &own;
  PhysicalStreams &streams;
  DevicePtr states = 0;
  std::size_t half = 0, next = 0;
  int freshHalves = 2; // which are clear as they are entered
  std::array<std::span<tally_launch_state>, maxBatches + 1> mirrors;
};

} // namespace tally::runtime

#endif
