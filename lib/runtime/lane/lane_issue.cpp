// What of a lane's work goes out next: plans a batch, which is sent then (lane_send.cpp).
#include "lane/lane.h"

#include <algorithm>
#include <cassert>

namespace tally::runtime {

using namespace std::chrono_literals;

namespace {

/// About how long a batch should run: long enough to hide the host's turn, short enough that little
/// is left to drain when a request comes: a launch that runs nothing takes the device some 2 us
/// too, and a request's first kernels wait for these.
constexpr Nanoseconds batchTime = 500us, batchTimeWhereAsked = 40us;
/// What a launch of unknown duration is taken for.
constexpr Nanoseconds assumedDuration = 50us;
/// Guards of one batch: an empty grid of this many blocks drains in about 25 us on an H200.
constexpr std::uint64_t batchGuardBlocks = 32768;
/// Things in two batches that are so few that a third may be under way.
constexpr std::size_t mostShort = 12;
constexpr std::uint64_t firstRingBytes = std::uint64_t{1} << 20;
/// Launches that are longer are timed, where that takes a write of the device's.
constexpr Nanoseconds worthTiming = 100us;

} // namespace

/// Whether the next operation may go, and as what.
std::optional<Permit> Lane::permit(const Gate &gate) const {
  // A stream that waits would keep waiting whoever waits for the whole device.
  if (gate.isClosed() && held.empty())
    return std::nullopt;
  std::uint64_t before = finished.load() + sent;
  if (gate.isClosed() || before < inheritsHighPriorityUntil.load())
    return Permit{gate.currentEpoch(), {.runBestEffort = true}};
  return gate.permit(classAt(before));
}

/// Which class of best effort what comes behind so many operations goes as.
std::uint32_t Lane::classAt(std::uint64_t before) const {
  return before < inheritsClassUntil ? std::min(inheritedClass, ownClass.load()) : ownClass.load();
}

/// Work of that class waits for the operations up to that number.
void Lane::inheritClass(std::uint64_t number, std::uint32_t bestEffortClass) {
  bool holds = finished.load() < inheritsClassUntil; // an earlier one, which may reach further
  inheritedClass = holds ? std::min(inheritedClass, bestEffortClass) : bestEffortClass;
  inheritsClassUntil = holds ? std::max(inheritsClassUntil, number) : number;
}

/// Two batches hide the host's turn, but for short ones. What is resumed is not worth hiding it.
bool Lane::isFull() const {
  if (!held.empty())
    return !batches.empty();
  if (batches.size() < 2)
    return false;
  std::size_t items = 0;
  for (const Batch &each : batches)
    items += each.items.size();
  return batches.size() == maxBatches || items > mostShort;
}

bool Lane::issue(const Gate &gate) {
  if (draining || sent == sendable())
    return false;
  if (const Batch *of = nullptr; newestThatYields(of) && addLate(batches.back()))
    return true;
  if (isFull())
    return false;
  // Until somebody else has ended a call, there is nothing on the device that what follows could
  // come behind.
  if (!batches.empty() && batches.back().ended)
    return false;
  // Sending takes this thread long enough to see the end of a short launch too late.
  if (!batches.empty() && !batches.back().items.empty() && batches.back().items.front().isMeasured)
    return false;
  std::optional<Permit> permitted = permit(gate);
  // A third one is more to drain when a request comes.
  if (batches.size() >= 2 && permitted && permitted->oftenAsked)
    return false;
  if (!permitted || (!batches.empty() && batches.front().epoch != permitted->epoch)) {
    traceWait(true);
    return false;
  }
  Batch batch;
  batch.epoch = permitted->epoch;
  batch.shares = permitted->shares;
  batch.sms = permitted->decision.sms;
  batch.mayBeAsked = permitted->oftenAsked;
  batch.slot = freeSlot();
  planBatch(batch, gate, *permitted);
  if (batch.items.empty()) {
    traceWait(true);
    return false;
  }
  if (batch.pauses())
    gate.expectPausing();
  else
    gate.expectOthers();
  Result<void> done = send(batch, gate);
  if (!done) {
    failAll(done.error());
    return true;
  }
  if (batch.marker == 0)
    return false;
  if (hasRanges && !batch.items.empty())
    beginBatchRange(batch);
  batches.push_back(std::move(batch));
  traceWait(false);
  return true;
}

std::size_t Lane::freeSlot() const {
  if (!held.empty())
    return maxBatches;
  return batches.empty() ? 0 : (batches.back().slot + 1) % maxBatches;
}

void Lane::planBatch(Batch &batch, const Gate &gate, const Permit &permit) {
  Budget used;
  used.decision = permit.decision;
  used.batchTime = permit.oftenAsked ? batchTimeWhereAsked : batchTime;
  used.wholesLeft = gate.wholesLeft();
  batch.items.reserve(std::min(sendable() - sent, maxItems));
  for (std::size_t i = sent; i < sendable() && batch.items.size() < maxItems; ++i)
    // What is heavy ends its batch; of a slice, more may have to come before the next operation.
    if (!planItem(i, batch, used) || batch.items.back().heavy)
      return;
}

/// Gives the batch what comes next as far as it may be late. Returns whether there was any.
bool Lane::addLate(Batch &batch) {
  std::size_t before = batch.late.size();
  auto isNext = [this](Operation &next) {
    // What the application put on its own stream has to be done too; launches of the lane wait for
    // that, but this one comes behind no launch that does.
    return next.type == Operation::Type::Put && next.mayBeLate && !next.stream->failed &&
           !next.failed && !(next.ordered && device.hasNews(*next.ordered)) && mayStart(next);
  };
  while (!batch.ended && sent < sendable() && isNext(*pending[sent])) {
    batch.late.push_back(pending[sent].get());
    ++sent;
  }
  return batch.late.size() > before;
}

/// Whether what it comes behind in other lanes is over. What is not goes as urgently as this.
bool Lane::mayStart(Operation &operation) {
  std::erase_if(operation.behind,
                [](const LanePosition &each) { return each.lane->isOver(each.number); });
  std::uint64_t before = finished.load() + sent;
  for (const LanePosition &each : operation.behind)
    if (before < inheritsHighPriorityUntil.load())
      each.lane->inheritHighPriority(each.number);
    else
      each.lane->inheritClass(each.number, classAt(before));
  return operation.behind.empty();
}

bool Lane::planItem(std::size_t index, Batch &batch, Budget &used) {
  Operation &operation = *pending[index];
  if (!mayStart(operation))
    return false;
  Item item;
  item.operation = &operation;
  item.resumes = operation.begun && operation.progress->kind() != Kind::Slice;
  bool planned = false;
  std::uint32_t client = operation.stream->client;
  if (client < maxPolicyClients && (used.decision.clients >> client & 1) == 0)
    return false;
  if (operation.stream->failed || operation.failed || !preparePlan(operation)) {
    item.dropped = item.completes = planned = true;
  } else {
    item.plan = operation.plan;
    item.leavesVariant = isBetweenWholes(index, batch, used);
    bool yielding =
        operation.progress && operation.progress->kind() != Kind::Slice && !item.leavesVariant;
    planned = yielding ? planYielding(item, batch, used) : planWhole(item, batch, used);
    if (planned && !yielding)
      putBehind(batch);
  }
  if (planned) {
    batch.items.push_back(std::move(item));
    heldSince.reset();
  }
  return planned;
}

/// Whether the launch stays within so many SMs. One of a kind with workers is made to, with fewer
/// of them; where it goes on with saved blocks, with no fewer than saved them.
bool Lane::fitsSms(Item &item, std::uint32_t sms) const {
  std::uint32_t all = device.info().smCount;
  if (sms >= all)
    return true;
  // Of what a call launches nothing is known.
  if (item.operation->type == Operation::Type::Call)
    return false;
  std::uint64_t blocks = item.launch.shape.grid.count();
  const std::optional<VariantLaunch> &progress = item.operation->progress;
  bool hasWorkers = progress && tally::hasWorkers(progress->kind()) &&
                    !item.operation->kernel->facts().maySpend(item.operation->shape.block.x) &&
                    item.launch.shape.cluster == Dim3{0, 0, 0};
  if (hasWorkers) {
    std::uint64_t perSm = std::max(item.plan->workers / all, 1u);
    item.launch.shape.grid.x = static_cast<std::uint32_t>(std::min(blocks, perSm * sms));
    return sms != 0 && item.launch.shape.grid.x >= progress->leastWorkers();
  }
  bool isWhole = item.operation->type == Operation::Type::Launch && !progress;
  bool confined = isWhole && options.smsOfWholes != 0 && options.smsOfWholes <= sms;
  return confined || blocks <= sms;
}

bool Lane::planYielding(Item &item, const Batch &batch, Budget &used) {
  item.canYield = item.completes = true;
  item.launch = item.operation->progress->next();
  // What is measured goes alone.
  LaunchPlan &plan = *item.plan;
  item.isMeasured = wantsMeasurement(plan, options.bound);
  item.heavy = plan.isTried || item.isMeasured;
  if (item.heavy && !batch.items.empty())
    return false;
  item.isTimed = plan.blocks && (item.heavy || plan.duration.mean() >= worthTiming);
  const DurationEstimate &duration = item.plan->duration;
  if ((duration.known() ? duration.mean() : anyDuration) > used.decision.longest ||
      !fitsSms(item, used.decision.sms))
    return false;
  std::uint64_t guardBlocks =
      item.operation->progress->kind() == Kind::Guard ? item.launch.shape.grid.count() : 0;
  if (!batch.items.empty() &&
      (used.time >= used.batchTime || used.guardBlocks + guardBlocks > batchGuardBlocks))
    return false;
  // Work that pauses is told so with all that is under way.
  if (isBehindWait(batch) && plan.kind == Kind::Pause)
    return false;
  if (item.launch.listCapacity != 0 && !reserveList(item, batch))
    return false;
  if (item.launch.saveBytes > saveAreaBytes && !growSaveArea(item, batch))
    return false;
  used.time += item.plan->duration.known() ? item.plan->duration.mean() : assumedDuration;
  used.guardBlocks += guardBlocks;
  plan.timesAlone += item.isMeasured ? 1 : 0;
  return true;
}

/// Headroom for the launch's list; false when there is none before something comes back, or, where
/// the list cannot be had at all, as the user's kernel has to stand in. A launch that has begun is
/// dropped then, its stream failed.
bool Lane::reserveList(Item &item, const Batch &batch) {
  std::uint64_t bytes = std::uint64_t{item.launch.listCapacity} * sizeof(std::uint32_t);
  ListRing &from = ring();
  item.list = from.allocate(bytes);
  if (item.list)
    return true;
  // A bigger ring only while the old one holds nothing. What is resumed always finds room.
  if (!batches.empty() || !batch.items.empty() || !from.empty())
    return false;
  std::uint64_t size = std::max({ListRing::bytesFor(bytes), 2 * from.size(), firstRingBytes});
  Result<DevicePtr> made = own.allocate(size);
  if (!made && standIn(*item.operation))
    return false;
  if (!made) {
    failOperation(*item.operation, made.error());
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
