// What comes back of a batch: which of its launches are done, and which yielded and are resumed.
#include "lane/lane.h"

#include <cassert>
#include <span>
#include <utility>

namespace tally::runtime {

/// A request came: has the states of all that is under way copied behind it. Where a batch waits
/// behind the first, of the first alone, on another stream that waits for that one: their own may
/// wait for what has to be resumed. Nothing more is sent until these are back, since the epoch is
/// another.
Result<void> Lane::readStates() {
  Batch &front = batches.front();
  bool beside = waitsBehindFront();
  StreamId on = beside ? *resumes : home();
  if (beside) {
    WordWait back = isBack(front);
    if (Result<void> waits = device.waitForWords(on, std::span(&back, 1)); !waits)
      return waits;
  }
  std::size_t count = beside ? 1 : batches.size();
  for (std::size_t i = 0; i < count; ++i) {
    Batch &batch = batches[i];
    batch.statesComing = true;
    batch.askedAt = options.clock();
    if (!batch.canYield())
      continue;
    if (!beside)
      if (Result<void> behind = continueOn(on); !behind)
        return behind;
    auto mirror = std::as_writable_bytes(mirrors[batch.slot].first(batch.items.size()));
    if (Result<void> down = device.copyToHost(on, mirror, stateAddress(batch, 0)); !down)
      return down;
  }
  const MappedMemory &word = on == resumes ? markerResumed : markerWord;
  ++lastMarker;
  for (std::size_t i = 0; i < count; ++i) {
    batches[i].marker = lastMarker;
    batches[i].markerAt = &word;
  }
  return device.writeValue(beside ? on : current, word.device, lastMarker);
}

/// Where what is sent next goes: behind all that was sent before, on whichever stream.
Result<void> Lane::continueOn(StreamId target) {
  if (target == current)
    return {};
  if (Result<bool> behind = device.waitFor(target, current); !behind)
    return behind.error();
  current = target;
  return {};
}

void Lane::take(const Batch &batch) {
  bool measurable = isMeasurable(batch); // while the operations are there
  for (std::size_t i = 0; i < batch.items.size() && !isBroken; ++i) {
    const Item &item = batch.items[i];
    if (item.canYield && batch.statesComing) {
      // Written by the device; the marker that was seen is behind it.
      absorb(item, mirrors[batch.slot][i], batch.epoch);
      continue;
    }
    // Behind a launch that yielded only what was dropped can be; it is dropped again later.
    assert(!draining || item.dropped);
    if (draining || !item.completes)
      continue;
    finishFront(item.operation);
    if (item.list)
      ring().releaseOldest(*item.list);
  }
  if (!isBroken && measurable)
    learnDurations(batch);
  for (std::size_t i = 0; i < batch.late.size() && !isBroken && !draining; ++i) {
    Operation &operation = *batch.late[i];
    // On another stream too it is over only behind what came before it: that is done.
    if (operation.put && !operation.put(operation.ordered.value_or(stream)))
      operation.put(stream);
    finishFront(&operation);
  }
}

void Lane::absorb(const Item &item, const tally_launch_state &state, std::uint64_t epoch) {
  VariantLaunch &progress = *item.operation->progress;
  const std::string &name = item.operation->kernel->facts().name;
  if (!progress.plausible(state))
    return failAll({name + ": the launch's state in device memory was overwritten (a store of some "
                           "kernel outside of its buffers?)"});
  if (draining) {
    counts.yields.fetch_add(1);
    if (!progress.ranNothing(state))
      failAll({name +
               ": ran although a launch before it had yielded; the device broke the order of "
               "the control word"});
    return;
  }
  counts.savedBlocks.fetch_add(state.saved);
  if (!progress.absorb(state, epoch, item.launch.shape.grid.x)) {
    finishFront(item.operation);
    if (item.list)
      ring().releaseOldest(*item.list);
    return;
  }
  counts.yields.fetch_add(1);
  item.operation->mayChange = true;
  draining = true;
  releaseRetained();
  if (progress.next().readsList) {
    retained = item.list;
    retainedIn = &ring();
  } else if (item.list) {
    ring().releaseOldest(*item.list);
  }
}

void Lane::releaseRetained() {
  if (retained)
    retainedIn->releaseOldest(*retained);
  retained.reset();
}

void Lane::finishFront(const Operation *operation) {
  assert(!pending.empty() && pending.front().get() == operation && sent > 0);
  static_cast<void>(operation);
  releaseRetained();
  Operation &front = *pending.front();
  if (front.type == Operation::Type::Launch && front.isOfProgram && !front.stream->failed &&
      !front.failed && (front.begun || !front.launchWhole)) {
    countOne(counts.finishedLaunches);
    if (front.progress && front.begun)
      countOne(counts.launchesByKind[static_cast<std::size_t>(front.progress->kind())]);
  }
  bool isKernel = front.type == Operation::Type::Launch && front.kernel;
  std::unique_ptr<Operation> gone = std::move(pending.front());
  pending.pop_front();
  countOne(gone->stream->finished);
  countOne(finished);
  if (isKernel)
    over.push_back(std::move(gone));
  --sent;
  toResume -= held.empty() ? 0 : 1;
  ++finishedNow;
  somethingFinished = true;
}

/// Operations of failed streams need no permit: they are only counted out.
void Lane::dropFailed() {
  while (!isBroken && batches.empty() && sendable() != 0 && pending.front()->stream->failed) {
    sent = 1;
    finishFront(pending.front().get());
  }
}

} // namespace tally::runtime
