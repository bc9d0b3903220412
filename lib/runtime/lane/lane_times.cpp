#include "lane/lane_times.h"

#include <algorithm>

namespace tally::runtime {

namespace {

/// Time from a launch's call to its first block plus from its last block to the host's look.
constexpr Nanoseconds hostsTurn{5000};
/// Shortest duration of a launch on the device.
constexpr Nanoseconds leastDuration{1000};
/// Time until the host has the states of a stopped batch.
constexpr Nanoseconds statesTurn{20000};
/// A batch that takes this many times the known time of its launches or blocks (or the bound) has a
/// launch that is unlike the others of its shape.
constexpr std::int64_t lateFrom = 3;
/// The host's turn takes less; a batch that waits longer waits for another event.
constexpr Nanoseconds longestTurn{200'000};

} // namespace

void LaneTimes::see(const Batch &batch, std::size_t lanes) {
  account(batch, lanes);
  measureBlocks(batch, lanes);
  noteLong(batch, lanes);
  noteLate(batch);
}

void LaneTimes::taken(const Batch &batch, bool hasMore) {
  collectedAt = options.clock();
  lastEpoch = batch.epoch;
  hadMore = hasMore;
}

/// If the batch could have been sent with the last one, but had to wait for its end, the device has
/// been waiting for the host since.
Nanoseconds LaneTimes::waitedFrom(const Batch &batch) const {
  bool waited = hadMore && lastEpoch == batch.epoch && batch.sentAt - collectedAt < longestTurn;
  return waited ? collectedAt : batch.sentAt;
}

/// Charges the batch's time on the device to its clients, in equal parts if several lanes or
/// clients shared it.
void LaneTimes::account(const Batch &batch, std::size_t lanes) {
  Nanoseconds took = options.clock() - std::max(batch.sentAt, collectedAt);
  took /= static_cast<std::int64_t>(std::max<std::size_t>(lanes, 1));
  ranInAll += took;
  lately.add(took, batch.items.size());
  auto count = static_cast<std::int64_t>(batch.items.size());
  for (const BatchItem &item : batch.items) {
    const LaneStream &of = *item.operation->stream;
    if (of.client >= ranByClient.size())
      ranByClient.resize(of.client + 1);
    RanOfClient &known = ranByClient[of.client];
    if (known.generation != of.generation)
      known = {of.generation, Nanoseconds(0)};
    known.ran += took / count;
  }
}

/// If a request came, or the batch went beside one, the time is too long; it counts only for a
/// kernel without a known duration.
bool LaneTimes::isMeasurable(const Batch &batch) {
  bool ofKernels = std::all_of(batch.items.begin(), batch.items.end(),
                               [](const BatchItem &each) { return each.plan && !each.dropped; });
  if ((!batch.statesComing && !batch.shares) || !ofKernels)
    return ofKernels;
  return batch.items.size() == 1 && !batch.items[0].canYield &&
         !batch.items[0].plan->duration.known();
}

Nanoseconds LaneTimes::launchTurn(const Batch &batch) const {
  if (batch.sentAt < collectedAt || shortest == anyDuration)
    return Nanoseconds(0);
  return std::clamp(shortest - leastDuration, Nanoseconds(0), device.launchTurn);
}

void LaneTimes::learnDurations(const Batch &batch) {
  Nanoseconds predicted{0};
  // The operations themselves are finished and gone.
  for (const BatchItem &item : batch.items)
    predicted += item.plan->duration.mean();
  Nanoseconds measured = options.clock() - std::max(batch.sentAt, collectedAt);
  if (batch.sentAt >= collectedAt)
    shortest = std::min(shortest, measured);
  auto count = static_cast<std::int64_t>(batch.items.size());
  measured -= std::min(launchTurn(batch), measured - std::min(measured, count * leastDuration));
  // Only the sum is known: scale each item's duration by the same ratio.
  double ratio = predicted.count() == 0 ? 1.0
                                        : static_cast<double>(measured.count()) /
                                              static_cast<double>(predicted.count());
  if (batch.items[0].plan->isTried && count == 1 && !batch.statesComing)
    batch.items[0].plan->trial.add(options.clock() - std::max(batch.waitedFrom, collectedAt));
  for (const BatchItem &item : batch.items) {
    DurationEstimate &duration = item.plan->duration;
    auto mean = static_cast<double>(duration.mean().count());
    duration.add(duration.known() ? Nanoseconds(static_cast<std::int64_t>(mean * ratio))
                                  : measured / count);
  }
}

/// Measures the duration of blocks from a launch that was alone in its batch, or that was stopped
/// as the first of its batch, so that no other ran. With several launches their shares are not
/// known.
void LaneTimes::measureBlocks(const Batch &batch, std::size_t lanes) const {
  if (pipeline.draining)
    return;
  if (batch.items.size() > 1 && !(batch.statesComing && states.willYield(batch, 0))) {
    for (const BatchItem &item : batch.items)
      item.operation->run.timing.isKnown = false;
    return;
  }
  const BatchItem &item = batch.items.front();
  if (item.dropped || !item.canYield || !item.plan->blocks)
    return;
  Operation &operation = *item.operation;
  BlockTiming &timing = operation.run.timing;
  timing.isKnown = timing.isKnown && (item.isTimed || !operation.ordered);
  timing.wasMeasured = timing.wasMeasured && item.isMeasured;
  // Count from when the application's stream let the launch go, if it waited.
  Nanoseconds took = options.clock() - std::max({batch.issuedAt, collectedAt, batch.begunAt});
  timing.ran += std::max(took - hostsTurn, Nanoseconds(0));
  timing.wasAlone = timing.wasAlone && lanes == 1 && !batch.hasOthers && !batch.shares;
  VariantLaunch after = *operation.run.progress;
  if (batch.statesComing) {
    const tally_launch_state &state = states.of(batch, 0);
    if (!after.plausible(state))
      return;
    if (after.absorb(state, batch.epoch, item.launch.shape.grid.x)) {
      timing.wasStopped = true;
      // A saved block has run only in part.
      if (after.kind() != Kind::Checkpoint)
        noteBlocks(operation, after.blocksLeft(), lanes);
      return;
    }
  }
  noteBlocks(operation, 0, lanes);
}

/// Derives the duration of a block from the time of the operation and its number of rounds. A
/// stopped launch has not ended in whole waves.
void LaneTimes::noteBlocks(const Operation &operation, std::uint64_t left, std::size_t lanes) {
  LaunchPlan &plan = *operation.run.plan;
  const BlockTiming &timing = operation.run.timing;
  std::uint64_t total = operation.shape.grid.count(), done = total - left;
  if (!timing.isKnown || done == 0)
    return;
  auto atATime = static_cast<double>(std::min<std::uint64_t>(plan.wave, total));
  double rounds = timing.wasStopped ? std::max(static_cast<double>(done) / atATime, 1.0)
                                    : static_cast<double>(plan.waves);
  auto ran = static_cast<double>(timing.ran.count());
  Nanoseconds block(static_cast<std::int64_t>(ran / rounds));
  if (!timing.wasAlone)
    return plan.blocks->addShared(block /
                                  static_cast<std::int64_t>(std::max<std::size_t>(lanes, 1)));
  plan.blocks->add(block);
  if (timing.isOfOneKind && timing.wasMeasured)
    plan.blockCost.add(
        Nanoseconds(static_cast<std::int64_t>(ran * 1024 / static_cast<double>(done))));
}

/// Some launches of a shape may take much longer than the others: a matrix product as wide and as
/// high, but with a far longer inner dimension. A batch that takes far longer than its launches are
/// known to take has such a launch; later times show which one.
void LaneTimes::noteLong(const Batch &batch, std::size_t lanes) const {
  if (pipeline.draining || batch.statesComing || batch.shares || batch.hasOthers || lanes != 1)
    return;
  Nanoseconds known{0};
  for (const BatchItem &item : batch.items) {
    if (!item.plan || !item.plan->duration.known())
      return;
    known += item.plan->duration.mean();
  }
  Nanoseconds took = options.clock() - std::max({batch.sentAt, collectedAt, batch.begunAt});
  if (took - hostsTurn <= lateFrom * std::max(options.bound, known))
    return;
  for (const BatchItem &item : batch.items)
    if (item.goesByShape())
      item.operation->kernel->setApart(item.operation->shape, item.operation->parameters);
}

/// If a launch unlike the others of its shape runs when a request comes, the batch comes back late
/// after it was told to yield. Then the launch that ran last is planned by itself.
void LaneTimes::noteLate(const Batch &batch) const {
  if (!batch.statesComing || pipeline.draining)
    return;
  const BatchItem *item = lastToRun(batch);
  if (!item || !item->goesByShape())
    return;
  Nanoseconds usual = std::max(options.bound, item->plan->blocks->time());
  if (options.clock() - batch.askedAt > lateFrom * usual + statesTurn)
    item->operation->kernel->setApart(item->operation->shape, item->operation->parameters);
}

/// The last item that ran in a batch told to yield; nullptr where it may be in the next batch.
const BatchItem *LaneTimes::lastToRun(const Batch &batch) const {
  const BatchItem *last = nullptr;
  for (std::size_t i = 0; i < batch.items.size(); ++i) {
    if (states.willHaveRunNothing(batch, i))
      return last;
    last = &batch.items[i];
  }
  bool isLast = pipeline.batches.empty() || pipeline.batches.front().behind != 0;
  return isLast || states.willHaveRunNothing(pipeline.batches.front(), 0) ? last : nullptr;
}

} // namespace tally::runtime
