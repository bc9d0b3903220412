// Chooses the size of the save area, and when a lane takes a larger area.
#include "resources/save_area.h"

#include "tally/runtime/variant_launch.h"

#include <algorithm>

namespace tally::runtime {

bool SaveArea::allocate(std::uint64_t least, bool hasLaunched, bool isHeld) {
  if (take(std::max(least, std::min(2 * bytes, maxBytes)), hasLaunched, isHeld))
    return true;
  maxBytes = least - 1;
  return false;
}

bool SaveArea::take(std::uint64_t wanted, bool hasLaunched, bool isHeld) {
  constexpr std::uint64_t headers = saveHeaderBytes(maxSavedBlocks);
  Result<DevicePtr> made = own.allocate(headers + wanted);
  if (!made)
    return false;
  // The device has failed; the next launch call reports it. The planner still holds operations
  // here.
  if (!streams.clear(*made, headers, hasLaunched, isHeld))
    return false;
  area = *made + headers;
  bytes = wanted;
  return true;
}

/// Takes memory early: the driver may need a tenth of a second for it, and the process's launches
/// wait meanwhile.
void SaveArea::takeFirst(const DeviceInfo &has) {
  if (has.registersPerSm == 0)
    return;
  std::uint64_t perSm =
      std::uint64_t{has.registersPerSm} * sizeof(std::uint32_t) + has.sharedBytesPerSm;
  static_cast<void>(take(std::min(has.smCount * perSm, maxBytes), false, false));
}

} // namespace tally::runtime
