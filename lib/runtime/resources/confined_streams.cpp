#include "resources/confined_streams.h"

#include <algorithm>

namespace tally::runtime {

Result<void> tryConfined(StreamDevice &device, std::uint32_t sms) {
  Result<StreamId> tried = device.createConfinedStream(sms);
  return tried ? device.destroyStream(*tried) : tried.error();
}

Result<ConfinedSizes> confinedSizesOf(StreamDevice &device) {
  constexpr std::uint32_t granule = 8;
  std::uint32_t all = device.info().smCount;
  ConfinedSizes sizes;
  for (std::uint32_t size = granule; size < all; size += 2 * size < all ? granule : 4 * granule)
    sizes.push_back(size);
  if (sizes.empty())
    return sizes;
  if (Result<void> tried = tryConfined(device, sizes.front()); !tried)
    return tried.error();
  return sizes;
}

std::uint32_t grantedSms(std::span<const std::uint32_t> sizes, std::uint32_t sms,
                         std::uint32_t all) {
  if (sms >= all)
    return sms;
  auto above = std::ranges::upper_bound(sizes, sms);
  return above == sizes.begin() ? sms : *(above - 1);
}

Result<void> ConfinedStreams::open(LaneResources &own, std::span<const std::uint32_t> sizes) {
  for (std::uint32_t sms : sizes) {
    Result<StreamId> made = own.createConfinedStream(sms);
    if (!made)
      return made.error();
    streams.emplace(sms, *made);
  }
  return {};
}

void ConfinedStreams::close(LaneResources &own) {
  for (auto [sms, stream] : streams)
    own.endStream(stream);
  streams.clear();
}

} // namespace tally::runtime
