// Sends a batch of a lane's, under one epoch.
#include "lane/lane.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace tally::runtime {

using namespace std::chrono_literals;

namespace {

/// A turn of the host takes less; what waits longer waits for something else.
constexpr Nanoseconds longestTurn = 200us;

} // namespace

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
  bool isApart = operation.type == Operation::Type::Launch && held.empty() &&
                 (!operation.progress || batch.items[index].leavesVariant);
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
  bool byVariant = operation.progress && !item.leavesVariant;
  if (!byVariant && operation.launchWhole) {
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
  if (byVariant) {
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
  operation.begun = byVariant;
  countOne(counts.physicalLaunches);
  if (byVariant && operation.progress->kind() == Kind::Slice)
    operation.progress->absorb({});
  return {};
}

} // namespace tally::runtime
