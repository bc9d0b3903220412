// Streams of a lane whose kernels run on a part of the SMs, in several sizes.
#ifndef TALLY_LIB_RUNTIME_RESOURCES_CONFINED_STREAMS_H
#define TALLY_LIB_RUNTIME_RESOURCES_CONFINED_STREAMS_H

#include "resources/lane_resources.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace tally::runtime {

/// Numbers of SMs that streams are confined to, ascending, all below the device's. Empty: no stream
/// is confined.
using ConfinedSizes = std::vector<std::uint32_t>;

/// Whether the device can make a stream that is confined to `sms` SMs: makes one and destroys it.
/// Fails with the device's reason.
Result<void> tryConfined(StreamDevice &device, std::uint32_t sms);

/// The sizes for a device: multiples of 8 up to half of its SMs, and of 32 more above, as a GPU of
/// compute capability 9.0 divides its SMs by eights. Tries to create a stream of the smallest size;
/// where the device cannot, fails with the device's reason.
Result<ConfinedSizes> confinedSizesOf(StreamDevice &device);

/// Returns how many SMs best-effort work gets if a policy gives it `sms` of the device's `all`: the
/// largest of `sizes` that is at most `sms`; `sms` itself if there is none, or if `sms` is at least
/// `all`.
std::uint32_t grantedSms(std::span<const std::uint32_t> sizes, std::uint32_t sms,
                         std::uint32_t all);

/// For the dispatcher's thread.
class ConfinedStreams {
public:
  /// Creates a stream of each size.
  Result<void> open(LaneResources &own, std::span<const std::uint32_t> sizes);
  /// Destroys the streams, whose work must be over.
  void close(LaneResources &own);
  bool empty() const { return streams.empty(); }
  /// The stream that is confined to exactly `sms` SMs, if there is one.
  std::optional<StreamId> of(std::uint32_t sms) const {
    auto found = streams.find(sms);
    return found == streams.end() ? std::nullopt : std::optional(found->second);
  }

private:
  std::map<std::uint32_t, StreamId> streams;
};

} // namespace tally::runtime

#endif
