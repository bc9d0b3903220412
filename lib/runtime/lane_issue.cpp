// The half of a lane that sends work: plans a batch, then issues it under one epoch.
#include "lane.h"

#include <algorithm>
#include <cassert>
#include <cstring>

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
/// Copies and fills in one batch.
constexpr std::size_t batchWholes = 4;
/// Things in two batches that are so few that a third may be under way.
constexpr std::size_t mostShort = 12;
constexpr std::uint64_t firstRingBytes = std::uint64_t{1} << 20;
/// Launches that are longer are timed, where that takes a write of the device's.
constexpr Nanoseconds worthTiming = 100us;
/// A turn of the host takes less; what waits longer waits for something else.
constexpr Nanoseconds longestTurn = 200us;

/// The most that a launch should take.
Nanoseconds predictionOf(const LaunchPlan &plan) {
  return plan.duration.known() ? plan.duration.high() : anyDuration;
}

} // namespace

/// Whether the next operation may go, and as what.
std::optional<Permit> Lane::permit(const Gate &gate) const {
  // A stream that waits would keep waiting whoever waits for the whole device.
  if (gate.isClosed() && held.empty())
    return std::nullopt;
  std::uint64_t before = finished.load() + sent;
  if (gate.isClosed() || before < hurryUntil.load())
    return Permit{gate.currentEpoch(), {.runBestEffort = true}};
  return gate.permit(classAt(before));
}

/// Which class of best effort what comes behind so many operations goes as.
std::uint32_t Lane::classAt(std::uint64_t before) const {
  return before < lentUntil ? std::min(lent, ownClass.load()) : ownClass.load();
}

/// Work of that class waits for the operations up to that number.
void Lane::lend(std::uint64_t number, std::uint32_t bestEffortClass) {
  bool holds = finished.load() < lentUntil; // an earlier one, which may reach further
  lent = holds ? std::min(lent, bestEffortClass) : bestEffortClass;
  lentUntil = holds ? std::max(lentUntil, number) : number;
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
    if (!planItem(*pending[i], batch, used) || batch.items.back().heavy)
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
    if (before < hurryUntil.load())
      each.lane->hurry(each.number);
    else
      each.lane->lend(each.number, classAt(before));
  return operation.behind.empty();
}

bool Lane::planItem(Operation &operation, Batch &batch, Budget &used) {
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
    bool yielding = operation.progress && operation.progress->kind() != Kind::Slice;
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
    item.predicted = predictionOf(*item.plan);
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
  if (operation.progress) {
    item.heavy = true;
    item.predicted = anyDuration;
    item.launch = operation.progress->next();
    VariantLaunch after = *operation.progress;
    after.absorb({});
    item.completes = after.finished();
    return fitsSms(item, used.decision.sms);
  }
  item.launch.shape = operation.shape;
  item.predicted = predictionOf(*item.plan);
  item.heavy = item.predicted > options.bound || item.plan->isTried;
  if (item.plan->isTried && !batch.items.empty())
    return false;
  return fitsBehind(item.predicted, sumOf(used.wholesLeft, batch.wholes())) &&
         fitsSms(item, used.decision.sms) && goesByDuration(item.predicted, used);
}

/// Whether a kernel that cannot yield may come behind others, of which so much is left. A request
/// waits for all of them: for the bound's worth, or for one longer one.
bool Lane::fitsBehind(Nanoseconds predicted, Nanoseconds left) const {
  if (left.count() == 0 || sumOf(left, predicted) <= options.bound)
    return true;
  return predicted != anyDuration && left <= options.bound / 2;
}

/// Whether the policy lets a kernel of that duration go now.
bool Lane::goesByDuration(Nanoseconds predicted, const Budget &used) {
  if (predicted <= std::min(used.decision.longestWhole, used.decision.longest))
    return true;
  if (!heldSince)
    heldSince = options.clock();
  return false;
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

/// Room for the launch's list; false when there is none before something comes back, or, where the
/// list cannot be had at all, as the user's kernel has to stand in. A launch that has begun is
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

/// Issues the batch's items while the gate stays open under its epoch; those that did not go out
/// are removed from the batch. An error is the lane's, not one operation's.
Result<void> Lane::send(Batch &batch, const Gate &gate) {
  if (batch.canYield())
    if (Result<void> claimed = claimStates(batch); !claimed)
      return claimed;
  batch.sentAt = options.clock();
  // Where it could have been sent with the last one, but had to wait for that, the device waits for
  // the host.
  bool waited = hadMore && lastEpoch == batch.epoch && batch.sentAt - lastCollected < longestTurn;
  batch.waitedFrom = waited ? lastCollected : batch.sentAt;
  batch.hasOthers = gate.lanesUnderWay() > (underWay() ? 1 : 0);
  std::size_t gone = 0;
  bool isPut = false; // something of it, be it a wait
  auto permitted = [&] {
    std::optional<Permit> now = permit(gate);
    return now && now->epoch == batch.epoch;
  };
  for (; gone < batch.items.size() && permitted(); ++gone) {
    Item &item = batch.items[gone];
    if (gone == 0 && batch.behind != 0) {
      if (isHeldUp(*item.operation))
        break;
      if (Result<void> waits = sendWait(batch); !waits)
        return waits;
      isPut = true;
    }
    if (!item.dropped)
      if (Result<void> issued = sendItem(batch, gone); !issued) {
        if (isHeldUp(*item.operation))
          break;
        // The device does not take the variant in this shape: not from now on either.
        std::shared_ptr<LaunchPlan> plan = item.plan;
        if (standIn(*item.operation)) {
          plan->kind.reset();
          plan->duration = {};
          break;
        }
        failOperation(*item.operation, issued.error());
        item.dropped = item.completes = true;
        item.canYield = false;
      }
    if (item.completes)
      ++sent;
  }
  if (gone == batch.items.size() && batch.canYield())
    addLate(batch);
  while (batch.items.size() > gone) {
    if (batch.items.back().list)
      ring().undo();
    batch.items.pop_back();
  }
  if (gone == 0 && !isPut)
    return {};
  if (batch.canYield() && held.empty())
    nextState = (batch.firstState + gone) % (2 * options.halfRing);
  batch.marker = ++lastMarker;
  batch.markerAt = &markerWord;
  Result<void> marked = batch.ended ? Result<void>() : sendMarker(batch);
  batch.issuedAt = batch.notBegunAt = options.clock();
  return marked;
}

Result<void> Lane::sendMarker(Batch &batch) {
  if (!held.empty())
    return putMarker(batch, markerResumed, current);
  if (!batch.items.empty() && batch.items.back().operation->callsKernel)
    if (Result<bool> behind = device.waitFor(current, *batch.items.back().operation->ordered);
        !behind)
      return behind.error();
  // Between two kernels of a stream a write takes 2 us of an H200's, an event that another stream
  // waits for none. By itself that stream's write comes later, which nobody sees who has more to
  // send.
  bool isLast = sent == pending.size() && !inboxFilled.load();
  if (!marks || isLast || !device.areStreamsApart())
    return putMarker(batch, markerWord, current);
  if (Result<bool> behind = device.waitFor(*marks, current); !behind)
    return behind.error();
  return putMarker(batch, markerBeside, *marks);
}

Result<void> Lane::putMarker(Batch &batch, const MappedMemory &word, StreamId on) {
  batch.markerAt = &word;
  return device.writeValue(on, word.device, batch.marker);
}

/// Whether what the operation comes behind cannot be told at the moment.
bool Lane::isHeldUp(const Operation &operation) const {
  return operation.ordered && device.isHeldUp(*operation.ordered);
}

/// Lets the user's kernel stand in for a launch of which nothing has run. Returns whether it can.
bool Lane::standIn(Operation &operation) {
  if (!operation.progress || operation.begun)
    return false;
  operation.progress.reset();
  operation.plan = std::make_shared<LaunchPlan>();
  return true;
}

/// Gives the batch as many consecutive cleared states as it has items. A half of the ring is
/// cleared when it is entered, in the order of the stream.
Result<void> Lane::claimStates(Batch &batch) {
  if (!held.empty()) {
    batch.firstState = 2 * options.halfRing;
    return device.fill(current, stateAddress(batch, 0), std::byte{0},
                       maxItems * sizeof(tally_launch_state));
  }
  std::size_t half = nextState / options.halfRing;
  bool entered = nextState % options.halfRing == 0;
  if (nextState % options.halfRing + batch.items.size() > options.halfRing) {
    half = 1 - half;
    entered = true;
  }
  batch.firstState = entered ? half * options.halfRing : nextState;
  if (!entered)
    return {};
  if (freshHalves > 0) {
    --freshHalves;
    return {};
  }
  if (Result<void> behind = continueOn(stream); !behind)
    return behind;
  return device.fill(stream, stateAddress(batch, 0), std::byte{0},
                     options.halfRing * sizeof(tally_launch_state));
}

Result<void> Lane::sendItem(Batch &batch, std::size_t index) {
  Operation &operation = *batch.items[index].operation;
  bool isApart = operation.type == Operation::Type::Launch && !operation.progress && held.empty();
  StreamId on = isApart ? wholes : home();
  if (Result<void> behind = continueOn(on); !behind)
    return behind;
  switch (operation.type) {
  case Operation::Type::Call:
    operation.call();
    batch.ended = operation.ended;
    break;
  case Operation::Type::Launch:
    return sendLaunch(batch, index);
  case Operation::Type::CopyToDevice:
    return device.copyToDevice(on, operation.device, operation.from);
  case Operation::Type::CopyToHost:
    return device.copyToHost(on, operation.to, operation.device);
  case Operation::Type::Fill:
    return device.fill(on, operation.device, operation.value, operation.bytes);
  case Operation::Type::Put:
    if (operation.ordered)
      if (Result<bool> behind = device.waitFor(on, *operation.ordered); !behind)
        return behind.error();
    if (operation.put)
      operation.put(on);
    break;
  }
  return {};
}

/// The states of the ring are zero; only a persistent launch that is resumed starts from another.
Result<void> Lane::setState(DevicePtr address, const tally_launch_state &state) {
  static_assert(offsetof(tally_launch_state, next_block) == 0);
  assert(state.live_workers == 0 && state.yielded == 0);
  return state.next_block == 0 ? Result<void>()
                               : device.writeValue(current, address, state.next_block);
}

/// Puts a launch behind the application's stream, as what is resumed was already. When one that is
/// timed has to wait the device says when it is let go, which takes 2 us of an H200's.
Result<void> Lane::sendBehind(Batch &batch, std::size_t index) {
  const Item &item = batch.items[index];
  if (!item.operation->ordered || !held.empty())
    return {};
  Result<bool> waits = device.waitFor(current, *item.operation->ordered);
  if (!waits)
    return waits.error();
  if (!*waits || !item.isTimed || index != 0)
    return {};
  batch.beginMark = lastMarker + 1;
  return device.writeValue(current, beginWord.device, batch.beginMark);
}

Result<void> Lane::sendLaunch(Batch &batch, std::size_t index) {
  const Item &item = batch.items[index];
  Operation &operation = *item.operation;
  if (Result<void> behind = sendBehind(batch, index); !behind)
    return behind;
  if (!operation.progress && operation.launchWhole) {
    operation.launchWhole(current);
    countOne(counts.physicalLaunches);
    return {};
  }
  const bundle::Kernel &facts = operation.kernel->facts();
  FunctionId function = operation.kernel->userFunction();
  LaunchShape shape = item.launch.shape;
  parameterBuffer.assign(operation.kernel->parameterBytes(operation.parameters.size()),
                         std::byte{0});
  std::copy(operation.parameters.begin(), operation.parameters.end(), parameterBuffer.begin());
  if (operation.progress) {
    const LoadedKernel::Variant &variant = operation.kernel->variant(operation.progress->kind());
    function = item.launch.resumeEntry ? variant.resume : variant.entry;
    tally_launch_params params = item.launch.params;
    params.control = options.control;
    params.epoch = batch.epoch;
    params.state = stateAddress(batch, index);
    if (Result<void> set = setState(params.state, item.launch.state); !set)
      return set;
    params.save_area = item.launch.saveBytes == 0 ? 0 : saveArea;
    if (operation.progress->kind() == Kind::Pause) {
      params.stay = batch.mayBeAsked ? stayOf(*item.plan) : 0;
      shape.dynamicSharedBytes += item.plan->padding;
    }
    params.list_out = item.list ? ring().address(*item.list) : 0;
    assert(!item.launch.readsList || retained);
    params.list_in = item.launch.readsList ? retainedIn->address(*retained) : 0;
    parameterBuffer.resize(facts.tallyParameterOffset() + sizeof params);
    std::memcpy(parameterBuffer.data() + facts.tallyParameterOffset(), &params, sizeof params);
  }
  Result<void> launched = operation.launchBy
                              ? operation.launchBy(current, function, shape, parameterBuffer)
                              : device.launch(current, function, shape, parameterBuffer);
  if (!launched)
    return Error{facts.name + ": " + launched.error().message};
  operation.begun = operation.progress.has_value();
  countOne(counts.physicalLaunches);
  if (operation.progress && operation.progress->kind() == Kind::Slice)
    operation.progress->absorb({});
  return {};
}

} // namespace tally::runtime
