#include "lane/lane_resume.h"

#include <cassert>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace tally::runtime {

/// Copies the states of all batches under way to the host, after the batches. If a later batch
/// waits behind the first batch, copies only the first batch's states, on another stream that waits
/// for the first batch: the lane's own stream may wait for launches to be resumed. The epoch is
/// newer now, so the lane sends nothing until the states are back.
Result<void> LaneResume::readStates() {
  Batch &front = pipeline.batches.front();
  bool beside = pipeline.waitsBehindFront();
  StreamId on = beside ? *core.streams.resumes() : core.streams.home(pipeline.isHeld());
  if (beside) {
    WordWait back = front.isBack();
    if (Result<void> waits = core.device.waitForWords(on, std::span(&back, 1)); !waits)
      return waits;
  }
  std::size_t count = beside ? 1 : pipeline.batches.size();
  for (std::size_t i = 0; i < count; ++i) {
    Batch &batch = pipeline.batches[i];
    batch.statesComing = true;
    batch.askedAt = core.options.clock();
    if (!batch.canYield())
      continue;
    if (!beside)
      if (Result<void> behind = core.streams.continueOn(on); !behind)
        return behind;
    auto mirror = std::as_writable_bytes(core.states.mirror(batch.slot).first(batch.items.size()));
    if (Result<void> down = core.device.copyToHost(on, mirror, core.stateAddress(batch, 0)); !down)
      return down;
  }
  const MappedMemory &word =
      on == core.streams.resumes() ? core.markers.resumed : core.markers.main;
  ++core.markers.last;
  for (std::size_t i = 0; i < count; ++i) {
    pipeline.batches[i].marker = core.markers.last;
    pipeline.batches[i].markerAt = &word;
  }
  return core.device.writeValue(beside ? on : core.streams.current(), word.device,
                                core.markers.last);
}

Result<void> LaneResume::take(const Batch &batch) {
  for (std::size_t i = 0; i < batch.items.size(); ++i) {
    const BatchItem &item = batch.items[i];
    if (item.canYield && batch.statesComing) {
      // The device has written the state: the marker that the host saw comes after it.
      if (Result<void> taken = absorb(item, core.returned.of(batch, i), batch.epoch); !taken)
        return taken;
      continue;
    }
    // After a launch that yielded there can only be dropped items; they are dropped again later.
    assert(!pipeline.draining || item.dropped);
    if (!pipeline.draining && item.completes)
      finishFront(item);
  }
  if (LaneTimes::isMeasurable(batch))
    core.times.learnDurations(batch);
  for (std::size_t i = 0; i < batch.late.size() && !pipeline.draining; ++i) {
    Operation &operation = *batch.late[i];
    // All operations before the put are done, so the put may go on any stream.
    if (operation.put && !operation.put(operation.ordered.value_or(core.streams.main())))
      operation.put(core.streams.useMain());
    finishFront(operation);
  }
  return {};
}

Result<void> LaneResume::absorb(const BatchItem &item, const tally_launch_state &state,
                                std::uint64_t epoch) {
  VariantLaunch &progress = *item.operation->run.progress;
  const std::string &name = item.operation->kernel->facts().name;
  if (!progress.plausible(state))
    return Error{name + ": the launch's state in device memory was overwritten (a store of some "
                        "kernel outside of its buffers?)"};
  if (pipeline.draining) {
    core.counts.yields.fetch_add(1);
    if (!progress.ranNothing(state))
      return Error{name + ": ran although a launch before it had yielded; the device broke the "
                          "order of the control word"};
    return {};
  }
  core.counts.savedBlocks.fetch_add(state.saved);
  if (!progress.absorb(state, epoch, item.launch.shape.grid.x)) {
    finishFront(item);
    return {};
  }
  core.counts.yields.fetch_add(1);
  item.operation->run.mayChange = true;
  pipeline.draining = true;
  core.lists.releaseRetained();
  if (progress.next().readsList)
    core.lists.retain(item.list, pipeline.isHeld());
  else if (item.list)
    core.ring().releaseOldest(*item.list);
  return {};
}

void LaneResume::finishFront(const BatchItem &item) {
  finishFront(*item.operation);
  if (item.list)
    core.ring().releaseOldest(*item.list);
}

void LaneResume::finishFront(const Operation &operation) {
  assert(!pipeline.pending.empty() && pipeline.pending.front().get() == &operation &&
         pipeline.sent > 0);
  core.lists.releaseRetained();
  const OperationRun &run = operation.run;
  if (operation.type == Operation::Type::Launch && operation.isOfProgram &&
      !operation.stream->failed && !run.failed && (run.begun || !operation.launchUserKernel)) {
    countOne(core.counts.finishedLaunches);
    if (run.progress && run.begun)
      countOne(core.counts.launchesByKind[static_cast<std::size_t>(run.progress->kind())]);
  }
  std::unique_ptr<Operation> gone = std::move(pipeline.pending.front());
  pipeline.pending.pop_front();
  core.queue.finish(std::move(gone));
  --pipeline.sent;
  pipeline.toResume -= pipeline.isHeld() ? 1 : 0;
}

void LaneResume::dropFailed() {
  while (pipeline.batches.empty() && pipeline.sendable() != 0 &&
         pipeline.pending.front()->stream->failed) {
    pipeline.sent = 1;
    finishFront(*pipeline.pending.front());
  }
}

} // namespace tally::runtime
