// What a lane launches an operation as: its kind, and what that needs of the device.
#include "base/spin.h"
#include "lane/lane.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace tally::runtime {

namespace {

/// A guard list of 64 MiB: grids of up to 16 Mi blocks.
constexpr std::uint64_t maxListBytes = std::uint64_t{64} << 20;
/// Blocks that may stand in a save area: 64 an SM of as many as there are.
constexpr std::uint32_t maxSavedBlocks = 16384;
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
      leaveRoom(operation);
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
  operation.roomVersion = rules.roomVersion;
  if (operation.plan->kind)
    operation.progress.emplace(
        *operation.plan->kind, shapeForVariants(operation.kernel->facts(), operation.shape),
        operation.plan->sliceBlocks, operation.plan->workers,
        operation.kernel->facts().guardTakesTickets(), operation.plan->saveStride);
  return true;
}

PlanRules Lane::planRules() const {
  std::uint64_t version = options.room->version();
  return {options.kinds,     maxListBytes,          maxSaveBytes,        maxSavedBlocks,
          options.bound,     options.boundsToDrain, options.room->now(), version,
          options.limitsSms, options.measures,      options.profiles};
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
         operation.roomVersion != options.room->version();
}

/// What has not begun is planned anew, the rest of a launch gets other workers. Where it cannot, it
/// keeps those that it has, and nothing pauses while it is under way.
void Lane::leaveRoom(Operation &operation) {
  if (!operation.begun) {
    operation.progress.reset();
    operation.plan.reset();
    return;
  }
  PlanRules rules = planRules();
  operation.roomVersion = rules.roomVersion;
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

/// A save area for the launch; false when that has to wait until nothing uses the one there is, and
/// where none can be had: the launch takes another kind then, and so do all as large ones.
bool Lane::growSaveArea(Item &item, const Batch &batch) {
  if (!batches.empty() || !batch.items.empty())
    return false;
  assert(!item.operation->progress->hasSaved());
  if (allocateSaveArea(item.launch.saveBytes))
    return true;
  if (!item.operation->begun) {
    item.operation->progress.reset();
    item.operation->plan.reset();
  }
  return false;
}

/// While nothing uses the one there is. Where none can be had, no launch that needs as much gets
/// the kind any more.
bool Lane::allocateSaveArea(std::uint64_t least) {
  if (takeSaveArea(std::max(least, std::min(2 * saveAreaBytes, maxSaveBytes))))
    return true;
  maxSaveBytes = least - 1;
  counts.saveAreasRefused.fetch_add(1);
  return false;
}

bool Lane::takeSaveArea(std::uint64_t bytes) {
  constexpr std::uint64_t headers = saveHeaderBytes(maxSavedBlocks);
  Result<DevicePtr> area = own.allocate(headers + bytes);
  if (!area)
    return false;
  // Then the device fails, as the next call for a launch says; who plans still holds operations.
  if (!clear(*area, headers))
    return false;
  saveArea = *area + headers;
  saveAreaBytes = bytes;
  return true;
}

/// Ahead of what is sent from now on. Not on the stream before its first kernel: on an H200 each
/// kernel of a stream that has begun with a fill of a megabyte begins 1 us later, for good.
Result<void> Lane::clear(DevicePtr memory, std::uint64_t bytes) {
  if (counts.physicalLaunches.load() != 0) {
    Result<void> behind = continueOn(home());
    return behind ? device.fill(current, memory, std::byte{0}, bytes) : behind;
  }
  Result<StreamId> other = device.createStream(StreamPriority::Low);
  if (!other)
    return other.error();
  Result<void> cleared = device.fill(*other, memory, std::byte{0}, bytes);
  if (cleared)
    cleared = awaitShortly(*other);
  Result<void> ended = device.destroyStream(*other);
  return cleared ? ended : cleared;
}

/// What is sent from now on comes behind what is on the stream, for which this waits only as long
/// as it should take: the GPU may be full of kernels that wait for the calling thread.
Result<void> Lane::awaitShortly(StreamId other) {
  constexpr int mostLooks = 10000; // of a microsecond or so
  for (int look = 0; look < mostLooks; ++look) {
    Result<bool> idle = device.isIdle(other);
    if (!idle)
      return idle.error();
    if (*idle)
      return {};
    pauseProcessor();
  }
  if (Result<bool> behind = device.waitFor(stream, other); !behind)
    return behind.error();
  return {};
}

/// Before there are requests: the driver may take a tenth of a second for memory, and launches of
/// the process wait for it. What all SMs hold is enough but for kernels with much local memory;
/// where it cannot be had now the first launch that needs an area asks again.
void Lane::takeFirstSaveArea() {
  const DeviceInfo &has = device.info();
  if (has.registersPerSm == 0 || !contains(options.kinds, Kind::Checkpoint))
    return;
  std::uint64_t perSm =
      std::uint64_t{has.registersPerSm} * sizeof(std::uint32_t) + has.sharedBytesPerSm;
  static_cast<void>(takeSaveArea(std::min(has.smCount * perSm, maxSaveBytes)));
}

} // namespace tally::runtime
