#include "lane/lane.h"

#include "base/spin.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

namespace tally::runtime {

using namespace std::chrono_literals;

namespace {

/// Operations that may wait in one lane before submit() blocks, as CUDA's own launch queue does.
constexpr std::uint64_t maxUnfinished = 4096;
/// Without progress for so long, the device is asked whether it failed: while work is under way,
/// and while it is held back (a fault of high-priority work may be what holds it back for ever).
constexpr Nanoseconds healthInterval = 1ms, heldBackInterval = 20ms;

std::uint64_t loadMarker(const MappedMemory &word) {
  auto &value = *reinterpret_cast<std::uint64_t *>(word.host);
  return std::atomic_ref(value).load(std::memory_order_acquire);
}

} // namespace

bool Lane::Batch::canYield() const {
  return std::any_of(items.begin(), items.end(), [](const Item &each) { return each.canYield; });
}
bool Lane::Batch::pauses() const {
  return std::all_of(items.begin(), items.end(), [](const Item &each) {
    return each.dropped || (each.canYield && each.plan && each.plan->kind == Kind::Pause);
  });
}
Nanoseconds Lane::Batch::wholes(const Item *more) const {
  Nanoseconds sum{0}, excess{0};
  auto add = [&](const Item &item) {
    sum = sumOf(sum, item.expected);
    excess = std::max(excess, item.predicted - item.expected);
  };
  for (const Item &item : items)
    add(item);
  if (more)
    add(*more);
  return sumOf(sum, excess);
}

Result<std::unique_ptr<Lane>> Lane::create(StreamDevice &device, LaneOptions options) {
  std::unique_ptr<Lane> lane(new Lane(device, std::move(options)));
  if (Result<void> ready = lane->initialise(); !ready)
    return ready.error();
  return lane;
}

Result<void> Lane::initialise() {
  assert(options.halfRing >= (maxBatches - 1) * maxItems);
  Result<StreamId> created = own.createStream();
  if (!created)
    return created.error();
  stream = wholes = current = *created;
  if (options.smsOfWholes != 0) {
    Result<StreamId> confined = own.createConfinedStream(options.smsOfWholes);
    if (!confined)
      return confined.error();
    wholes = *confined;
  }
  Result<DevicePtr> ring =
      own.allocate((2 * options.halfRing + maxItems) * sizeof(tally_launch_state));
  if (!ring)
    return ring.error();
  states = *ring;
  if (Result<void> cleared = clear(states, 2 * options.halfRing * sizeof(tally_launch_state));
      !cleared)
    return cleared;
  constexpr std::size_t mirrorBytes = maxItems * sizeof(tally_launch_state);
  Result<MappedMemory> mirror = device.allocateMapped(std::size(mirrors) * mirrorBytes);
  if (!mirror)
    return mirror.error();
  for (std::size_t i = 0; i < std::size(mirrors); ++i)
    mirrors[i] = {reinterpret_cast<tally_launch_state *>(mirror->host + i * mirrorBytes), maxItems};
  if (device.areStreamsApart()) {
    Result<StreamId> beside = own.createStream();
    if (!beside)
      return beside.error();
    marks = *beside;
  }
  if (options.waits && wholes == stream && device.hasWordWaits()) {
    Result<StreamId> other = own.createStream();
    if (!other)
      return other.error();
    resumes = *other;
  }
  for (MappedMemory *each : {&markerWord, &markerBeside, &markerResumed, &beginWord}) {
    Result<MappedMemory> word = device.allocateMapped(sizeof(std::uint64_t));
    if (!word)
      return word.error();
    *each = *word;
  }
  takeFirstSaveArea();
  return {};
}

void Lane::close() {
  if (std::exchange(closed, true))
    return;
  letAllGo();
  // Errors here would be repeats: the device is going away with everything on it.
  static_cast<void>(device.synchronize(current));
  if (resumes) {
    static_cast<void>(device.synchronize(stream));
    own.endStream(*resumes);
    resumes.reset();
  }
  if (marks)
    own.endStream(*marks);
  own.freeMemory();
  own.endStream(stream);
  if (wholes != stream)
    own.endStream(wholes);
  failAll({"the device was given up"});
  publish();
}

Result<std::uint64_t> Lane::submit(Operation operation) {
  LaneStream &target = *operation.stream;
  auto kept = std::make_unique<Operation>(std::move(operation));
  std::array<std::unique_ptr<Operation>, 2> leftOver; // they go without the mutex
  std::unique_lock lock(mutex);
  changed.wait(lock,
               [&] { return unfinished.load() < maxUnfinished || target.failed || isBroken; });
  if (broken)
    return *broken;
  if (target.failed)
    return target.failure;
  inbox.push_back(std::move(kept));
  for (std::size_t i = 0; i < leftOver.size() && !spent.empty(); ++i) {
    leftOver[i] = std::move(spent.back());
    spent.pop_back();
  }
  ++target.submitted;
  unfinished.fetch_add(1);
  inboxFilled.store(true);
  return ++submitted;
}

template <class Over> void Lane::waitUntil(std::unique_lock<std::mutex> &lock, Over over) {
  if (over())
    return;
  lock.unlock();
  spinUntil(over, options.clock);
  lock.lock();
  changed.wait(lock, over);
}

void Lane::waitFor(std::uint64_t number) {
  if (isOver(number))
    return;
  std::unique_lock lock(mutex);
  waitUntil(lock, [&] { return isOver(number); });
}

void Lane::inheritHighPriority(std::uint64_t number) {
  std::uint64_t known = inheritsHighPriorityUntil.load();
  while (known < number && !inheritsHighPriorityUntil.compare_exchange_weak(known, number)) {
  }
}

Result<void> Lane::wait(LaneStream &target) {
  std::unique_lock lock(mutex);
  std::uint64_t until = target.submitted;
  // A failed stream is waited for as well: what it has on the device still uses its memory.
  waitUntil(lock, [&] { return target.finished.load() >= until || isBroken; });
  if (target.failed)
    return target.failure;
  // A stream that was done before its lane broke was done.
  if (broken && target.finished.load() < until)
    return *broken;
  return {};
}

bool Lane::step(const Gate &gate) {
  if (isBroken)
    return false;
  takeInbox();
  bool progress = collect(gate);
  dropFailed();
  progress = letGo(gate) || progress;
  // One batch a step: no lane keeps the dispatcher from the others.
  progress = (!isBroken && issue(gate)) || progress;
  if (progress) {
    stillSince = lastProgress = options.clock();
  } else {
    checkHealth(gate);
  }
  publish();
  return progress;
}

void Lane::takeInbox() {
  if (!inboxFilled.load() || !inboxFilled.exchange(false))
    return;
  std::unique_lock lock(mutex);
  std::move(inbox.begin(), inbox.end(), std::back_inserter(pending));
  inbox.clear();
}

bool Lane::collect(const Gate &gate) {
  if (batches.empty())
    return false;
  if (batches.front().ended)
    return endCall(batches.front());
  Batch &front = batches.front();
  seeBegin(front);
  // The marker first, then the epoch: where no request came before the marker was seen, nothing in
  // front of it can have yielded.
  bool reached = isReached(front);
  if (!front.statesComing && gate.currentEpoch() > front.epoch) {
    if (Result<void> asked = readStates(); !asked)
      failAll(asked.error());
    return true;
  }
  if (!reached)
    return false;
  Batch batch = std::move(front);
  batches.pop_front();
  takeBack(batch, gate);
  if (!isBroken && draining && (batches.empty() || batches.front().behind != 0)) {
    draining = false;
    hold();
  }
  return true;
}

void Lane::takeBack(const Batch &batch, const Gate &gate) {
  if (batch.items.empty())
    return;
  std::size_t lanes = gate.lanesUnderWay() + (batches.empty() ? 1 : 0);
  account(batch, lanes);
  if (hasRanges)
    endRange(batch.range);
  traceBatch(batch);
  measureBlocks(batch, lanes);
  noteLong(batch, lanes);
  noteLate(batch);
  take(batch);
  lastCollected = options.clock();
  lastEpoch = batch.epoch;
  hadMore = sent < sendable();
}

bool Lane::isReached(const Batch &batch) { return loadMarker(*batch.markerAt) >= batch.marker; }

/// Before its marker is looked at. Where the two are seen in one look, the launch took no longer
/// than since the look before.
void Lane::seeBegin(Batch &batch) const {
  if (batch.beginMark == 0 || batch.begunAt.count() != 0)
    return;
  if (loadMarker(beginWord) < batch.beginMark)
    batch.notBegunAt = options.clock();
  else if (!isReached(batch))
    batch.begunAt = options.clock();
  else
    batch.begunAt = batch.notBegunAt;
}

/// Puts the marker behind what somebody else had to end, once that is done.
bool Lane::endCall(Batch &batch) {
  if (!batch.ended->load())
    return false;
  batch.sentAt = options.clock();
  if (Result<void> sent = sendMarker(batch); !sent) {
    if (isHeldUp(*batch.items.back().operation))
      return false;
    failAll(sent.error());
    return true;
  }
  batch.ended.reset();
  return true;
}

Pausing Lane::pausing() const {
  auto pauses = [](const Batch &each) { return each.pauses(); };
  if (!batches.empty() && std::all_of(batches.begin(), batches.end(), pauses))
    return Pausing::All;
  return std::any_of(batches.begin(), batches.end(), pauses) ? Pausing::Some : Pausing::None;
}

bool Lane::lacksHeadroom() const {
  Footprint headroom = options.headroom->now();
  for (const Batch &batch : batches)
    for (const Item &item : batch.items)
      if (item.plan && item.plan->kind == Kind::Pause && !item.plan->leaves.holds(headroom))
        return true;
  return false;
}

std::optional<std::uint32_t> Lane::sharedSms() const {
  for (const Batch &batch : batches)
    if (batch.shares && batch.canYield())
      return batch.sms;
  return std::nullopt;
}

void Lane::failStream(LaneStream &target, const Error &error) {
  std::unique_lock lock(mutex);
  target.fail(error);
  somethingFinished = true;
}

void Lane::failOperation(Operation &operation, const Error &error) {
  operation.failed = true;
  if (operation.launchFailed)
    operation.launchFailed(error);
  else
    failStream(*operation.stream, error);
}

void Lane::failAll(const Error &error) {
  letAllGo();
  std::unique_lock lock(mutex);
  broken = error;
  isBroken = true;
  std::move(inbox.begin(), inbox.end(), std::back_inserter(pending));
  for (const std::unique_ptr<Operation> &operation : pending)
    operation->stream->fail(error);
  pending.clear();
  inbox.clear();
  for (const Batch &batch : batches)
    if (hasRanges)
      endRange(batch.range);
  batches.clear();
  held.clear();
  sent = finishedNow = 0;
  unfinished.store(0);
  somethingFinished = true;
}

void Lane::publish() {
  if (!std::exchange(somethingFinished, false))
    return;
  unfinished.fetch_sub(std::exchange(finishedNow, 0));
  // Under the mutex, so that a waiter between its check and its sleep is not missed.
  std::unique_lock lock(mutex);
  std::move(over.begin(), over.end(), std::back_inserter(spent));
  over.clear();
  changed.notify_all();
}

void Lane::checkHealth(const Gate &gate) {
  if (batches.empty() && pending.empty())
    return;
  if (options.clock() - lastProgress < (batches.empty() ? heldBackInterval : healthInterval))
    return;
  lastProgress = options.clock();
  if (Result<bool> idle = device.isIdle(stream); !idle)
    return failAll(idle.error());
  watchWaits(gate);
}

} // namespace tally::runtime
