// How many blocks that may pause an SM holds, so that others fit beside them.
#ifndef TALLY_LIB_RUNTIME_RESIDENCY_H
#define TALLY_LIB_RUNTIME_RESIDENCY_H

#include "tally/runtime/device.h"

#include <cstdint>

namespace tally::runtime {

/// What a block takes of an SM.
struct Footprint {
  std::uint32_t threads = 0, registers = 0, sharedBytes = 0;
};

/// Of a block of this shape; threads in whole warps, registers and shared memory in the pieces that
/// they are given out in.
Footprint footprintOf(const FunctionAttributes &function, const LaunchShape &shape);

/// The most blocks of `resident`, which fit one SM, that leave `reserve` percent of each resource
/// free. 0 where the device does not say what an SM has.
std::uint32_t besideReserve(const DeviceInfo &device, const Footprint &block,
                            std::uint32_t resident, std::uint32_t reserve);

/// Whether a block fits in `reserve` percent of an SM; of a device that says what one has.
bool fitsReserve(const DeviceInfo &device, const Footprint &block, std::uint32_t reserve);

} // namespace tally::runtime

#endif
