// Reads the states that came back with a batch, before the batch is taken.
#ifndef TALLY_LIB_RUNTIME_LANE_RETURNED_STATES_H
#define TALLY_LIB_RUNTIME_LANE_RETURNED_STATES_H

#include "lane/batch.h"
#include "resources/state_ring.h"

#include <cstddef>

namespace tally::runtime {

/// For the dispatcher's thread.
class ReturnedStates {
public:
  ReturnedStates(const StateRing &ring, const Pipeline &pipeline)
      : ring(ring), pipeline(pipeline) {}

  const tally_launch_state &of(const Batch &batch, std::size_t index) const {
    return ring.mirror(batch.slot)[index];
  }
  /// Whether the item will count as yielded. After the first yielded launch all launches have
  /// yielded.
  bool willYield(const Batch &batch, std::size_t index) const {
    const BatchItem &item = batch.items[index];
    if (!item.canYield || !batch.statesComing || item.dropped)
      return false;
    VariantLaunch after = *item.operation->run.progress;
    const tally_launch_state &state = of(batch, index);
    return pipeline.draining ||
           (after.plausible(state) && after.absorb(state, batch.epoch, item.launch.shape.grid.x));
  }
  bool willHaveRunNothing(const Batch &batch, std::size_t index) const {
    return willYield(batch, index) &&
           batch.items[index].operation->run.progress->ranNothing(of(batch, index));
  }

private:
  const StateRing &ring;
  const Pipeline &pipeline;
};

} // namespace tally::runtime

#endif
