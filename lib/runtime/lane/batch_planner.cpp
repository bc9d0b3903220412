#include "lane/batch_planner.h"

#include "lane/lane.h"

#include <algorithm>
#include <cassert>

namespace tally::runtime {

using namespace std::chrono_literals;

namespace {

/// About how long a batch should run: long enough to hide the host's turn, short enough that little
/// is left to drain when a request comes. Even a launch that runs no block takes the device some
/// 2 us, and a request's first kernels wait for all launches under way.
constexpr Nanoseconds batchTime = 500us, batchTimeWhereAsked = 40us;
/// Assumed duration of a launch of unknown duration.
constexpr Nanoseconds assumedDuration = 50us;
/// Most guard blocks of one batch on all SMs: an empty grid of this many blocks drains in about 25
/// us on an H200.
constexpr std::uint64_t batchGuardBlocks = 32768;
constexpr std::uint64_t firstRingBytes = std::uint64_t{1} << 20;
/// Launches at least this long are timed, which may take a write by the device.
constexpr Nanoseconds worthTiming = 100us;

} // namespace

void BatchPlanner::plan(Batch &batch, const Gate &gate, const Permit &permit) {
  Budget used = budgetOf(gate, permit);
  batch.items.reserve(std::min(pipeline.sendable() - pipeline.sent, StateRing::maxItems));
  for (std::size_t i = pipeline.sent;
       i < pipeline.sendable() && batch.items.size() < StateRing::maxItems; ++i)
    // A heavy item ends its batch: a slice may be followed by more slices of the same operation.
    if (!planItem(i, batch, used) || batch.items.back().heavy)
      return;
}

/// The batch's limits. On a part of the SMs kernels take longer, and so do guard blocks that leave.
BatchPlanner::Budget BatchPlanner::budgetOf(const Gate &gate, const Permit &permit) const {
  Budget budget;
  budget.decision = permit.decision;
  budget.nonPreemptibleLeft = gate.nonPreemptibleLeft();
  std::uint32_t all = core.device.info().smCount, sms = std::min(permit.decision.sms, all);
  budget.batchTime = (permit.oftenAsked ? batchTimeWhereAsked : batchTime) * sms / all;
  budget.mostGuardBlocks = batchGuardBlocks * sms / all;
  return budget;
}

bool BatchPlanner::addLate(Batch &batch) {
  std::size_t before = batch.late.size();
  auto isNext = [this](Operation &next) {
    // The application's own work on its stream has to be done too. A launch of the lane would wait
    // for it, but a late put has no launch before it that does.
    return next.type == Operation::Type::Put && next.mayBeLate && !next.stream->failed &&
           !next.run.failed && !(next.ordered && core.device.hasNews(*next.ordered)) &&
           mayStart(next);
  };
  while (!batch.ended && pipeline.sent < pipeline.sendable() &&
         isNext(*pipeline.pending[pipeline.sent])) {
    batch.late.push_back(pipeline.pending[pipeline.sent].get());
    ++pipeline.sent;
  }
  return batch.late.size() > before;
}

/// Whether the operations in other lanes that `operation` waits for are over. Unfinished ones
/// inherit its priority.
bool BatchPlanner::mayStart(Operation &operation) {
  std::erase_if(operation.behind,
                [](const LanePosition &each) { return each.lane->isOver(each.number); });
  std::uint64_t before = core.before();
  for (const LanePosition &each : operation.behind)
    if (core.inheritance.isHigh(before))
      each.lane->inheritHighPriority(each.number);
    else
      each.lane->inheritClass(each.number, core.inheritance.classAt(before));
  return operation.behind.empty();
}

bool BatchPlanner::planItem(std::size_t index, Batch &batch, Budget &used) {
  Operation &operation = *pipeline.pending[index];
  if (!mayStart(operation))
    return false;
  BatchItem item;
  item.operation = &operation;
  item.resumes = operation.run.begun && operation.run.progress->kind() != Kind::Slice;
  bool planned = false;
  std::uint32_t client = operation.stream->client;
  if (client < maxPolicyClients && (used.decision.clients >> client & 1) == 0)
    return false;
  if (operation.stream->failed || operation.run.failed || !kinds.prepare(operation)) {
    item.dropped = item.completes = planned = true;
  } else {
    if (core.streams.confined(used.decision.sms))
      kinds.fitTo(used.decision.sms, operation);
    item.plan = operation.run.plan;
    item.leavesVariant = isBetweenNonPreemptible(index, batch, used);
    bool yielding = operation.run.progress && operation.run.progress->kind() != Kind::Slice &&
                    !item.leavesVariant;
    planned = yielding ? planYielding(item, batch, used) : planNonPreemptible(item, batch, used);
    if (planned && !yielding)
      waits.putBehind(batch);
  }
  if (planned) {
    batch.items.push_back(std::move(item));
    heldSince.reset();
  }
  return planned;
}

/// Whether the launch stays within `sms` SMs. On a stream that is confined to them any variant
/// does. A launch of a kind with workers gets fewer workers; if it resumes saved blocks, no fewer
/// than the workers that saved them.
bool BatchPlanner::fitsSms(BatchItem &item, std::uint32_t sms) const {
  std::uint32_t all = core.device.info().smCount;
  if (sms >= all)
    return true;
  // A call may launch anything.
  if (item.operation->type == Operation::Type::Call)
    return false;
  std::uint64_t blocks = item.launch.shape.grid.count();
  const std::optional<VariantLaunch> &progress = item.operation->run.progress;
  // The blocks of a cluster run at a time, and a part of the SMs may be too small for them.
  bool mayBeConfined = progress && item.launch.shape.cluster == Dim3{0, 0, 0};
  bool isConfined = mayBeConfined && core.streams.confined(sms);
  bool hasWorkers = mayBeConfined && tally::hasWorkers(progress->kind()) &&
                    !item.operation->kernel->facts().maySpend(item.operation->shape.block.x);
  if (hasWorkers) {
    std::uint64_t perSm = std::max(item.plan->workers / all, 1u);
    std::uint64_t least = isConfined ? progress->leastWorkers() : 0;
    item.launch.shape.grid.x =
        static_cast<std::uint32_t>(std::min(blocks, std::max(perSm * sms, least)));
    return sms != 0 && item.launch.shape.grid.x >= progress->leastWorkers();
  }
  if (isConfined)
    return true;
  bool isUserKernel = item.operation->type == Operation::Type::Launch && !progress;
  bool confined = isUserKernel && core.options.smsOfNonPreemptible != 0 &&
                  core.options.smsOfNonPreemptible <= sms;
  return confined || blocks <= sms;
}

/// Whether an item that cannot yield stays within the policy's SMs, or is so short that it may use
/// all of them.
bool BatchPlanner::mayUseSms(BatchItem &item, const Decision &decision) const {
  return fitsSms(item, decision.sms) || item.predicted <= decision.longestUnconfined;
}

bool BatchPlanner::planYielding(BatchItem &item, const Batch &batch, Budget &used) {
  item.canYield = item.completes = true;
  item.launch = item.operation->run.progress->next();
  // A measured launch goes alone.
  LaunchPlan &plan = *item.plan;
  item.isMeasured = wantsMeasurement(plan, core.options.bound);
  item.heavy = plan.isTried || item.isMeasured;
  if (item.heavy && !batch.items.empty())
    return false;
  item.isTimed = plan.blocks && (item.heavy || plan.duration.mean() >= worthTiming);
  const DurationEstimate &duration = item.plan->duration;
  if ((duration.known() ? duration.mean() : anyDuration) > used.decision.longest ||
      !fitsSms(item, used.decision.sms))
    return false;
  std::uint64_t guardBlocks =
      item.operation->run.progress->kind() == Kind::Guard ? item.launch.shape.grid.count() : 0;
  if (!batch.items.empty() &&
      (used.time >= used.batchTime || used.guardBlocks + guardBlocks > used.mostGuardBlocks))
    return false;
  // One write tells all batches under way to pause, so work that pauses does not come behind a
  // wait.
  if (pipeline.isBehindWait(batch) && plan.kind == Kind::Pause)
    return false;
  if (item.launch.listCapacity != 0 && !reserveList(item, batch))
    return false;
  if (item.launch.saveBytes > core.saveArea.size() && !growSaveArea(item, batch))
    return false;
  used.time += item.plan->duration.known() ? item.plan->duration.mean() : assumedDuration;
  used.guardBlocks += guardBlocks;
  plan.timesAlone += item.isMeasured ? 1 : 0;
  return true;
}

/// Gets a save area that is large enough for the launch. False while a launch uses the present
/// area, and where the allocation fails: then this launch and all launches as large take another
/// kind.
bool BatchPlanner::growSaveArea(BatchItem &item, const Batch &batch) {
  if (!pipeline.batches.empty() || !batch.items.empty())
    return false;
  OperationRun &run = item.operation->run;
  assert(!run.progress->hasSaved());
  if (kinds.growSaveArea(item.launch.saveBytes))
    return true;
  if (!run.begun) {
    run.progress.reset();
    run.plan.reset();
  }
  return false;
}

bool BatchPlanner::mayGo(Batch &batch, const Decision &decision) {
  return std::ranges::all_of(batch.items, [&](BatchItem &each) {
    return each.dropped || each.canYield || each.operation->type != Operation::Type::Launch ||
           (goesByDuration(each.predicted, decision) && mayUseSms(each, decision));
  });
}

/// Reserves memory for the launch's list. False if there is none until a batch comes back, or if
/// the allocation fails and the user's kernel has to stand in. If the launch has begun already, it
/// is dropped and its stream fails.
bool BatchPlanner::reserveList(BatchItem &item, const Batch &batch) {
  std::uint64_t bytes = std::uint64_t{item.launch.listCapacity} * sizeof(std::uint32_t);
  ListRing &from = core.ring();
  item.list = from.allocate(bytes);
  if (item.list)
    return true;
  // A larger ring only while the old ring is empty. A resumed launch always finds space.
  if (!pipeline.batches.empty() || !batch.items.empty() || !from.empty())
    return false;
  std::uint64_t size = std::max({ListRing::bytesFor(bytes), 2 * from.size(), firstRingBytes});
  Result<DevicePtr> made = core.own.allocate(size);
  if (!made && item.operation->run.standIn())
    return false;
  if (!made) {
    core.queue.fail(*item.operation, made.error());
    item.dropped = true;
    item.canYield = false;
    item.launch.listCapacity = 0;
    return true;
  }
  from.reset(*made, size);
  item.list = from.allocate(bytes);
  assert(item.list);
  return true;
}

} // namespace tally::runtime
