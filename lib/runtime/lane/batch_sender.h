// Sends a batch of a lane under one epoch.
#ifndef TALLY_LIB_RUNTIME_LANE_BATCH_SENDER_H
#define TALLY_LIB_RUNTIME_LANE_BATCH_SENDER_H

#include "lane/batch_planner.h"
#include "lane/lane_core.h"
#include "lane/stream_waits.h"

#include <cstddef>
#include <vector>

namespace tally::runtime {

/// For the dispatcher's thread.
class BatchSender {
public:
  BatchSender(LaneCore &core, BatchPlanner &planner, StreamWaits &waits)
      : core(core), pipeline(core.pipeline), streams(core.streams), planner(planner), waits(waits) {
  }

  /// Issues the batch's items while the gate stays open under its epoch. Removes the items that did
  /// not go out; a batch of which nothing went out has no marker. An error fails the whole lane,
  /// not one operation.
  Result<void> send(Batch &batch, const Gate &gate);
  /// Sends the marker of a batch; send() leaves that to the caller for a call that ends later.
  Result<void> sendMarker(Batch &batch);
  /// Whether the device cannot wait for the operation's stream at the moment (Device::isHeldUp()).
  bool isHeldUp(const Operation &operation) const;

private:
  /// `home`: the main stream, or a stream of the application, which then gets its own operations.
  Result<void> sendOn(StreamId home, Batch &batch, const Gate &gate);
  Result<void> sendItem(StreamId home, Batch &batch, std::size_t index);
  /// The lane's stream for the batch.
  StreamId own(const Batch &batch) const {
    return streams.confined(batch.sms).value_or(streams.home(pipeline.isHeld()));
  }
  Result<void> putMarker(Batch &batch, const MappedMemory &word, StreamId on);
  Result<void> setState(DevicePtr address, const tally_launch_state &state);
  Result<void> sendBehind(Batch &batch, std::size_t index);
  Result<void> sendLaunch(Batch &batch, std::size_t index);

  LaneCore &core;
  Pipeline &pipeline;
  PhysicalStreams &streams;
  BatchPlanner &planner;
  StreamWaits &waits;
  std::vector<std::byte> parameterBuffer;
};

} // namespace tally::runtime

#endif
