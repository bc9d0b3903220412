// What comes back of a batch: which of its launches are done, and which yielded and are resumed.
#ifndef TALLY_LIB_RUNTIME_LANE_LANE_RESUME_H
#define TALLY_LIB_RUNTIME_LANE_LANE_RESUME_H

#include "lane/lane_core.h"

#include <cstdint>

namespace tally::runtime {

/// For the dispatcher's thread. What fails is the lane's failure.
class LaneResume {
public:
  explicit LaneResume(LaneCore &core) : core(core), pipeline(core.pipeline) {}

  /// A request came: has the states of what is under way come back.
  Result<void> readStates();
  /// Counts out what of a batch that is back is done.
  Result<void> take(const Batch &batch);
  /// Operations of failed streams need no permit: they are only counted out.
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
