// The streams and the memory that a lane has on the device, counted.
#ifndef TALLY_LIB_RUNTIME_RESOURCES_LANE_RESOURCES_H
#define TALLY_LIB_RUNTIME_RESOURCES_LANE_RESOURCES_H

#include "tally/runtime/device.h"

#include <atomic>
#include <cstdint>
#include <vector>

namespace tally::runtime {

/// For one thread; any thread may read the counts.
class LaneResources {
public:
  explicit LaneResources(StreamDevice &device) : device(device) {}
  LaneResources(const LaneResources &) = delete;
  LaneResources &operator=(const LaneResources &) = delete;

  /// Allocates memory that stays until freeMemory(): freeing it earlier would wait for the device.
  Result<DevicePtr> allocate(std::uint64_t bytes) {
    Result<DevicePtr> made = device.allocate(bytes);
    if (made) {
      memory.push_back(*made);
      byteCount.fetch_add(bytes);
    }
    return made;
  }
  /// Frees all memory; no work may use it any more.
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
  /// Waits for the work on the stream, then destroys the stream.
  void endStream(StreamId stream) {
    // The lane's own calls have already reported an error of the device.
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
