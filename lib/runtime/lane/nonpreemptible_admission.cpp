// Decides when work that cannot yield goes: kernels without a variant, copies, fills, calls.
#include "lane/batch_planner.h"

#include <algorithm>

namespace tally::runtime {

namespace {

/// Most items of a batch to which a copy, a fill or a put may be added.
constexpr std::size_t mostCopies = 4;
/// Most short launches before a kernel without a variant that go as user's kernels too.
constexpr std::size_t shortsBeforeNonPreemptible = 4;

} // namespace

/// Predicts the duration of a kernel that cannot yield.
void BatchPlanner::predict(BatchItem &item) {
  const DurationEstimate &known = item.plan->duration;
  item.predicted = known.known() ? known.high() : anyDuration;
  item.expected = known.known() ? std::min(known.mean(), item.predicted) : anyDuration;
}

/// Whether the launch is known to be so short that it need not be able to yield.
bool BatchPlanner::isShort(const Operation &operation) const {
  return operation.run.progress && !operation.run.begun && !operation.run.plan->isTried &&
         operation.run.plan->duration.known() &&
         operation.run.plan->duration.high() <= core.options.bound / 2;
}

/// Whether a short launch may go as the user's kernel because a kernel without a variant follows.
/// If the launch could yield, the host would have to see its end before it sends that kernel.
bool BatchPlanner::isBetweenNonPreemptible(std::size_t index, const Batch &batch,
                                           const Budget &used) {
  const Batch *of = nullptr;
  if (pipeline.pending[index]->type != Operation::Type::Launch ||
      !isShort(*pipeline.pending[index]) || pipeline.isHeld() || batch.canYield() ||
      pipeline.newestThatYields(of) || used.decision.sms < core.device.info().smCount)
    return false;
  std::size_t last = std::min(index + shortsBeforeNonPreemptible, pipeline.sendable() - 1);
  for (std::size_t next = index + 1; next <= last; ++next) {
    Operation &operation = *pipeline.pending[next];
    if (operation.type != Operation::Type::Launch || operation.stream->failed ||
        operation.run.failed || !kinds.prepare(operation))
      return false;
    if (!operation.run.progress)
      return true;
    if (!isShort(operation))
      return false;
  }
  return false;
}

bool BatchPlanner::planCall(BatchItem &item, const Batch &batch) {
  // Two calls in a row are ordered by the application's own streams.
  bool first = std::all_of(batch.items.begin(), batch.items.end(), [](const BatchItem &each) {
    return each.dropped || each.operation->type == Operation::Type::Call;
  });
  if (!pipeline.batches.empty() || pipeline.isHeld() || !first)
    return false;
  item.heavy = item.operation->callsKernel || item.operation->ended;
  item.completes = true;
  if (item.operation->callsKernel) {
    item.plan = kinds.byIdentity(*item.operation);
    predict(item);
  }
  return true;
}

bool BatchPlanner::planNonPreemptible(BatchItem &item, const Batch &batch, const Budget &used) {
  Operation &operation = *item.operation;
  if (operation.type == Operation::Type::Call)
    return planCall(item, batch) &&
           (!item.operation->callsKernel ||
            (goesByDuration(item.predicted, used.decision) && mayUseSms(item, used.decision)));
  if (batch.canYield() || !waits.mayComeBehind(operation))
    return false;
  item.completes = true;
  if (operation.type != Operation::Type::Launch)
    return batch.items.size() < mostCopies;
  if (operation.run.progress && !item.leavesVariant) {
    item.heavy = true;
    item.expected = item.predicted = anyDuration;
    item.launch = operation.run.progress->next();
    VariantLaunch after = *operation.run.progress;
    after.absorb({});
    item.completes = after.finished();
    return mayUseSms(item, used.decision);
  }
  item.launch.shape = operation.shape;
  predict(item);
  item.heavy = item.predicted > core.options.mostAhead() || item.plan->isTried;
  if (item.plan->isTried && !batch.items.empty())
    return false;
  return fitsBehind(item, batch, used) && mayUseSms(item, used.decision) &&
         goesByDuration(item.predicted, used.decision);
}

/// Whether a kernel that cannot yield may come after others, given their remaining time. A request
/// waits for all of them: for at most mostAhead(), or for one longer kernel and the bound.
bool BatchPlanner::fitsBehind(const BatchItem &item, const Batch &batch, const Budget &used) const {
  Nanoseconds left = sumOf(used.nonPreemptibleLeft, batch.nonPreemptible());
  if (left.count() == 0 ||
      sumOf(used.nonPreemptibleLeft, batch.nonPreemptible(&item)) <= core.options.mostAhead())
    return true;
  return item.predicted != anyDuration && left <= core.options.bound;
}

/// Whether the policy lets a kernel of the predicted duration go now.
bool BatchPlanner::goesByDuration(Nanoseconds predicted, const Decision &decision) {
  if (predicted <= std::min(decision.longestNonPreemptible, decision.longest))
    return true;
  if (!heldSince)
    heldSince = core.options.clock();
  return false;
}

Nanoseconds BatchPlanner::nonPreemptibleLeft() const {
  Nanoseconds sum{0};
  Nanoseconds now = core.options.clock();
  for (const Batch &batch : pipeline.batches) {
    Nanoseconds left = batch.nonPreemptible();
    if (&batch == &pipeline.batches.front() && left.count() != 0) {
      Nanoseconds elapsed =
          now - std::max(batch.sentAt, core.times.lastCollected()) - core.times.launchTurn(batch);
      elapsed = std::max(elapsed, Nanoseconds(0));
      left = left != anyDuration && elapsed <= left ? left - elapsed : anyDuration;
    }
    sum = sumOf(sum, left);
  }
  return sum;
}

} // namespace tally::runtime
