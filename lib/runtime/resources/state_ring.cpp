#include "resources/state_ring.h"

#include <cassert>

namespace tally::runtime {

Result<void> StateRing::open(std::size_t halfRing) {
  assert(halfRing >= (maxBatches - 1) * maxItems);
  half = halfRing;
  Result<DevicePtr> ring = own.allocate((2 * half + maxItems) * sizeof(tally_launch_state));
  if (!ring)
    return ring.error();
  states = *ring;
  if (Result<void> cleared =
          streams.clear(states, 2 * half * sizeof(tally_launch_state), false, false);
      !cleared)
    return cleared;
  constexpr std::size_t mirrorBytes = maxItems * sizeof(tally_launch_state);
  Result<MappedMemory> mapped = device.allocateMapped(mirrors.size() * mirrorBytes);
  if (!mapped)
    return mapped.error();
  for (std::size_t i = 0; i < mirrors.size(); ++i)
    mirrors[i] = {reinterpret_cast<tally_launch_state *>(mapped->host + i * mirrorBytes), maxItems};
  return {};
}

Result<std::size_t> StateRing::claim(std::size_t count, StreamId on, bool isHeld) {
  if (isHeld) {
    std::size_t apart = 2 * half;
    if (Result<void> cleared = device.fill(streams.current(), address(apart), std::byte{0},
                                           maxItems * sizeof(tally_launch_state));
        !cleared)
      return cleared.error();
    return apart;
  }
  std::size_t number = next / half;
  bool entered = next % half == 0;
  if (next % half + count > half) {
    number = 1 - number;
    entered = true;
  }
  std::size_t first = entered ? number * half : next;
  if (!entered)
    return first;
  if (freshHalves > 0) {
    --freshHalves;
    return first;
  }
  if (Result<void> behind = streams.continueOn(on); !behind)
    return behind.error();
  if (Result<void> cleared =
          device.fill(on, address(first), std::byte{0}, half * sizeof(tally_launch_state));
      !cleared)
    return cleared.error();
  return first;
}

} // namespace tally::runtime
