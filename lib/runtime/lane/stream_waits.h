// Stream waits: a batch whose stream waits until an earlier launch is done, and the steps that
// follow if the launch has yielded.
//
// Work that cannot be revoked (a copy, a kernel without a variant, an event) comes after a wait of
// the stream for the state of the newest earlier launch that can yield. If a launch before that one
// has yielded, that launch ran nothing. The stream reaches the wait when the launch has ended, so
// all its stores are made. If it has yielded, the launches up to the wait are resumed on another
// stream. When the host has seen their end, it has "done" written into the state, and the stream
// goes on. Launches after the wait that can yield have an older epoch by then, run nothing, and are
// sent again.
#ifndef TALLY_LIB_RUNTIME_LANE_STREAM_WAITS_H
#define TALLY_LIB_RUNTIME_LANE_STREAM_WAITS_H

#include "lane/lane_core.h"

#include <optional>
#include <span>

namespace tally::runtime {

/// For the dispatcher's thread.
class StreamWaits {
public:
  explicit StreamWaits(LaneCore &core) : core(core), pipeline(core.pipeline) {}

  /// Whether an operation that cannot yield may be sent after the batches under way.
  bool mayComeBehind(const Operation &operation) const;
  /// Makes a batch that begins with work that cannot yield wait for the newest launch that can.
  void putBehind(Batch &batch) const;
  /// Puts the batch's wait on the stream.
  Result<void> send(const Batch &batch);
  /// Call this when all yielded launches are back. Holds the batches still under way: they wait for
  /// the yielded launches, and will still write their lists.
  void hold();
  /// Call this when the launches are done that the held batches wait for: lets the stream go on.
  Result<void> letGo();
  /// Gives all batches up. A stream that waits for a launch then goes on when the earlier batches
  /// have ended on the device; the lane resumes no launch.
  void letAllGo();
  /// Names the launch that the stream waits for in a warning, if there has been no progress for
  /// long although work may go. Returns whether it warned.
  bool warn(const Gate &gate, Nanoseconds stillSince) const;
  /// Lane::tryWaits().
  static void tryOut(std::span<LaneCore *const> lanes);

private:
  Result<void> sayDone(const Batch &batch);

  LaneCore &core;
  Pipeline &pipeline;
};

} // namespace tally::runtime

#endif
