// Takes back a batch: finds which launches are done, and which yielded and must be resumed.
#ifndef TALLY_LIB_RUNTIME_LANE_LANE_RESUME_H
#define TALLY_LIB_RUNTIME_LANE_LANE_RESUME_H

#include "lane/lane_core.h"

#include <cstdint>

namespace tally::runtime {

/// For the dispatcher's thread. An error fails the whole lane.
class LaneResume {
public:
  explicit LaneResume(LaneCore &core) : core(core), pipeline(core.pipeline) {}

  /// Call this after a request came: copies the states of the batches under way to the host.
  Result<void> readStates();
  /// Finishes the operations of a returned batch that are done.
  Result<void> take(const Batch &batch);
  /// Finishes the next operations of failed streams, which need no permit.
  void dropFailed();

private:
  Result<void> absorb(const BatchItem &item, const tally_launch_state &state, std::uint64_t epoch);
  void finishFront(const BatchItem &item);
  void finishFront(const Operation &operation);

  LaneCore &core;
  Pipeline &pipeline;
};

} // namespace tally::runtime

#endif
