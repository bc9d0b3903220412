// What a lane learns from the times that its batches take.
#ifndef TALLY_LIB_RUNTIME_LANE_LANE_TIMES_H
#define TALLY_LIB_RUNTIME_LANE_LANE_TIMES_H

#include "lane/batch.h"
#include "lane/returned_states.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tally::runtime {

/// How long what was sent took, the newest counting most. Not thread-safe.
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

  /// Of a batch that has come back, before it is taken. `lanes`: that had the device between them.
  void see(const Batch &batch, std::size_t lanes);
  /// Whether the batch's time says what its kernels take when nothing else runs. While its
  /// operations are there.
  static bool isMeasurable(const Batch &batch);
  /// Of a measurable one, behind that.
  void learnDurations(const Batch &batch);
  /// It was taken. `hasMore`: there is something to send.
  void taken(const Batch &batch, bool hasMore);

  /// When the last batch was seen to be back.
  Nanoseconds lastCollected() const { return collectedAt; }
  /// Since when the device could have worked on a batch that goes out now.
  Nanoseconds waitedFrom(const Batch &batch) const;
  /// The part of the batch's time that was the host's: of one that the device was idle for.
  Nanoseconds launchTurn(const Batch &batch) const;

  /// For how long work has been on the device, and that of a client's.
  Nanoseconds ran() const { return ranInAll; }
  Nanoseconds ranOf(std::uint32_t client, std::uint32_t generation) const {
    bool isKnown = client < ranByClient.size() && ranByClient[client].generation == generation;
    return isKnown ? ranByClient[client].ran : Nanoseconds(0);
  }
  /// Lately: how long launches and the like were on the device, and how many they were.
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
    std::uint32_t generation = 0; // whose number it is
    Nanoseconds ran{0};
  };
  std::vector<RanOfClient> ranByClient;
  Nanoseconds collectedAt{0};
  Nanoseconds shortest = anyDuration; // that a batch took on an idle device, as the host saw it
  std::uint64_t lastEpoch = 0;        // of the batch that was collected then
  bool hadMore = false;               // then: there was something to send
};

} // namespace tally::runtime

#endif
