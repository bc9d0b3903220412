// What a lane has of the device: streams and memory, counted.
#ifndef TALLY_LIB_RUNTIME_RESOURCES_LANE_RESOURCES_H
#define TALLY_LIB_RUNTIME_RESOURCES_LANE_RESOURCES_H

#include "tally/runtime/device.h"

#include <atomic>
#include <cstdint>
#include <vector>

namespace tally::runtime {

/// For one thread, but for the counts, which any may read.
class LaneResources {
public:
  explicit LaneResources(StreamDevice &device) : device(device) {}
  LaneResources(const LaneResources &) = delete;
  LaneResources &operator=(const LaneResources &) = delete;

  /// Stays until freeMemory(): to free some earlier would wait for the device.
  Result<DevicePtr> allocate(std::uint64_t bytes) {
    Result<DevicePtr> made = device.allocate(bytes);
    if (made) {
      memory.push_back(*made);
      byteCount.fetch_add(bytes);
    }
    return made;
  }
  /// Nothing uses it any more.
  void freeMemory() {
    for (DevicePtr each : memory)
      static_cast<void>(device.free(each));
    memory.clear();
    byteCount.store(0);
  }

  Result<StreamId> createStream() { return counted(device.createStream(StreamPriority::Low)); }
  Result<StreamId> createConfinedStream(std::uint32_t sms) {
    return counted(device.createConfinedStream(sms));
  }
  /// Waits for what is there.
  void endStream(StreamId stream) {
    // Errors here would be repeats of what the lane's own calls have reported.
    static_cast<void>(device.synchronize(stream));
    static_cast<void>(device.destroyStream(stream));
    streamCount.fetch_sub(1);
  }

  std::uint64_t streams() const { return streamCount.load(); }
  std::uint64_t bytes() const { return byteCount.load(); }

private:
  Result<StreamId> counted(Result<StreamId> made) {
    streamCount.fetch_add(made ? 1 : 0);
    return made;
  }

  StreamDevice &device;
  std::vector<DevicePtr> memory;
  std::atomic<std::uint64_t> streamCount{0}, byteCount{0};
};

} // namespace tally::runtime

#endif
