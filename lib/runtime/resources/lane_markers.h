// The words of mapped memory in which a lane's streams say how far they have come.
#ifndef TALLY_LIB_RUNTIME_RESOURCES_LANE_MARKERS_H
#define TALLY_LIB_RUNTIME_RESOURCES_LANE_MARKERS_H

#include "tally/runtime/device.h"

#include <atomic>
#include <cstdint>

namespace tally::runtime {

/// Of a word that the device writes; or the host, where no stream does.
inline std::atomic_ref<std::uint64_t> wordOf(const MappedMemory &memory) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t *>(memory.host));
}

inline std::uint64_t loadMarker(const MappedMemory &word) {
  return wordOf(word).load(std::memory_order_acquire);
}

/// For the dispatcher's thread.
struct LaneMarkers {
  // Each of the first three is written by one stream.
  MappedMemory main;    ///< by that of the work
  MappedMemory beside;  ///< by that for markers
  MappedMemory resumed; ///< by that for what is resumed
  MappedMemory begin;   ///< of a timed launch that waited for an application's stream
  std::uint64_t last = 0;

  Result<void> open(StreamDevice &device) {
    for (MappedMemory *each : {&main, &beside, &resumed, &begin}) {
      Result<MappedMemory> word = device.allocateMapped(sizeof(std::uint64_t));
      if (!word)
        return word.error();
      *each = *word;
    }
    return {};
  }
};

} // namespace tally::runtime

#endif
