// Learns durations of launches and blocks from the times that a lane's batches take.
#ifndef TALLY_LIB_RUNTIME_LANE_LANE_TIMES_H
#define TALLY_LIB_RUNTIME_LANE_LANE_TIMES_H

#include "lane/batch.h"
#include "lane/returned_states.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tally::runtime {

/// Time and number of launches sent lately, with the newest weighing most. Not thread-safe.
struct LaunchPace {
  Nanoseconds ran{0};
  std::uint64_t launches = 0;

  void add(Nanoseconds took, std::uint64_t count) {
    constexpr Nanoseconds memory{10'000'000};
    ran += took;
    launches += count;
    if (ran > memory) {
      ran /= 2;
      launches = (launches + 1) / 2;
    }
  }
};

/// For the dispatcher's thread.
class LaneTimes {
public:
  LaneTimes(const LaneOptions &options, const DeviceInfo &device, const Pipeline &pipeline,
            const ReturnedStates &states)
      : options(options), device(device), pipeline(pipeline), states(states) {}

  /// Call this after the batch has come back and before LaneResume::take(). `lanes`: number of
  /// lanes that shared the device.
  void see(const Batch &batch, std::size_t lanes);
  /// Whether the batch's time tells how long its kernels take when nothing else runs.
  static bool isMeasurable(const Batch &batch);
  /// Learns the durations of a measurable batch; its operations may be gone.
  void learnDurations(const Batch &batch);
  /// Call this after the batch was taken. `hasMore`: the lane has more to send.
  void taken(const Batch &batch, bool hasMore);

  /// Time at which the host saw the last batch completed.
  Nanoseconds lastCollected() const { return collectedAt; }
  /// Time from which the device could have worked on a batch that goes out now.
  Nanoseconds waitedFrom(const Batch &batch) const;
  /// The host's part of the batch's time, if the device was idle before the batch; else zero.
  Nanoseconds launchTurn(const Batch &batch) const;

  /// Time that the lane's work has been on the device: in all, and of one client.
  Nanoseconds ran() const { return ranInAll; }
  Nanoseconds ranOf(std::uint32_t client, std::uint32_t generation) const {
    bool isKnown = client < ranByClient.size() && ranByClient[client].generation == generation;
    return isKnown ? ranByClient[client].ran : Nanoseconds(0);
  }
  /// Time on the device and number of items lately.
  const LaunchPace &pace() const { return lately; }

private:
  void account(const Batch &batch, std::size_t lanes);
  void measureBlocks(const Batch &batch, std::size_t lanes) const;
  static void noteBlocks(const Operation &operation, std::uint64_t left, std::size_t lanes);
  void noteLong(const Batch &batch, std::size_t lanes) const;
  void noteLate(const Batch &batch) const;
  const BatchItem *lastToRun(const Batch &batch) const;

  const LaneOptions &options;
  const DeviceInfo &device;
  const Pipeline &pipeline;
  const ReturnedStates &states;
  Nanoseconds ranInAll{0};
  LaunchPace lately;
  struct RanOfClient {
    std::uint32_t generation = 0; // generation of the client with the number
    Nanoseconds ran{0};
  };
  std::vector<RanOfClient> ranByClient;
  Nanoseconds collectedAt{0};
  // Shortest time of a batch on an idle device, as the host saw it.
  Nanoseconds shortest = anyDuration;
  std::uint64_t lastEpoch = 0; // epoch of the batch collected last
  bool hadMore = false;        // whether the lane had more to send then
};

} // namespace tally::runtime

#endif
