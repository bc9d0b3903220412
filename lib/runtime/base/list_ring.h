// Device memory for guards' lists: one allocation per launch, given back in the order of
// allocation, except for one list that may stay while the launch that reads it is resumed.
#ifndef TALLY_LIB_RUNTIME_BASE_LIST_RING_H
#define TALLY_LIB_RUNTIME_BASE_LIST_RING_H

#include "tally/runtime/device.h"

#include <cassert>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace tally::runtime {

/// Belongs to the dispatcher's thread.
class ListRing {
public:
  struct Region {
    std::uint64_t begin = 0, end = 0; ///< byte offsets; empty: no region
  };

  /// Size of a ring in which no region is larger than a third: then another region of the same size
  /// always fits beside one region, wherever it lies, so a launch can always be resumed.
  static std::uint64_t bytesFor(std::uint64_t largest) { return 3 * rounded(largest); }

  std::uint64_t size() const { return bytes; }
  bool empty() const { return regions.empty(); }
  DevicePtr address(const Region &region) const { return base + region.begin; }

  /// Switches to other memory; only while empty().
  void reset(DevicePtr memory, std::uint64_t memoryBytes) {
    assert(empty());
    base = memory;
    bytes = memoryBytes;
  }

  /// Allocates a region; nothing when there is no space now.
  std::optional<Region> allocate(std::uint64_t wanted) {
    wanted = rounded(wanted);
    if (wanted * 3 > bytes)
      return std::nullopt;
    std::uint64_t head = regions.empty() ? 0 : regions.back().end;
    std::uint64_t tail = regions.empty() ? 0 : regions.front().begin;
    std::uint64_t begin;
    if (regions.empty() || head > tail) {
      if (bytes - head >= wanted)
        begin = head;
      else if (tail > wanted) // not equal: a full ring would look like an empty one
        begin = 0;
      else
        return std::nullopt;
    } else if (tail - head > wanted) {
      begin = head;
    } else {
      return std::nullopt;
    }
    regions.push_back({begin, begin + wanted});
    return regions.back();
  }

  /// Gives the oldest region back.
  void releaseOldest(const Region &region) {
    assert(!regions.empty() && regions.front().begin == region.begin);
    static_cast<void>(region);
    regions.pop_front();
  }
  /// Gives back all regions but `kept`, which are in the order of allocation.
  void keepOnly(std::vector<Region> kept) { regions.assign(kept.begin(), kept.end()); }
  /// Takes the newest allocation back, unused.
  void undo() { regions.pop_back(); }

private:
  static std::uint64_t rounded(std::uint64_t size) { return (size + 255) / 256 * 256; }

  DevicePtr base = 0;
  std::uint64_t bytes = 0;
  std::deque<Region> regions;
};

} // namespace tally::runtime

#endif
