// Records a lane's work in a trace and as ranges of a profiler.
#ifndef TALLY_LIB_RUNTIME_LANE_LANE_TRACE_H
#define TALLY_LIB_RUNTIME_LANE_LANE_TRACE_H

#include "base/ranges.h"
#include "lane/batch.h"
#include "lane/returned_states.h"

#include <optional>

namespace tally::runtime {

/// For the dispatcher's thread.
class LaneTrace {
public:
  LaneTrace(const LaneOptions &options, const Pipeline &pipeline, const ReturnedStates &states)
      : options(options), pipeline(pipeline), states(states) {}

  /// Tells whether work is held back now (`waits`), or work went out.
  void wait(bool waits);
  /// Begins the range of a batch that goes out.
  void beginRange(Batch &batch) const;
  /// Ends the range of a batch that is over or forgotten.
  void endRange(const Batch &batch) const {
    if (hasRanges)
      runtime::endRange(batch.range);
  }
  /// Call this after the batch has come back and before LaneResume::take().
  void batch(const Batch &batch, Nanoseconds lastCollected) const;

private:
  TraceEvent eventOf(const BatchItem &item) const;

  const LaneOptions &options;
  const Pipeline &pipeline;
  const ReturnedStates &states;
  const bool hasRanges = rangesAreOn();
  std::optional<Nanoseconds> waitsSince;
};

} // namespace tally::runtime

#endif
