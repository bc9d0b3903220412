// The resources that blocks take of an SM, and how many blocks that may pause an SM can hold so
// that other work fits beside them.
#ifndef TALLY_LIB_RUNTIME_PLANNING_RESIDENCY_H
#define TALLY_LIB_RUNTIME_PLANNING_RESIDENCY_H

#include "tally/runtime/device.h"

#include <cstdint>

namespace tally::runtime {

/// Resources that blocks take of an SM, or that are left of it.
struct Footprint {
  std::uint32_t threads = 0, registers = 0, sharedBytes = 0;
  std::uint32_t blocks = 0; ///< places for blocks

  /// Whether these resources are enough for work that takes `other`.
  bool holds(const Footprint &other) const {
    return threads >= other.threads && registers >= other.registers &&
           sharedBytes >= other.sharedBytes && blocks >= other.blocks;
  }
  friend bool operator==(const Footprint &, const Footprint &) = default;
};

/// Footprint of `count` blocks of this shape: warps as they lie on the SM's four parts, registers
/// and shared memory rounded to the units of allocation.
Footprint footprintOf(const FunctionAttributes &function, const LaunchShape &shape,
                      std::uint32_t count = 1);

/// The resources of an SM; zeros where the device does not tell.
Footprint wholeSm(const DeviceInfo &device);

/// `percent` of each resource of an SM: the largest headroom.
Footprint reserveOf(const DeviceInfo &device, std::uint32_t percent);

/// Resources that a launch takes of an SM if each SM has its part of the grid, or as many blocks as
/// it holds.
Footprint needOf(const DeviceInfo &device, const FunctionAttributes &function,
                 const LaunchShape &shape);

/// The most blocks of this shape that leave `headroom` free on an SM that can hold `resident`. 0
/// where the device does not tell the resources of an SM.
std::uint32_t besideHeadroom(const DeviceInfo &device, const FunctionAttributes &function,
                             const LaunchShape &shape, std::uint32_t resident,
                             const Footprint &headroom);

/// Bytes of dynamic shared memory to add to the shape so that an SM that has places for `most` of
/// its blocks holds exactly `count`, with `headroom` free beside them. 0 where no such size exists
/// or no padding is needed. 0 also where the SM's shared memory would grow much: the L1 loses that
/// memory.
std::uint32_t paddingFor(const DeviceInfo &device, const FunctionAttributes &function,
                         const LaunchShape &shape, std::uint32_t count, std::uint32_t most,
                         const Footprint &headroom);

/// The resources of an SM that are free when `taken` is in use.
Footprint leftBy(const DeviceInfo &device, const Footprint &taken);

} // namespace tally::runtime

#endif
