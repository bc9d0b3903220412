#include "lane/kind_planner.h"

#include <cassert>
#include <utility>

namespace tally::runtime {

namespace {

/// A guard list of 64 MiB: grids of up to 16 Mi blocks.
constexpr std::uint64_t maxListBytes = std::uint64_t{64} << 20;
/// Most kernels and shapes whose durations are remembered, so that memory stays bounded.
constexpr std::size_t maxPlansByIdentity = 4096;

} // namespace

bool KindPlanner::prepare(Operation &operation) {
  if (operation.type != Operation::Type::Launch)
    return true;
  if (operation.run.plan) {
    if (std::exchange(operation.run.mayChange, false))
      reconsider(operation);
    if (isOutdated(operation))
      leaveHeadroom(operation);
  }
  if (operation.run.plan)
    return true;
  if (!operation.kernel) {
    operation.run.plan = byIdentity(operation);
    return true;
  }
  PlanRules now = rules();
  now.took = operation.took;
  auto plan = operation.kernel->plan(core.device, operation.shape, operation.parameters, now);
  if (!plan) {
    core.queue.fail(operation, plan.error());
    return false;
  }
  startAs(*plan, operation);
  operation.run.headroomVersion = now.headroomVersion;
  return true;
}

void KindPlanner::startAs(const std::shared_ptr<LaunchPlan> &plan, Operation &operation) {
  operation.run.plan = plan;
  if (plan->kind)
    operation.run.progress.emplace(*plan->kind,
                                   shapeForVariants(operation.kernel->facts(), operation.shape),
                                   plan->sliceBlocks, plan->workers,
                                   operation.kernel->facts().guardTakesTickets(), plan->saveStride);
}

void KindPlanner::fitTo(std::uint32_t sms, Operation &operation) {
  OperationRun &run = operation.run;
  if (!run.progress || run.begun || run.plan->isTried || run.progress->kind() != Kind::Guard)
    return;
  double part = static_cast<double>(sms) / core.device.info().smCount;
  auto plan =
      operation.kernel->planOnPart(part, run.plan, operation.shape, operation.parameters, rules());
  if (plan != run.plan)
    startAs(plan, operation);
}

PlanRules KindPlanner::rules() const {
  std::uint64_t version = core.options.headroom->version();
  return {core.options.kinds,           maxListBytes,
          core.saveArea.limit(),        SaveArea::maxSavedBlocks,
          core.options.bound,           core.options.boundsToDrain,
          core.options.headroom->now(), version,
          core.options.limitsSms,       core.options.measures,
          core.options.profiles};
}

/// Resumes a launch that yielded between blocks with a kind that stops inside blocks, if its blocks
/// have turned out to be long: a kernel may be launched only once.
void KindPlanner::reconsider(Operation &operation) {
  assert(core.pipeline.batches.empty() && operation.run.begun);
  if (!operation.run.plan->blocks || operation.run.progress->kind() != Kind::Persistent)
    return;
  auto plan = operation.kernel->plan(core.device, operation.shape, operation.parameters, rules());
  if (!plan || !(*plan)->kind || !stopsInsideBlocks(*(*plan)->kind) ||
      ((*plan)->saveBytes > core.saveArea.size() && !growSaveArea((*plan)->saveBytes)))
    return;
  operation.run.progress->goOnAs(*(*plan)->kind, (*plan)->workers, (*plan)->saveStride);
  operation.run.plan = *plan;
  operation.run.timing.isOfOneKind = false;
}

bool KindPlanner::growSaveArea(std::uint64_t least) {
  if (core.saveArea.allocate(least, core.counts.hasLaunched(), core.pipeline.isHeld()))
    return true;
  core.counts.saveAreasRefused.fetch_add(1);
  return false;
}

/// Whether the operation was planned to leave another headroom than it should leave now.
bool KindPlanner::isOutdated(const Operation &operation) const {
  return operation.run.plan->kind == Kind::Pause && operation.run.progress &&
         operation.run.headroomVersion != core.options.headroom->version();
}

/// Plans a launch that has not begun anew, and gives the rest of a begun launch other workers.
/// Where that is impossible the launch keeps its workers, and nothing pauses while it is under way.
void KindPlanner::leaveHeadroom(Operation &operation) {
  if (!operation.run.begun) {
    operation.run.progress.reset();
    operation.run.plan.reset();
    return;
  }
  PlanRules now = rules();
  operation.run.headroomVersion = now.headroomVersion;
  auto plan = operation.kernel->plan(core.device, operation.shape, operation.parameters, now);
  if (!plan || (*plan)->kind != Kind::Pause)
    return;
  operation.run.progress->goOnAs(Kind::Pause, (*plan)->workers, 0);
  operation.run.plan = *plan;
}

std::shared_ptr<LaunchPlan> KindPlanner::byIdentity(const Operation &operation) {
  if (operation.identity == 0)
    return std::make_shared<LaunchPlan>();
  if (plansByIdentity.size() >= maxPlansByIdentity)
    plansByIdentity.clear();
  std::shared_ptr<LaunchPlan> &known =
      plansByIdentity[{operation.identity, LoadedKernel::keyOf(operation.shape)}];
  if (!known)
    known = std::make_shared<LaunchPlan>();
  if (operation.took.count() != 0) {
    Nanoseconds before = known->duration.mean();
    if (before >= 2 * operation.took || operation.took >= 2 * before)
      known->duration = {};
    known->duration.add(operation.took);
  }
  return known;
}

} // namespace tally::runtime
