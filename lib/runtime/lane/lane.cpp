#include "lane/lane.h"

#include <algorithm>
#include <vector>

namespace tally::runtime {

using namespace std::chrono_literals;

namespace {

/// After this time without progress the lane asks the device whether it failed: while work is under
/// way, and while it is held back (a fault of high-priority work may hold it back for ever).
constexpr Nanoseconds healthInterval = 1ms, heldBackInterval = 20ms;

} // namespace

Result<std::unique_ptr<Lane>> Lane::create(StreamDevice &device, LaneOptions options) {
  std::unique_ptr<Lane> lane(new Lane(device, std::move(options)));
  if (Result<void> ready = lane->initialise(); !ready)
    return ready.error();
  return lane;
}

Result<void> Lane::initialise() {
  if (Result<void> opened = core.streams.open(core.options.smsOfNonPreemptible,
                                              core.options.confinedSizes, core.options.waits);
      !opened)
    return opened;
  if (Result<void> opened = core.states.open(core.options.halfRing); !opened)
    return opened;
  if (Result<void> opened = core.markers.open(core.device); !opened)
    return opened;
  if (contains(core.options.kinds, Kind::Checkpoint))
    core.saveArea.takeFirst(core.device.info());
  return {};
}

void Lane::close() {
  if (std::exchange(closed, true))
    return;
  waits.letAllGo();
  core.streams.close();
  failAll({"the device was given up"});
  core.queue.publish();
}

void Lane::tryWaits(std::span<const std::unique_ptr<Lane>> lanes) {
  std::vector<LaneCore *> cores;
  for (const std::unique_ptr<Lane> &each : lanes)
    cores.push_back(&each->core);
  StreamWaits::tryOut(cores);
}

bool Lane::step(const Gate &gate) {
  if (core.queue.isBroken())
    return false;
  core.queue.take(core.pipeline.pending);
  bool progress = collect(gate);
  resume.dropFailed();
  progress = letGo(gate) || progress;
  // One batch a step, so that no lane keeps the dispatcher from the other lanes.
  progress = (!core.queue.isBroken() && issue(gate)) || progress;
  if (progress) {
    stillSince = lastProgress = core.options.clock();
  } else {
    checkHealth(gate);
  }
  core.queue.publish();
  return progress;
}

bool Lane::collect(const Gate &gate) {
  Pipeline &pipeline = core.pipeline;
  if (pipeline.batches.empty())
    return false;
  Batch &front = pipeline.batches.front();
  if (front.ended)
    return endCall(front);
  seeBegin(front);
  // Read the marker, then the epoch: if no request came before the marker was seen, no launch
  // before the marker can have yielded.
  bool reached = front.isReached();
  if (!front.statesComing && gate.currentEpoch() > front.epoch) {
    if (Result<void> asked = resume.readStates(); !asked)
      failAll(asked.error());
    return true;
  }
  if (!reached)
    return false;
  Batch batch = std::move(front);
  pipeline.batches.pop_front();
  takeBack(batch, gate);
  if (!core.queue.isBroken() && pipeline.draining &&
      (pipeline.batches.empty() || pipeline.batches.front().behind != 0)) {
    pipeline.draining = false;
    waits.hold();
  }
  return true;
}

void Lane::takeBack(const Batch &batch, const Gate &gate) {
  if (batch.items.empty())
    return;
  std::size_t lanes = gate.lanesUnderWay() + (core.pipeline.batches.empty() ? 1 : 0);
  core.trace.endRange(batch);
  core.trace.batch(batch, core.times.lastCollected());
  core.times.see(batch, lanes);
  if (Result<void> taken = resume.take(batch); !taken)
    failAll(taken.error());
  core.times.taken(batch, core.pipeline.sent < core.pipeline.sendable());
}

/// Records when the host sees that a timed launch has begun; call it before reading the marker. If
/// one look sees both begin and end, the launch began after the look before.
void Lane::seeBegin(Batch &batch) const {
  if (batch.beginMark == 0 || batch.begunAt.count() != 0)
    return;
  if (loadMarker(core.markers.begin) < batch.beginMark)
    batch.notBegunAt = core.options.clock();
  else if (!batch.isReached())
    batch.begunAt = core.options.clock();
  else
    batch.begunAt = batch.notBegunAt;
}

/// Sends the marker of a batch once its call has ended.
bool Lane::endCall(Batch &batch) {
  if (!batch.ended->load())
    return false;
  batch.sentAt = core.options.clock();
  if (Result<void> sent = sender.sendMarker(batch); !sent) {
    if (sender.isHeldUp(*batch.items.back().operation))
      return false;
    failAll(sent.error());
    return true;
  }
  batch.ended.reset();
  return true;
}

Pausing Lane::pausing() const {
  auto pauses = [](const Batch &each) { return each.pauses(); };
  if (underWay() && std::ranges::all_of(core.pipeline.batches, pauses))
    return Pausing::All;
  return std::ranges::any_of(core.pipeline.batches, pauses) ? Pausing::Some : Pausing::None;
}

bool Lane::lacksHeadroom() const {
  Footprint headroom = core.options.headroom->now();
  for (const Batch &batch : core.pipeline.batches)
    for (const BatchItem &item : batch.items)
      if (item.plan && item.plan->kind == Kind::Pause && !item.plan->leaves.holds(headroom))
        return true;
  return false;
}

std::optional<std::uint32_t> Lane::sharedSms() const {
  for (const Batch &batch : core.pipeline.batches)
    if (batch.shares && batch.canYield())
      return batch.sms;
  return std::nullopt;
}

/// Lets the stream go on once the resumed launches are done and the held batches may run.
bool Lane::letGo(const Gate &gate) {
  Pipeline &pipeline = core.pipeline;
  if (core.queue.isBroken() || !pipeline.isHeld() || pipeline.toResume != 0 || underWay())
    return false;
  std::optional<Permit> permitted = core.permit(gate);
  if (!permitted || !planner.mayGo(pipeline.held.front(), permitted->decision)) {
    core.trace.wait(true);
    return false;
  }
  planner.noteGone();
  gate.expectOthers();
  if (!core.permit(gate))
    return false;
  if (Result<void> gone = waits.letGo(); !gone) {
    failAll(gone.error());
    return true;
  }
  core.trace.wait(false);
  return true;
}

bool Lane::issue(const Gate &gate) {
  Pipeline &pipeline = core.pipeline;
  if (pipeline.draining || pipeline.sent == pipeline.sendable())
    return false;
  if (const Batch *of = nullptr;
      pipeline.newestThatYields(of) && planner.addLate(pipeline.batches.back()))
    return true;
  if (pipeline.isFull())
    return false;
  // Until a call has ended, there is no work on the device yet that later operations could wait
  // for.
  if (underWay() && pipeline.batches.back().ended)
    return false;
  // A measured launch: sending takes so long that this thread would see the launch's end too late.
  if (underWay() && !pipeline.batches.back().items.empty() &&
      pipeline.batches.back().items.front().isMeasured)
    return false;
  std::optional<Permit> permitted = core.permit(gate);
  // A third batch would be more to drain when a request comes.
  if (pipeline.batches.size() >= 2 && permitted && permitted->oftenAsked)
    return false;
  if (!permitted || (underWay() && epochUnderWay() != permitted->epoch)) {
    core.trace.wait(true);
    return false;
  }
  Batch batch;
  batch.epoch = permitted->epoch;
  batch.shares = permitted->shares;
  batch.sms = permitted->decision.sms;
  batch.mayBeAsked = permitted->oftenAsked;
  batch.slot = pipeline.freeSlot();
  planner.plan(batch, gate, *permitted);
  if (batch.items.empty()) {
    core.trace.wait(true);
    return false;
  }
  return send(batch, gate);
}

bool Lane::send(Batch &batch, const Gate &gate) {
  if (batch.pauses())
    gate.expectPausing();
  else
    gate.expectOthers();
  if (Result<void> done = sender.send(batch, gate); !done) {
    failAll(done.error());
    return true;
  }
  if (batch.marker == 0)
    return false;
  core.trace.beginRange(batch);
  core.pipeline.batches.push_back(std::move(batch));
  core.trace.wait(false);
  return true;
}

void Lane::failAll(const Error &error) {
  Pipeline &pipeline = core.pipeline;
  waits.letAllGo();
  core.queue.failAll(pipeline.pending, error);
  for (const Batch &batch : pipeline.batches)
    core.trace.endRange(batch);
  pipeline.batches.clear();
  pipeline.held.clear();
  pipeline.sent = 0;
}

void Lane::checkHealth(const Gate &gate) {
  if (!underWay() && core.pipeline.pending.empty())
    return;
  Nanoseconds now = core.options.clock();
  if (now - lastProgress < (underWay() ? healthInterval : heldBackInterval))
    return;
  lastProgress = now;
  if (Result<bool> idle = core.device.isIdle(core.streams.main()); !idle)
    return failAll(idle.error());
  if (stillSince && waits.warn(gate, *stillSince))
    stillSince.reset();
}

} // namespace tally::runtime
