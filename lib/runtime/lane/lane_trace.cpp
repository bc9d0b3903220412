#include "lane/lane_trace.h"

#include <algorithm>

namespace tally::runtime {

namespace {

TraceEvent::Way wayOf(const Operation &operation) {
  switch (operation.type) {
  case Operation::Type::Launch:
    return operation.run.progress ? TraceEvent::Way::Variant : TraceEvent::Way::NonPreemptible;
  case Operation::Type::CopyToDevice:
  case Operation::Type::CopyToHost:
    return TraceEvent::Way::Copy;
  case Operation::Type::Fill:
    return TraceEvent::Way::Fill;
  case Operation::Type::Put:
    return TraceEvent::Way::Put;
  case Operation::Type::Call:
    return TraceEvent::Way::Call;
  }
  return TraceEvent::Way::Call;
}

std::string_view nameOf(const Operation &operation) {
  if (!operation.label.empty())
    return operation.label;
  return operation.kernel ? std::string_view(operation.kernel->facts().name)
                          : nameOf(wayOf(operation));
}

} // namespace

/// The event lasts from when work was first held back, with no batch of the lane on the device,
/// until work went out.
void LaneTrace::wait(bool waits) {
  if (!options.trace || waits == waitsSince.has_value() || (waits && !pipeline.batches.empty()))
    return;
  Nanoseconds now = options.clock();
  if (waits) {
    waitsSince = now;
    return;
  }
  TraceEvent event;
  event.type = TraceEvent::Type::Wait;
  event.lane = options.number;
  event.start = *waitsSince;
  event.duration = now - *waitsSince;
  options.trace->add(event);
  waitsSince.reset();
}

/// The range lasts from when the batch is sent to when the host sees that it is back.
void LaneTrace::beginRange(Batch &batch) const {
  if (!hasRanges || batch.items.empty())
    return;
  const Operation &first = *batch.items.front().operation;
  std::string name(nameOf(first));
  if (first.run.progress && !batch.items.front().leavesVariant)
    name += " (" + std::string(tally::name(first.run.progress->kind())) + ")";
  if (batch.items.size() > 1)
    name += " and " + std::to_string(batch.items.size() - 1) + " more";
  batch.range = runtime::beginRange(RangeOf::BestEffort, name);
}

/// Makes the event without times. Call it while the operation exists and before its state is
/// absorbed.
TraceEvent LaneTrace::eventOf(const BatchItem &item) const {
  const Operation &operation = *item.operation;
  TraceEvent event;
  event.type = TraceEvent::Type::Work;
  event.lane = options.number;
  event.way = wayOf(operation);
  event.name = options.trace->nameOf(nameOf(operation));
  if (operation.type == Operation::Type::Launch)
    event.value = item.launch.shape.grid.count();
  if (operation.run.progress && !item.leavesVariant)
    event.kind = operation.run.progress->kind();
  event.resumes = item.resumes;
  return event;
}

/// The host sees only when the whole batch came back. So each item gets a share of the batch's time
/// by its expected duration.
void LaneTrace::batch(const Batch &batch, Nanoseconds lastCollected) const {
  if (!options.trace)
    return;
  TraceEvent whole;
  whole.type = TraceEvent::Type::Batch;
  whole.lane = options.number;
  whole.value = batch.items.size();
  whole.start = std::max(batch.sentAt, lastCollected);
  whole.duration = options.clock() - whole.start;
  options.trace->add(whole);
  auto weightOf = [](const BatchItem &item) {
    bool known = item.plan && item.plan->duration.known();
    return item.dropped ? 0.0
           : known      ? static_cast<double>(item.plan->duration.mean().count())
                        : 1.0;
  };
  double sum = 0, before = 0;
  for (const BatchItem &item : batch.items)
    sum += weightOf(item);
  bool yielded = false;
  for (std::size_t i = 0; i < batch.items.size(); ++i) {
    const BatchItem &item = batch.items[i];
    if (item.dropped)
      continue;
    double from = before / sum, to = (before += weightOf(item)) / sum;
    auto at = [&](double part) {
      return whole.start + Nanoseconds(static_cast<std::int64_t>(
                               part * static_cast<double>(whole.duration.count())));
    };
    TraceEvent event = eventOf(item);
    event.start = at(from);
    event.duration = at(to) - event.start;
    event.isEstimate = batch.items.size() > 1;
    event.yielded = yielded ? item.canYield : states.willYield(batch, i);
    yielded = yielded || event.yielded;
    options.trace->add(event);
  }
}

} // namespace tally::runtime
