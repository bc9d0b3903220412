#include "lane/batch_sender.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace tally::runtime {

Result<void> BatchSender::send(Batch &batch, const Gate &gate) {
  const Operation &first = *batch.items.front().operation;
  bool mayBeOnApplications = first.type != Operation::Type::Call && first.ordered &&
                             batch.behind == 0 && streams.mayUseApplication();
  Result<void> sent;
  if (mayBeOnApplications && core.device.putOnApplications(*first.ordered, [&] {
        sent = sendOn(*first.ordered, batch, gate);
      }))
    return sent;
  return sendOn(own(batch), batch, gate);
}

Result<void> BatchSender::sendOn(StreamId home, Batch &batch, const Gate &gate) {
  if (batch.canYield()) {
    Result<std::size_t> claimed = core.states.claim(batch.items.size(), home, pipeline.isHeld());
    if (!claimed)
      return claimed.error();
    batch.firstState = *claimed;
  }
  batch.sentAt = core.options.clock();
  batch.waitedFrom = core.times.waitedFrom(batch);
  batch.hasOthers = gate.lanesUnderWay() > (pipeline.batches.empty() ? 0 : 1);
  std::size_t gone = 0;
  bool isPut = false; // whether anything was put on a stream, be it a wait
  auto permitted = [&] {
    std::optional<Permit> now = core.permit(gate);
    return now && now->epoch == batch.epoch;
  };
  for (; gone < batch.items.size() && permitted(); ++gone) {
    BatchItem &item = batch.items[gone];
    if (gone == 0 && batch.behind != 0) {
      if (isHeldUp(*item.operation))
        break;
      if (Result<void> waiting = waits.send(batch); !waiting)
        return waiting;
      isPut = true;
    }
    if (!item.dropped)
      if (Result<void> issued = sendItem(home, batch, gone); !issued) {
        if (isHeldUp(*item.operation))
          break;
        // The device does not take the variant in this shape: do not try it again.
        std::shared_ptr<LaunchPlan> plan = item.plan;
        if (item.operation->run.standIn()) {
          plan->kind.reset();
          plan->duration = {};
          break;
        }
        core.queue.fail(*item.operation, issued.error());
        item.dropped = item.completes = true;
        item.canYield = false;
      }
    if (item.completes)
      ++pipeline.sent;
  }
  if (gone == batch.items.size() && batch.canYield())
    planner.addLate(batch);
  while (batch.items.size() > gone) {
    if (batch.items.back().list)
      core.ring().undo();
    batch.items.pop_back();
  }
  if (Result<void> left = streams.leaveApplication(); !left)
    return left;
  if (gone == 0 && !isPut)
    return {};
  if (batch.canYield())
    core.states.advance(batch.firstState, gone, pipeline.isHeld());
  batch.marker = ++core.markers.last;
  batch.markerAt = &core.markers.main;
  Result<void> marked = batch.ended ? Result<void>() : sendMarker(batch);
  batch.issuedAt = batch.notBegunAt = core.options.clock();
  return marked;
}

Result<void> BatchSender::sendMarker(Batch &batch) {
  if (pipeline.isHeld())
    return putMarker(batch, core.markers.resumed, streams.current());
  if (!batch.items.empty() && batch.items.back().operation->callsKernel)
    if (Result<bool> behind =
            core.device.waitFor(streams.current(), *batch.items.back().operation->ordered);
        !behind)
      return behind.error();
  // Between two kernels of a stream a write costs an H200 2 us; an event that another stream waits
  // for costs nothing. The other stream's write comes later, which does not matter to a lane that
  // has more to send.
  bool isLast = pipeline.sent == pipeline.pending.size() && !core.queue.hasNew();
  std::optional<StreamId> marks = streams.marks();
  if (!marks || isLast || !core.device.areStreamsApart())
    return putMarker(batch, core.markers.main, streams.current());
  if (Result<bool> behind = core.device.waitFor(*marks, streams.current()); !behind)
    return behind.error();
  return putMarker(batch, core.markers.beside, *marks);
}

Result<void> BatchSender::putMarker(Batch &batch, const MappedMemory &word, StreamId on) {
  batch.markerAt = &word;
  return core.device.writeValue(on, word.device, batch.marker);
}

bool BatchSender::isHeldUp(const Operation &operation) const {
  return operation.ordered && core.device.isHeldUp(*operation.ordered);
}

Result<void> BatchSender::sendItem(StreamId home, Batch &batch, std::size_t index) {
  Operation &operation = *batch.items[index].operation;
  bool isApart = operation.type == Operation::Type::Launch && !pipeline.isHeld() &&
                 (!operation.run.progress || batch.items[index].leavesVariant);
  StreamId on = operation.ordered == home ? home : isApart ? streams.nonPreemptible() : own(batch);
  if (Result<void> behind = streams.continueOn(on); !behind)
    return behind;
  switch (operation.type) {
  case Operation::Type::Call:
    operation.call();
    batch.ended = operation.ended;
    break;
  case Operation::Type::Launch:
    return sendLaunch(batch, index);
  case Operation::Type::CopyToDevice:
    return core.device.copyToDevice(on, operation.transfer.device, operation.transfer.from);
  case Operation::Type::CopyToHost:
    return core.device.copyToHost(on, operation.transfer.to, operation.transfer.device);
  case Operation::Type::Fill:
    return core.device.fill(on, operation.transfer.device, operation.transfer.value,
                            operation.transfer.bytes);
  case Operation::Type::Put:
    if (operation.ordered)
      if (Result<bool> behind = core.device.waitFor(on, *operation.ordered); !behind)
        return behind.error();
    if (operation.put)
      operation.put(on);
    break;
  }
  return {};
}

/// The states of the ring are zero; only a resumed launch that counts blocks starts from another.
Result<void> BatchSender::setState(DevicePtr address, const tally_launch_state &state) {
  static_assert(offsetof(tally_launch_state, next_block) == 0);
  assert(state.live_workers == 0 && state.yielded == 0);
  return state.next_block == 0
             ? Result<void>()
             : core.device.writeValue(streams.current(), address, state.next_block);
}

/// Makes the launch wait for the application's stream; a resumed launch has waited already. If a
/// timed launch has to wait, the device writes a word when the wait is over, which costs an H200
/// 2 us.
Result<void> BatchSender::sendBehind(Batch &batch, std::size_t index) {
  const BatchItem &item = batch.items[index];
  if (!item.operation->ordered || pipeline.isHeld())
    return {};
  Result<bool> waits = core.device.waitFor(streams.current(), *item.operation->ordered);
  if (!waits)
    return waits.error();
  if (!*waits || !item.isTimed || index != 0)
    return {};
  batch.beginMark = core.markers.last + 1;
  return core.device.writeValue(streams.current(), core.markers.begin.device, batch.beginMark);
}

Result<void> BatchSender::sendLaunch(Batch &batch, std::size_t index) {
  const BatchItem &item = batch.items[index];
  Operation &operation = *item.operation;
  if (Result<void> behind = sendBehind(batch, index); !behind)
    return behind;
  bool byVariant = operation.run.progress && !item.leavesVariant;
  if (!byVariant && operation.launchUserKernel) {
    operation.launchUserKernel(streams.current());
    countOne(core.counts.physicalLaunches);
    return {};
  }
  const bundle::Kernel &facts = operation.kernel->facts();
  FunctionId function = operation.kernel->userFunction();
  LaunchShape shape = item.launch.shape;
  parameterBuffer.assign(operation.kernel->parameterBytes(operation.parameters.size()),
                         std::byte{0});
  std::copy_n(operation.parameters.data(), operation.parameters.size(), parameterBuffer.begin());
  if (byVariant) {
    const LoadedKernel::Variant &variant =
        operation.kernel->variant(operation.run.progress->kind());
    function = item.launch.resumeEntry ? variant.resume : variant.entry;
    tally_launch_params params = item.launch.params;
    params.control = core.options.control;
    params.epoch = batch.epoch;
    params.state = core.stateAddress(batch, index);
    if (Result<void> set = setState(params.state, item.launch.state); !set)
      return set;
    params.save_area = item.launch.saveBytes == 0 ? 0 : core.saveArea.address();
    if (operation.run.progress->kind() == Kind::Pause) {
      params.stay = batch.mayBeAsked ? stayOf(*item.plan) : 0;
      shape.dynamicSharedBytes += item.plan->padding;
    }
    params.list_out = item.list ? core.ring().address(*item.list) : 0;
    assert(!item.launch.readsList || core.lists.isRetaining());
    params.list_in = item.launch.readsList ? core.lists.retainedAddress() : 0;
    parameterBuffer.resize(facts.tallyParameterOffset() + sizeof params);
    std::memcpy(parameterBuffer.data() + facts.tallyParameterOffset(), &params, sizeof params);
  }
  Result<void> launched =
      operation.launchBy ? operation.launchBy(streams.current(), function, shape, parameterBuffer)
                         : core.device.launch(streams.current(), function, shape, parameterBuffer);
  if (!launched)
    return Error{facts.name + ": " + launched.error().message};
  operation.run.begun = byVariant;
  countOne(core.counts.physicalLaunches);
  if (streams.confined(batch.sms) == streams.current()) {
    countOne(core.counts.confinedLaunches);
    core.counts.confinedSms.store(batch.sms);
  }
  if (byVariant && operation.run.progress->kind() == Kind::Slice)
    operation.run.progress->absorb({});
  return {};
}

} // namespace tally::runtime
