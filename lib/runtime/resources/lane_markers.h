// The words of mapped memory into which a lane's streams write their progress.
#ifndef TALLY_LIB_RUNTIME_RESOURCES_LANE_MARKERS_H
#define TALLY_LIB_RUNTIME_RESOURCES_LANE_MARKERS_H

#include "tally/runtime/device.h"

#include <atomic>
#include <cstdint>

namespace tally::runtime {

/// Atomic access to a word that the device writes, or the host while no stream writes it.
inline std::atomic_ref<std::uint64_t> wordOf(const MappedMemory &memory) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t *>(memory.host));
}

inline std::uint64_t loadMarker(const MappedMemory &word) {
  return wordOf(word).load(std::memory_order_acquire);
}

/// For the dispatcher's thread.
struct LaneMarkers {
  // Each of the first three words is written by one stream.
  MappedMemory main;    ///< written by the stream of the work
  MappedMemory beside;  ///< written by the stream for markers
  MappedMemory resumed; ///< written by the stream for resumed launches
  MappedMemory begin;   ///< begin of a timed launch that waited for an application's stream
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
