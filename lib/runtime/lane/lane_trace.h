// What a lane notes in a trace, and tells a profiler.
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
  LaneTrace(const LaneOptions &options, const Pipeline &pipeline)
      : options(options), pipeline(pipeline) {}

  /// Work is there, and may not go; or some went.
  void wait(bool waits);
  /// A batch goes out.
  void beginRange(Batch &batch) const;
  /// It is over, or forgotten.
  void endRange(const Batch &batch) const {
    if (hasRanges)
      runtime::endRange(batch.range);
  }
  /// Of a batch that has come back, before it is taken.
  void batch(const Batch &batch, Nanoseconds lastCollected, const ReturnedStates &states) const;

private:
  TraceEvent eventOf(const BatchItem &item) const;

  const LaneOptions &options;
  const Pipeline &pipeline;
  const bool hasRanges = rangesAreOn();
  std::optional<Nanoseconds> waitsSince;
};

} // namespace tally::runtime

#endif
