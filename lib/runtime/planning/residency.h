// What blocks take of an SM, and how many of those that may pause one holds, so that others fit
// beside them.
#ifndef TALLY_LIB_RUNTIME_PLANNING_RESIDENCY_H
#define TALLY_LIB_RUNTIME_PLANNING_RESIDENCY_H

#include "tally/runtime/device.h"

#include <cstdint>

namespace tally::runtime {

/// What blocks take of an SM, or what is left of one.
struct Footprint {
  std::uint32_t threads = 0, registers = 0, sharedBytes = 0;
  std::uint32_t blocks = 0; ///< places for them

  /// Whether that is enough for what takes `other`.
  bool holds(const Footprint &other) const {
    return threads >= other.threads && registers >= other.registers &&
           sharedBytes >= other.sharedBytes && blocks >= other.blocks;
  }
  friend bool operator==(const Footprint &, const Footprint &) = default;
};

/// Of `count` blocks of this shape: warps as they lie on the SM's four parts, registers and shared
/// memory in the pieces that they are given out in.
Footprint footprintOf(const FunctionAttributes &function, const LaunchShape &shape,
                      std::uint32_t count = 1);

/// What an SM has; nothing where the device does not say.
Footprint wholeSm(const DeviceInfo &device);

/// What is left of an SM where `percent` of each resource is to be free.
Footprint reserveOf(const DeviceInfo &device, std::uint32_t percent);

/// What a launch takes of an SM: where each has its part of the grid, or as many blocks as it
/// holds.
Footprint needOf(const DeviceInfo &device, const FunctionAttributes &function,
                 const LaunchShape &shape);

/// The most blocks of this shape that leave `room` free on an SM, of `resident`, which fit one. 0
/// where the device does not say what an SM has.
std::uint32_t besideHeadroom(const DeviceInfo &device, const FunctionAttributes &function,
                             const LaunchShape &shape, std::uint32_t resident,
                             const Footprint &headroom);

/// The bytes of dynamic shared memory to add to the shape's so that an SM, which has places for
/// `most` of its blocks, holds `count` and not one more, with `room` free beside them; 0 where
/// there is no such size, or none is needed for that. Nor where the SM's shared memory would grow
/// much: that is taken from the L1.
std::uint32_t paddingFor(const DeviceInfo &device, const FunctionAttributes &function,
                         const LaunchShape &shape, std::uint32_t count, std::uint32_t most,
                         const Footprint &headroom);

/// What so many blocks leave of an SM that they fit.
Footprint leftBy(const DeviceInfo &device, const Footprint &taken);

} // namespace tally::runtime

#endif
