// The memory into which blocks of checkpoint variants save themselves.
#ifndef TALLY_LIB_RUNTIME_RESOURCES_SAVE_AREA_H
#define TALLY_LIB_RUNTIME_RESOURCES_SAVE_AREA_H

#include "resources/physical_streams.h"

#include <cstdint>

namespace tally::runtime {

/// For the dispatcher's thread.
class SaveArea {
public:
  /// Most blocks in the area: 64 for each SM of the largest devices.
  static constexpr std::uint32_t maxSavedBlocks = 16384;

  SaveArea(LaneResources &own, PhysicalStreams &streams) : own(own), streams(streams) {}

  /// Allocates the first area, before there are requests. It is as large as the registers and
  /// shared memory of all SMs, which is enough except for kernels with much local memory. If the
  /// allocation fails, the first launch that needs an area tries again.
  void takeFirst(const DeviceInfo &has);
  /// Allocates a larger area of at least `least` bytes, while no launch uses the present one.
  /// Returns false on failure; then no launch that needs as much gets kind checkpoint any more.
  bool allocate(std::uint64_t least, bool hasLaunched, bool isHeld);

  DevicePtr address() const { return area; }
  std::uint64_t size() const { return bytes; }
  /// The most bytes that a launch may need.
  std::uint64_t limit() const { return maxBytes; }

private:
  bool take(std::uint64_t wanted, bool hasLaunched, bool isHeld);

  LaneResources &own;
  PhysicalStreams &streams;
  DevicePtr area = 0;
  std::uint64_t bytes = 0;
  /// Registers and shared memory of a whole device are below 128 MiB, and a launch has at most as
  /// many workers as run at a time.
  std::uint64_t maxBytes = std::uint64_t{256} << 20;
};

} // namespace tally::runtime

#endif
