#include "dispatch/lane_table.h"

#include <algorithm>
#include <cassert>

namespace tally::runtime {

namespace {

using namespace std::chrono_literals;

/// How long lower classes still make way after the last work of a higher class. Letting them go on
/// and stopping them again costs about as much, so the loss is at most twice the least possible.
constexpr Nanoseconds leadOutlasts = 50us;

} // namespace

/// Makes the lanes of one class. Call it under the mutex, or before other threads know the table.
Result<void> LaneTable::make() {
  std::size_t known = count.load();
  assert(options.lanes <= maxLanesOfClass && known + options.lanes <= slots.size());
  for (std::size_t i = 0; i < options.lanes; ++i) {
    LaneOptions lane = options.lane;
    lane.number = static_cast<std::uint8_t>(known + i);
    Result<std::unique_ptr<Lane>> made = Lane::create(device, std::move(lane));
    if (!made)
      return made.error();
    slots[known + i] = std::move(*made);
  }
  if (options.lane.triesWaits)
    Lane::tryWaits(std::span(slots).subspan(known, options.lanes));
  count.store(known + options.lanes, std::memory_order_release);
  return {};
}

Result<std::span<const std::unique_ptr<Lane>>> LaneTable::of(std::uint32_t bestEffortClass) {
  assert(bestEffortClass >= 1 && bestEffortClass <= lowestBestEffortClass);
  std::unique_lock lock(adding);
  std::optional<std::size_t> &from = first[bestEffortClass - 1];
  if (!from) {
    std::size_t begin = classCount * options.lanes;
    if (begin == count.load())
      if (Result<void> made = make(); !made)
        return made.error();
    from = begin;
    for (const std::unique_ptr<Lane> &lane : all().subspan(begin))
      lane->setClass(bestEffortClass);
    several = ++classCount > 1;
  }
  return all().subspan(*from, options.lanes);
}

Result<Lane *> LaneTable::assign(std::uint32_t client, std::uint32_t bestEffortClass) {
  auto found = of(bestEffortClass);
  if (!found)
    return found.error();
  std::size_t number = options.policy.usesClients() ? client : next.fetch_add(1);
  return (*found)[number % found->size()].get();
}

void LaneTable::findLeadingClass() {
  Nanoseconds now = options.lane.clock();
  for (const std::unique_ptr<Lane> &lane : all())
    if (lane->hasWork())
      lastWork[lane->currentClass() - 1] = now;
  auto leads = [&](const std::optional<Nanoseconds> &last) {
    return last && now - *last < leadOutlasts;
  };
  auto highest = std::ranges::find_if(lastWork, leads);
  leading =
      std::min(static_cast<std::uint32_t>(highest - lastWork.begin()) + 1, lowestBestEffortClass);
}

bool LaneTable::hasWork() const {
  return std::ranges::any_of(all(), [](const auto &lane) { return lane->hasWork(); });
}

/// A sum, since requests wait for the kernels under way on all lanes.
Nanoseconds LaneTable::nonPreemptibleLeft() const {
  Nanoseconds sum{0};
  for (const std::unique_ptr<Lane> &lane : all())
    sum = sumOf(sum, lane->nonPreemptibleLeft());
  return sum;
}

std::size_t LaneTable::underWay() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(all(), [](const auto &lane) { return lane->underWay(); }));
}

std::optional<std::uint64_t> LaneTable::oldestUnderWay() const {
  std::optional<std::uint64_t> oldest;
  for (const std::unique_ptr<Lane> &lane : all())
    if (lane->underWay())
      oldest = std::min(oldest.value_or(lane->epochUnderWay()), lane->epochUnderWay());
  return oldest;
}

bool LaneTable::inheritsHighPriority() const {
  return std::ranges::any_of(all(), [](const auto &lane) { return lane->inheritsHighPriority(); });
}

/// Whether a launch that can pause was planned with less headroom than high priority needs now.
bool LaneTable::lacksHeadroom() const {
  return std::ranges::any_of(all(), [](const auto &lane) { return lane->lacksHeadroom(); });
}

Pausing LaneTable::pausing() const {
  bool some = false, every = true;
  for (const std::unique_ptr<Lane> &lane : all()) {
    Pausing now = lane->pausing();
    some |= now != Pausing::None;
    every &= now == Pausing::All || !lane->underWay();
  }
  return !some ? Pausing::None : every ? Pausing::All : Pausing::Some;
}

LaunchPace LaneTable::pace() const {
  LaunchPace sum;
  for (const std::unique_ptr<Lane> &lane : all()) {
    sum.ran += lane->times().pace().ran;
    sum.launches += lane->times().pace().launches;
  }
  return sum;
}

LaneTotals LaneTable::totals() const {
  LaneTotals sums;
  for (const std::unique_ptr<Lane> &lane : all()) {
    sums.finishedLaunches += lane->counters().finishedLaunches.load();
    for (std::size_t i = 0; i < allKinds.size(); ++i)
      sums.launchesByKind[i] += lane->counters().launchesByKind[i].load();
    sums.physicalLaunches += lane->counters().physicalLaunches.load();
    sums.yields += lane->counters().yields.load();
    sums.savedBlocks += lane->counters().savedBlocks.load();
    sums.saveAreasRefused += lane->counters().saveAreasRefused.load();
    sums.waits += lane->counters().waits.load();
    sums.confinedLaunches += lane->counters().confinedLaunches.load();
    sums.confinedSms = std::max(sums.confinedSms, lane->counters().confinedSms.load());
    sums.ownStreams += lane->resources().streams();
    sums.ownBytes += lane->resources().bytes();
  }
  return sums;
}

} // namespace tally::runtime
