// The memory into which blocks of checkpoint variants save themselves.
#ifndef TALLY_LIB_RUNTIME_RESOURCES_SAVE_AREA_H
#define TALLY_LIB_RUNTIME_RESOURCES_SAVE_AREA_H

#include "resources/physical_streams.h"

#include <cstdint>

namespace tally::runtime {

/// For the dispatcher's thread.
class SaveArea {
public:
  /// Blocks that may stand in it: 64 an SM of as many as there are.
  static constexpr std::uint32_t maxSavedBlocks = 16384;

  SaveArea(LaneResources &own, PhysicalStreams &streams) : own(own), streams(streams) {}

  /// Before there are requests. What all SMs hold is enough but for kernels with much local memory;
  /// where it cannot be had now the first launch that needs an area asks again.
  void takeFirst(const DeviceInfo &has);
  /// A larger one, while nothing uses the one there is. Where none can be had, no launch that needs
  /// as much gets the kind any more.
  bool allocate(std::uint64_t least, bool hasLaunched, bool isHeld);

  DevicePtr address() const { return area; }
  std::uint64_t size() const { return bytes; }
  /// What a launch may need at most.
  std::uint64_t limit() const { return maxBytes; }

private:
  bool take(std::uint64_t wanted, bool hasLaunched, bool isHeld);

  LaneResources &own;
  PhysicalStreams &streams;
  DevicePtr area = 0;
  std::uint64_t bytes = 0;
  /// Registers and shared memory of a whole device are below 128 MiB; a lane's launches have as
  /// many blocks as run at a time.
  std::uint64_t maxBytes = std::uint64_t{256} << 20;
};

} // namespace tally::runtime

#endif
