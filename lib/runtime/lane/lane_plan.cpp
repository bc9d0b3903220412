// What a lane launches an operation as: its kind, and what that needs of the device.
#include "lane/lane.h"

#include <cassert>
#include <utility>

namespace tally::runtime {

namespace {

/// A guard list of 64 MiB: grids of up to 16 Mi blocks.
constexpr std::uint64_t maxListBytes = std::uint64_t{64} << 20;
/// Kernels and shapes whose durations are remembered; ever new ones must not grow without bound.
constexpr std::size_t maxWholePlans = 4096;

} // namespace

/// Picks the operation's kind when it is first looked at. On failure its stream has failed.
bool Lane::preparePlan(Operation &operation) {
  if (operation.type != Operation::Type::Launch)
    return true;
  if (operation.plan) {
    if (std::exchange(operation.mayChange, false))
      reconsider(operation);
    if (isOutdated(operation))
      leaveHeadroom(operation);
  }
  if (operation.plan)
    return true;
  if (!operation.kernel) {
    operation.plan = planByIdentity(operation);
    return true;
  }
  PlanRules rules = planRules();
  rules.took = operation.took;
  auto plan = operation.kernel->plan(device, operation.shape, operation.parameters, rules);
  if (!plan) {
    failOperation(operation, plan.error());
    return false;
  }
  operation.plan = std::move(*plan);
  operation.headroomVersion = rules.headroomVersion;
  if (operation.plan->kind)
    operation.progress.emplace(
        *operation.plan->kind, shapeForVariants(operation.kernel->facts(), operation.shape),
        operation.plan->sliceBlocks, operation.plan->workers,
        operation.kernel->facts().guardTakesTickets(), operation.plan->saveStride);
  return true;
}

PlanRules Lane::planRules() const {
  std::uint64_t version = options.headroom->version();
  return {options.kinds,           maxListBytes,    maxSaveBytes,
          maxSavedBlocks,          options.bound,   options.boundsToDrain,
          options.headroom->now(), version,         options.limitsSms,
          options.measures,        options.profiles};
}

/// A launch that yielded between blocks goes on inside of them where these have turned out to be
/// long: the first one of a kernel may be all that there is of it.
void Lane::reconsider(Operation &operation) {
  assert(batches.empty() && operation.begun);
  if (!operation.plan->blocks || operation.progress->kind() != Kind::Persistent)
    return;
  auto plan = operation.kernel->plan(device, operation.shape, operation.parameters, planRules());
  if (!plan || !(*plan)->kind || !stopsInsideBlocks(*(*plan)->kind) ||
      ((*plan)->saveBytes > saveAreaBytes && !allocateSaveArea((*plan)->saveBytes)))
    return;
  operation.progress->goOnAs(*(*plan)->kind, (*plan)->workers, (*plan)->saveStride);
  operation.plan = *plan;
  operation.isOfOneKind = false;
}

/// Whether it was planned to leave another room than there is to be left now.
bool Lane::isOutdated(const Operation &operation) const {
  return operation.plan->kind == Kind::Pause && operation.progress &&
         operation.headroomVersion != options.headroom->version();
}

/// What has not begun is planned anew, the rest of a launch gets other workers. Where it cannot, it
/// keeps those that it has, and nothing pauses while it is under way.
void Lane::leaveHeadroom(Operation &operation) {
  if (!operation.begun) {
    operation.progress.reset();
    operation.plan.reset();
    return;
  }
  PlanRules rules = planRules();
  operation.headroomVersion = rules.headroomVersion;
  auto plan = operation.kernel->plan(device, operation.shape, operation.parameters, rules);
  if (!plan || (*plan)->kind != Kind::Pause)
    return;
  operation.progress->goOnAs(Kind::Pause, (*plan)->workers, 0);
  operation.plan = *plan;
}

/// The plan of a kernel that there is nothing to choose for: it holds what it took.
std::shared_ptr<LaunchPlan> Lane::planByIdentity(const Operation &operation) {
  if (operation.identity == 0)
    return std::make_shared<LaunchPlan>();
  if (wholePlans.size() >= maxWholePlans)
    wholePlans.clear();
  std::shared_ptr<LaunchPlan> &known =
      wholePlans[{operation.identity, LoadedKernel::keyOf(operation.shape)}];
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
