// When work that cannot yield goes: kernels without a variant, copies, fills, the program's calls.
#include "lane/lane.h"

#include <algorithm>

namespace tally::runtime {

namespace {

/// Copies and fills in one batch.
constexpr std::size_t batchWholes = 4;
/// Short launches ahead of a kernel without a variant that go whole as it does.
constexpr std::size_t shortsBeforeWhole = 4;

} // namespace

/// What a kernel that cannot yield should take.
void Lane::predict(Item &item) {
  const DurationEstimate &known = item.plan->duration;
  item.predicted = known.known() ? known.high() : anyDuration;
  item.expected = known.known() ? std::min(known.mean(), item.predicted) : anyDuration;
}

/// Whether it is known to take so little that a request need not be told of it.
bool Lane::isShort(const Operation &operation) const {
  return operation.progress && !operation.begun && !operation.plan->isTried &&
         operation.plan->duration.known() && operation.plan->duration.high() <= options.bound / 2;
}

/// Whether a short launch may go as the user's kernel because one without a variant follows. That
/// one cannot come behind a launch that may yield before the host has seen its end.
bool Lane::isBetweenWholes(std::size_t index, const Batch &batch, const Budget &used) {
  const Batch *of = nullptr;
  if (pending[index]->type != Operation::Type::Launch || !isShort(*pending[index]) ||
      !held.empty() || batch.canYield() || newestThatYields(of) ||
      used.decision.sms < device.info().smCount)
    return false;
  std::size_t last = std::min(index + shortsBeforeWhole, sendable() - 1);
  for (std::size_t next = index + 1; next <= last; ++next) {
    Operation &operation = *pending[next];
    if (operation.type != Operation::Type::Launch || operation.stream->failed || operation.failed ||
        !preparePlan(operation))
      return false;
    if (!operation.progress)
      return true;
    if (!isShort(operation))
      return false;
  }
  return false;
}

bool Lane::planCall(Item &item, const Batch &batch) {
  // Two calls in a row are ordered by the application's own streams.
  bool first = std::all_of(batch.items.begin(), batch.items.end(), [](const Item &each) {
    return each.dropped || each.operation->type == Operation::Type::Call;
  });
  if (!batches.empty() || !held.empty() || !first)
    return false;
  item.heavy = item.operation->callsKernel || item.operation->ended;
  item.completes = true;
  if (item.operation->callsKernel) {
    item.plan = planByIdentity(*item.operation);
    predict(item);
  }
  return true;
}

bool Lane::planWhole(Item &item, const Batch &batch, const Budget &used) {
  Operation &operation = *item.operation;
  if (operation.type == Operation::Type::Call)
    return planCall(item, batch) &&
           (!item.operation->callsKernel ||
            (goesByDuration(item.predicted, used) && fitsSms(item, used.decision.sms)));
  if (batch.canYield() || !mayComeBehind(operation))
    return false;
  item.completes = true;
  if (operation.type != Operation::Type::Launch)
    return batch.items.size() < batchWholes;
  if (operation.progress && !item.leavesVariant) {
    item.heavy = true;
    item.expected = item.predicted = anyDuration;
    item.launch = operation.progress->next();
    VariantLaunch after = *operation.progress;
    after.absorb({});
    item.completes = after.finished();
    return fitsSms(item, used.decision.sms);
  }
  item.launch.shape = operation.shape;
  predict(item);
  item.heavy = item.predicted > options.bound || item.plan->isTried;
  if (item.plan->isTried && !batch.items.empty())
    return false;
  return fitsBehind(item, batch, used) && fitsSms(item, used.decision.sms) &&
         goesByDuration(item.predicted, used);
}

/// Whether a kernel that cannot yield may come behind others, of which so much is left. A request
/// waits for all of them: for the bound's worth, or for one longer one.
bool Lane::fitsBehind(const Item &item, const Batch &batch, const Budget &used) const {
  Nanoseconds left = sumOf(used.wholesLeft, batch.wholes());
  if (left.count() == 0 || sumOf(used.wholesLeft, batch.wholes(&item)) <= options.bound)
    return true;
  return item.predicted != anyDuration && left <= options.bound / 2;
}

/// Whether the policy lets a kernel of that duration go now.
bool Lane::goesByDuration(Nanoseconds predicted, const Budget &used) {
  if (predicted <= std::min(used.decision.longestWhole, used.decision.longest))
    return true;
  if (!heldSince)
    heldSince = options.clock();
  return false;
}

Nanoseconds Lane::wholesLeft() const {
  Nanoseconds sum{0};
  Nanoseconds now = options.clock();
  for (const Batch &batch : batches) {
    Nanoseconds left = batch.wholes();
    if (&batch == &batches.front() && left.count() != 0) {
      Nanoseconds elapsed = now - std::max(batch.sentAt, lastCollected) - launchTurn(batch);
      elapsed = std::max(elapsed, Nanoseconds(0));
      left = left != anyDuration && elapsed <= left ? left - elapsed : anyDuration;
    }
    sum = sumOf(sum, left);
  }
  return sum;
}

} // namespace tally::runtime
