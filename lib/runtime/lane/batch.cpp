#include "lane/batch.h"

#include "lane/gate.h"
#include "resources/lane_markers.h"

#include <algorithm>

namespace tally::runtime {

namespace {

/// Most items in two batches with which a third batch may be under way.
constexpr std::size_t mostShort = 12;

} // namespace

bool BatchItem::goesByShape() const {
  return canYield && plan && plan->blocks && plan->blocks->known() &&
         !stopsInsideBlocks(operation->run.progress->kind());
}

bool Batch::canYield() const {
  return std::any_of(items.begin(), items.end(),
                     [](const BatchItem &each) { return each.canYield; });
}

bool Batch::pauses() const {
  return std::all_of(items.begin(), items.end(), [](const BatchItem &each) {
    return each.dropped || (each.canYield && each.plan && each.plan->kind == Kind::Pause);
  });
}

Nanoseconds Batch::nonPreemptible(const BatchItem *more) const {
  Nanoseconds sum{0}, excess{0};
  auto add = [&](const BatchItem &item) {
    sum = sumOf(sum, item.expected);
    excess = std::max(excess, item.predicted - item.expected);
  };
  for (const BatchItem &item : items)
    add(item);
  if (more)
    add(*more);
  return sumOf(sum, excess);
}

bool Batch::isReached() const { return loadMarker(*markerAt) >= marker; }

WordWait Batch::isBack() const {
  return {markerAt->device, static_cast<std::uint32_t>(marker), WordWait::Until::AtLeast};
}

std::size_t Batch::completed() const {
  auto completes = [](const BatchItem &each) { return each.completes; };
  return static_cast<std::size_t>(std::count_if(items.begin(), items.end(), completes)) +
         late.size();
}

/// Two batches hide the host's turn, unless they are short. For resumed launches it is not hidden.
bool Pipeline::isFull() const {
  if (isHeld())
    return !batches.empty();
  if (batches.size() < 2)
    return false;
  std::size_t items = 0;
  for (const Batch &each : batches)
    items += each.items.size();
  return batches.size() == StateRing::maxBatches || items > mostShort;
}

std::size_t Pipeline::freeSlot() const {
  if (isHeld())
    return StateRing::maxBatches;
  return batches.empty() ? 0 : (batches.back().slot + 1) % StateRing::maxBatches;
}

const BatchItem *Pipeline::newestThatYields(const Batch *&of) const {
  for (auto batch = batches.rbegin(); batch != batches.rend(); ++batch)
    for (auto item = batch->items.rbegin(); item != batch->items.rend(); ++item)
      if (item->canYield) {
        of = &*batch;
        return &*item;
      }
  return nullptr;
}

bool Pipeline::waitsBehindFront() const {
  return std::any_of(batches.begin() + (batches.empty() ? 0 : 1), batches.end(),
                     [](const Batch &each) { return each.behind != 0; });
}

const Operation *Pipeline::awaited() const {
  if (isHeld())
    return pending.front().get();
  const Operation *newest = nullptr;
  for (const Batch &batch : batches) {
    if (newest && batch.behind != 0)
      break;
    for (const BatchItem &each : batch.items)
      newest = each.canYield ? each.operation : newest;
  }
  return newest;
}

} // namespace tally::runtime
