// Batches whose stream waits for a launch ahead of them to be done, and what becomes of them where
// it has yielded.
//
// What cannot be taken back (a copy, a kernel without a variant, an event) stands behind a wait of
// the stream's for the state of the newest launch ahead that can yield: where an earlier one has
// yielded, that one ran nothing. The stream comes to the wait when the launch has ended, so that
// all its stores are made. Where it has yielded, it and what comes behind it up to the wait are
// resumed on another stream; when the host has seen the end of all that, the state is written as a
// done one's, and the stream goes on. Launches behind the wait that can yield have an older epoch
// by then, run nothing, and are sent again.
#include "lane/lane.h"

#include "base/spin.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>

namespace tally::runtime {

using namespace std::chrono_literals;

namespace {

/// What is sent to a stream whose connection is free is done long before.
constexpr Nanoseconds longestTry = 20ms;
constexpr Nanoseconds longStill = 5s;

std::atomic_ref<std::uint64_t> wordOf(const MappedMemory &memory) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t *>(memory.host));
}

} // namespace

/// `of`: set to its batch.
const Lane::Item *Lane::newestThatYields(const Batch *&of) const {
  for (auto batch = batches.rbegin(); batch != batches.rend(); ++batch)
    for (auto item = batch->items.rbegin(); item != batch->items.rend(); ++item)
      if (item->canYield) {
        of = &*batch;
        return &*item;
      }
  return nullptr;
}

/// Whether what cannot yield may be sent behind what is under way. A launch that pauses lasts until
/// it may go on; what takes no one knows how long is measured with nothing ahead of it.
bool Lane::mayComeBehind(const Operation &operation) const {
  const Batch *of = nullptr;
  const Item *ahead = newestThatYields(of);
  if (!ahead)
    return true;
  if (!resumes || !device.mayWaitForWords() || ahead->plan->kind == Kind::Pause)
    return false;
  if (operation.type != Operation::Type::Launch)
    return true;
  return !operation.progress && operation.plan && operation.plan->duration.known();
}

/// The front's own wait is for what has come back.
bool Lane::waitsBehindFront() const {
  return std::any_of(batches.begin() + (batches.empty() ? 0 : 1), batches.end(),
                     [](const Batch &each) { return each.behind != 0; });
}

bool Lane::isBehindWait(const Batch &batch) const {
  return batch.behind != 0 || waitsBehindFront();
}

/// Of a batch that begins with what cannot yield.
void Lane::putBehind(Batch &batch) const {
  const Batch *of = nullptr;
  const Item *ahead = newestThatYields(of);
  if (!ahead || batch.behind != 0)
    return;
  batch.behind = stateAddress(*of, static_cast<std::size_t>(ahead - of->items.data()));
  batch.behindLaunch = {ahead->operation->progress->countsBlocks(),
                        ahead->operation->progress->kind() == Kind::Checkpoint,
                        ahead->launch.params.blocks};
}

Result<void> Lane::sendWait(const Batch &batch) {
  countOne(counts.waits);
  if (Result<void> behind = continueOn(stream); !behind)
    return behind;
  const Awaited &launch = batch.behindLaunch;
  std::array<WordWait, 2> words;
  words[0] = launch.countsBlocks ? WordWait{batch.behind + offsetof(tally_launch_state, next_block),
                                            launch.blocks, WordWait::Until::AtLeast}
                                 : WordWait{batch.behind + offsetof(tally_launch_state, yielded), 0,
                                            WordWait::Until::Equal};
  words[1] = {batch.behind + offsetof(tally_launch_state, saved), 0, WordWait::Until::Equal};
  return device.waitForWords(stream, std::span(words).first(launch.saves ? 2 : 1));
}

/// Behind what is on `resumes`: as the launch would have left its state, had it not yielded.
Result<void> Lane::sayDone(const Batch &batch) {
  static_assert(offsetof(tally_launch_state, next_block) == 0 &&
                offsetof(tally_launch_state, live_workers) == 4 &&
                offsetof(tally_launch_state, yielded) == 8 &&
                offsetof(tally_launch_state, saved) == 12);
  if (Result<void> first = device.writeValue(*resumes, batch.behind + 8, 0); !first)
    return first;
  return device.writeValue(*resumes, batch.behind, batch.behindLaunch.blocks);
}

std::size_t Lane::completed(const Batch &batch) {
  auto completes = [](const Item &each) { return each.completes; };
  auto items = std::count_if(batch.items.begin(), batch.items.end(), completes);
  return static_cast<std::size_t>(items) + batch.late.size();
}

/// All that has yielded is back. What is still under way waits for it, and will write its lists.
void Lane::hold() {
  std::vector<ListRing::Region> kept;
  if (retained && retainedIn == &ring())
    kept.push_back(*retained);
  for (const Batch &batch : batches)
    for (const Item &item : batch.items)
      if (item.list)
        kept.push_back(*item.list);
  ring().keepOnly(std::move(kept));
  if (!batches.empty()) {
    assert(held.empty());
    toResume = sent;
    for (Batch &each : batches) {
      toResume -= completed(each);
      held.push_back(std::move(each));
    }
    batches.clear();
    current = *resumes;
  }
  sent = 0;
}

/// Lets the stream go on once what it waits for is done and what waits there may run.
bool Lane::letGo(const Gate &gate) {
  if (isBroken || held.empty() || toResume != 0 || !batches.empty())
    return false;
  std::optional<Permit> permitted = permit(gate);
  auto mayGo = [&](Item &each) {
    Budget used;
    used.decision = permitted->decision;
    return each.dropped || each.canYield || each.operation->type != Operation::Type::Launch ||
           (goesByDuration(each.predicted, used) && fitsSms(each, used.decision.sms));
  };
  if (!permitted || !std::ranges::all_of(held.front().items, mayGo)) {
    traceWait(true);
    return false;
  }
  heldSince.reset();
  gate.expectOthers();
  if (!permit(gate))
    return false;
  if (Result<void> said = sayDone(held.front()); !said) {
    failAll(said.error());
    return true;
  }
  Nanoseconds now = options.clock();
  for (Batch &each : held) {
    each.sentAt = each.issuedAt = each.notBegunAt = now;
    sent += completed(each);
    batches.push_back(std::move(each));
  }
  held.clear();
  current = stream;
  traceWait(false);
  return true;
}

/// The launch that the stream waits for; nullptr: what that was is back.
const Operation *Lane::awaited() const {
  if (!held.empty())
    return pending.front().get();
  const Operation *newest = nullptr;
  for (const Batch &batch : batches) {
    if (newest && batch.behind != 0)
      break;
    for (const Item &each : batch.items)
      newest = each.canYield ? each.operation : newest;
  }
  return newest;
}

/// Says once what a stream waits for on the device while nothing moves, though it might.
void Lane::watchWaits(const Gate &gate) {
  if (!options.warn || !stillSince || options.clock() - *stillSince < longStill)
    return;
  bool yielded = !held.empty();
  if (yielded ? !permit(gate).has_value() : !waitsBehindFront())
    return;
  stillSince.reset();
  const Operation *launch = awaited();
  options.warn("nothing of best-effort lane " + std::to_string(options.number) +
               " has moved for 5 s: its stream waits on the device for " +
               (launch && launch->kernel ? launch->kernel->facts().name : "a launch") +
               (yielded ? ", which has yielded, to be resumed" : " to end") +
               "; what waits is sent only behind that with TALLY_STREAM_WAITS=off");
}

/// For streams that wait for the batch.
WordWait Lane::isBack(const Batch &batch) {
  return {batch.markerAt->device, static_cast<std::uint32_t>(batch.marker),
          WordWait::Until::AtLeast};
}

/// Nothing of it is wanted any more: no stream waits longer than for what runs ahead.
void Lane::letAllGo() {
  if (!resumes)
    return;
  const Batch *back = nullptr; // ahead of the next, where it may still run
  bool hasYielded = draining || !held.empty();
  for (std::deque<Batch> *list : {&held, &batches})
    for (const Batch &each : *list) {
      // What fails here is a device that has failed, with all its streams.
      if (each.behind != 0 && back) {
        WordWait until = isBack(*back);
        static_cast<void>(device.waitForWords(*resumes, std::span(&until, 1)));
      }
      if (each.behind != 0 && (back || hasYielded))
        static_cast<void>(sayDone(each));
      back = &each;
    }
}

void Lane::tryWaits(std::span<const std::unique_ptr<Lane>> lanes) {
  if (lanes.empty() ||
      !std::ranges::all_of(lanes, [](const auto &each) { return each->resumes.has_value(); }))
    return;
  StreamDevice &device = lanes.front()->device;
  const ClockFunction &clock = lanes.front()->options.clock;
  const MappedMemory &word = lanes.front()->beginWord;
  WordWait until{word.device, 1, WordWait::Until::AtLeast};
  auto put = [&]() -> Result<void> {
    for (const std::unique_ptr<Lane> &each : lanes)
      for (std::optional<StreamId> on : {std::optional(each->stream), each->marks})
        if (on)
          if (Result<void> waits = device.waitForWords(*on, std::span(&until, 1)); !waits)
            return waits;
    for (const std::unique_ptr<Lane> &each : lanes)
      if (Result<void> goes = device.writeValue(*each->resumes, each->markerResumed.device, 1);
          !goes)
        return goes;
    return {};
  };
  auto within = [&](const auto &isSo) {
    Nanoseconds from = clock();
    while (!isSo() && clock() - from < longestTry)
      pauseProcessor();
    return isSo();
  };
  bool works = static_cast<bool>(put()) && within([&] {
                 return std::ranges::all_of(
                     lanes, [](const auto &each) { return wordOf(each->markerResumed) == 1; });
               });
  wordOf(word) = 1;
  for (const std::unique_ptr<Lane> &each : lanes) {
    for (std::optional<StreamId> on : {std::optional(each->stream), each->marks, each->resumes})
      if (on)
        static_cast<void>(device.synchronize(*on));
    wordOf(each->markerResumed) = 0;
    if (!works) {
      each->own.endStream(*each->resumes);
      each->resumes.reset();
    }
  }
  wordOf(word) = 0;
}

} // namespace tally::runtime
