#include "resources/confined_streams.h"

#include <algorithm>

namespace tally::runtime {

Result<ConfinedSizes> confinedSizesOf(StreamDevice &device) {
  constexpr std::uint32_t granule = 8;
  std::uint32_t all = device.info().smCount;
  ConfinedSizes sizes;
  for (std::uint32_t size = granule; size < all; size += 2 * size < all ? granule : 4 * granule)
    sizes.push_back(size);
  if (sizes.empty())
    return sizes;
  Result<StreamId> tried = device.createConfinedStream(sizes.front());
  if (!tried)
    return tried.error();
  if (Result<void> ended = device.destroyStream(*tried); !ended)
    return ended.error();
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
