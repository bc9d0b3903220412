// Memory bandwidth of a GPU, computed from its driver's attributes.
#ifndef TALLY_LIB_RUNTIME_DEVICE_BANDWIDTH_H
#define TALLY_LIB_RUNTIME_DEVICE_BANDWIDTH_H

#include <cstdint>

namespace tally::runtime {

/// Bytes a nanosecond: two transfers a cycle, of which three quarters are reached in practice. 0
/// where the driver does not say.
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
