#include "lane/stream_waits.h"

#include "base/spin.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace tally::runtime {

using namespace std::chrono_literals;

namespace {

/// Longest wait for a trial's work. If the stream's connection is free, that work ends long before.
constexpr Nanoseconds longestTry = 20ms;
constexpr Nanoseconds longStill = 5s;

} // namespace

/// Nothing may come after a launch that pauses, which lasts until it may go on. A kernel of unknown
/// duration is measured without work before it.
bool StreamWaits::mayComeBehind(const Operation &operation) const {
  const Batch *of = nullptr;
  const BatchItem *ahead = pipeline.newestThatYields(of);
  if (!ahead)
    return true;
  if (!core.streams.resumes() || !core.device.mayWaitForWords() || ahead->plan->kind == Kind::Pause)
    return false;
  if (operation.type != Operation::Type::Launch)
    return true;
  return !operation.run.progress && operation.run.plan && operation.run.plan->duration.known();
}

void StreamWaits::putBehind(Batch &batch) const {
  const Batch *of = nullptr;
  const BatchItem *ahead = pipeline.newestThatYields(of);
  if (!ahead || batch.behind != 0)
    return;
  batch.behind = core.stateAddress(*of, static_cast<std::size_t>(ahead - of->items.data()));
  batch.behindLaunch = {ahead->operation->run.progress->countsBlocks(),
                        ahead->operation->run.progress->kind() == Kind::Checkpoint,
                        ahead->launch.params.blocks};
}

Result<void> StreamWaits::send(const Batch &batch) {
  countOne(core.counts.waits);
  if (Result<void> behind = core.streams.continueOn(core.streams.main()); !behind)
    return behind;
  const AwaitedLaunch &launch = batch.behindLaunch;
  std::array<WordWait, 2> words;
  words[0] = launch.countsBlocks ? WordWait{batch.behind + offsetof(tally_launch_state, next_block),
                                            launch.blocks, WordWait::Until::AtLeast}
                                 : WordWait{batch.behind + offsetof(tally_launch_state, yielded), 0,
                                            WordWait::Until::Equal};
  words[1] = {batch.behind + offsetof(tally_launch_state, saved), 0, WordWait::Until::Equal};
  return core.device.waitForWords(core.streams.main(),
                                  std::span(words).first(launch.saves ? 2 : 1));
}

/// Writes, after the work on resumes(), the state that the launch would have left without a yield.
Result<void> StreamWaits::sayDone(const Batch &batch) {
  static_assert(offsetof(tally_launch_state, next_block) == 0 &&
                offsetof(tally_launch_state, live_workers) == 4 &&
                offsetof(tally_launch_state, yielded) == 8 &&
                offsetof(tally_launch_state, saved) == 12);
  if (Result<void> first = core.device.writeValue(*core.streams.resumes(), batch.behind + 8, 0);
      !first)
    return first;
  return core.device.writeValue(*core.streams.resumes(), batch.behind, batch.behindLaunch.blocks);
}

void StreamWaits::hold() {
  std::vector<ListRing::Region> kept;
  for (const Batch &batch : pipeline.batches)
    for (const BatchItem &item : batch.items)
      if (item.list)
        kept.push_back(*item.list);
  core.lists.keepOnly(std::move(kept), pipeline.isHeld());
  if (!pipeline.batches.empty()) {
    assert(!pipeline.isHeld());
    pipeline.toResume = pipeline.sent;
    for (Batch &each : pipeline.batches) {
      pipeline.toResume -= each.completed();
      pipeline.held.push_back(std::move(each));
    }
    pipeline.batches.clear();
    core.streams.switchTo(*core.streams.resumes());
  }
  pipeline.sent = 0;
}

Result<void> StreamWaits::letGo() {
  if (Result<void> said = sayDone(pipeline.held.front()); !said)
    return said;
  Nanoseconds now = core.options.clock();
  for (Batch &each : pipeline.held) {
    each.sentAt = each.issuedAt = each.notBegunAt = now;
    pipeline.sent += each.completed();
    pipeline.batches.push_back(std::move(each));
  }
  pipeline.held.clear();
  core.streams.switchTo(core.streams.main());
  return {};
}

bool StreamWaits::warn(const Gate &gate, Nanoseconds stillSince) const {
  if (!core.options.warn || core.options.clock() - stillSince < longStill)
    return false;
  bool yielded = pipeline.isHeld();
  if (yielded ? !core.permit(gate).has_value() : !pipeline.waitsBehindFront())
    return false;
  const Operation *launch = pipeline.awaited();
  core.options.warn("nothing of best-effort lane " + std::to_string(core.options.number) +
                    " has moved for 5 s: its stream waits on the device for " +
                    (launch && launch->kernel ? launch->kernel->facts().name : "a launch") +
                    (yielded ? ", which has yielded, to be resumed" : " to end") +
                    "; what waits is sent only behind that with TALLY_STREAM_WAITS=off");
  return true;
}

void StreamWaits::letAllGo() {
  std::optional<StreamId> resumes = core.streams.resumes();
  if (!resumes)
    return;
  const Batch *back = nullptr; // the batch before, if it may still run
  bool hasYielded = pipeline.draining || pipeline.isHeld();
  for (std::deque<Batch> *list : {&pipeline.held, &pipeline.batches})
    for (const Batch &each : *list) {
      // These calls fail only if the device has failed with all its streams.
      if (each.behind != 0 && back) {
        WordWait until = back->isBack();
        static_cast<void>(core.device.waitForWords(*resumes, std::span(&until, 1)));
      }
      if (each.behind != 0 && (back || hasYielded))
        static_cast<void>(sayDone(each));
      back = &each;
    }
}

void StreamWaits::tryOut(std::span<LaneCore *const> lanes) {
  if (lanes.empty() || !std::ranges::all_of(lanes, [](const auto &each) {
        return each->streams.resumes().has_value();
      }))
    return;
  StreamDevice &device = lanes.front()->device;
  const ClockFunction &clock = lanes.front()->options.clock;
  const MappedMemory &word = lanes.front()->markers.begin;
  WordWait until{word.device, 1, WordWait::Until::AtLeast};
  auto put = [&]() -> Result<void> {
    for (LaneCore *each : lanes)
      for (std::optional<StreamId> on :
           {std::optional(each->streams.main()), each->streams.marks()})
        if (on)
          if (Result<void> waits = device.waitForWords(*on, std::span(&until, 1)); !waits)
            return waits;
    for (LaneCore *each : lanes)
      if (Result<void> goes =
              device.writeValue(*each->streams.resumes(), each->markers.resumed.device, 1);
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
                     lanes, [](const auto &each) { return wordOf(each->markers.resumed) == 1; });
               });
  wordOf(word) = 1;
  for (LaneCore *each : lanes) {
    for (std::optional<StreamId> on :
         {std::optional(each->streams.main()), each->streams.marks(), each->streams.resumes()})
      if (on)
        static_cast<void>(device.synchronize(*on));
    wordOf(each->markers.resumed) = 0;
    if (!works)
      each->streams.endResumes();
  }
  wordOf(word) = 0;
}

} // namespace tally::runtime
