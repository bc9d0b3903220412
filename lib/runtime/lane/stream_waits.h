// Batches whose stream waits for a launch ahead of them to be done, and what becomes of them where
// it has yielded.
//
// What cannot be taken back (a copy, a kernel without a variant, an event) stands behind a wait of
// the stream's for the state of the newest launch ahead that can yield: where an earlier one has
// yielded, that one ran nothing. The stream comes to the wait when the launch has ended, so that
// all its stores are made. Where it has yielded, it and what comes behind it up to the wait are
// resumed on another stream; when the host has seen the end of all that, the state is written as a
// done one's, and the stream goes on. Launches behind the wait that can yield have an older epoch
// by then, run nothing, and are sent again.
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

  /// Whether what cannot yield may be sent behind what is under way.
  bool mayComeBehind(const Operation &operation) const;
  /// Of a batch that begins with what cannot yield: it stands behind the newest launch that can.
  void putBehind(Batch &batch) const;
  /// Has the stream wait for what the batch stands behind.
  Result<void> send(const Batch &batch);
  /// All that has yielded is back. What is still under way waits for it, and will write its lists.
  void hold();
  /// What the held batches wait for is done: lets the stream go on with them.
  Result<void> letGo();
  /// Nothing of it is wanted any more: no stream waits longer than for what runs ahead.
  void letAllGo();
  /// Says what the stream waits for where nothing has moved for long, though it might. Returns
  /// whether it did.
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
