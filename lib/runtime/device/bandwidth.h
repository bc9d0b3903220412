// Memory bandwidth of a GPU, computed from its driver's attributes.
#ifndef TALLY_LIB_RUNTIME_DEVICE_BANDWIDTH_H
#define TALLY_LIB_RUNTIME_DEVICE_BANDWIDTH_H

#include <cstdint>

namespace tally::runtime {

/// Bytes per nanosecond: three quarters, as reached in practice, of two transfers per cycle. 0
/// where the driver does not tell.
constexpr std::uint32_t bandwidthOf(int memoryKilohertz, int busBits) {
  if (memoryKilohertz <= 0 || busBits <= 0)
    return 0;
  std::uint64_t bytesPerMillisecond = std::uint64_t{2} *
                                      static_cast<std::uint64_t>(memoryKilohertz) *
                                      static_cast<std::uint64_t>(busBits) / 8;
  return static_cast<std::uint32_t>(bytesPerMillisecond * 3 / 4 / 1000000);
}

} // namespace tally::runtime

#endif
