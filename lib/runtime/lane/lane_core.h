// State that the parts of a lane share.
#ifndef TALLY_LIB_RUNTIME_LANE_LANE_CORE_H
#define TALLY_LIB_RUNTIME_LANE_LANE_CORE_H

#include "lane/batch.h"
#include "lane/gate.h"
#include "lane/lane_options.h"
#include "lane/lane_queue.h"
#include "lane/lane_times.h"
#include "lane/lane_trace.h"
#include "lane/priority_inheritance.h"
#include "lane/returned_states.h"
#include "resources/lane_markers.h"
#include "resources/physical_streams.h"
#include "resources/resume_lists.h"
#include "resources/save_area.h"
#include "resources/state_ring.h"

#include <optional>
#include <utility>

namespace tally::runtime {

struct LaneCore {
  LaneCore(StreamDevice &device, LaneOptions given)
      : device(device), options(std::move(given)), own(device), streams(device, own),
        states(device, own, streams), saveArea(own, streams), queue(options.clock),
        returned(states, pipeline), times(options, device.info(), pipeline, returned),
        trace(options, pipeline, returned) {}
  LaneCore(const LaneCore &) = delete;
  LaneCore &operator=(const LaneCore &) = delete;

  StreamDevice &device;
  LaneOptions options;
  LaneResources own;
  PhysicalStreams streams;
  LaneMarkers markers;
  StateRing states;
  ResumeLists lists;
  SaveArea saveArea;
  LaneQueue queue;
  PriorityInheritance inheritance;
  Pipeline pipeline;
  ReturnedStates returned;
  LaneTimes times;
  LaneTrace trace;
  LaneCounters counts;

  /// The number of operations before the next one to be sent.
  std::uint64_t before() const { return queue.finished() + pipeline.sent; }
  /// The list ring for launches that go out now.
  ListRing &ring() { return lists.ring(pipeline.isHeld()); }
  /// Address of the state of the batch's item `index`.
  DevicePtr stateAddress(const Batch &batch, std::size_t index) const {
    return states.address(batch.firstState + index);
  }
  /// The permit of the next operation; nothing if it may not go.
  std::optional<Permit> permit(const Gate &gate) const {
    // While a stream waits, launches still go to resume: else a call that waits for the whole
    // device would wait for ever.
    if (gate.isClosed() && !pipeline.isHeld())
      return std::nullopt;
    if (gate.isClosed() || inheritance.isHigh(before()))
      return Permit{gate.currentEpoch(), {.runBestEffort = true}};
    return gate.permit(inheritance.classAt(before()));
  }
};

} // namespace tally::runtime

#endif
