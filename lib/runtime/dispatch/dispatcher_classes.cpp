// Classes of best-effort work: those of lower ones make way for the highest that there is work of.
#include "dispatch/dispatcher.h"

#include <algorithm>
#include <cassert>

namespace tally::runtime {

using namespace std::chrono_literals;

namespace {

/// For how long lower classes make way behind the last work of a higher one. To let them go on and
/// stop them again costs about as much, so this is at most twice as bad as to know what comes next.
constexpr Nanoseconds leadOutlasts = 50us;

} // namespace

/// Under the mutex, or before anybody knows of the dispatcher. Those of a class, or, at first, of
/// whichever asks first.
Result<void> Dispatcher::makeLanes() {
  std::size_t count = laneCount.load();
  assert(options.lanes <= maxLanesOfClass && count + options.lanes <= laneSlots.size());
  for (std::size_t i = 0; i < options.lanes; ++i) {
    LaneOptions lane = options.lane;
    lane.number = static_cast<std::uint8_t>(count + i);
    Result<std::unique_ptr<Lane>> made = Lane::create(device, std::move(lane));
    if (!made)
      return made.error();
    laneSlots[count + i] = std::move(*made);
  }
  if (options.lane.triesWaits)
    Lane::tryWaits(std::span(laneSlots).subspan(count, options.lanes));
  laneCount.store(count + options.lanes, std::memory_order_release);
  return {};
}

Result<std::span<const std::unique_ptr<Lane>>> Dispatcher::lanesOf(std::uint32_t bestEffortClass) {
  assert(bestEffortClass >= 1 && bestEffortClass <= lowestBestEffortClass);
  std::unique_lock lock(lanesMutex);
  std::optional<std::size_t> &from = first[bestEffortClass - 1];
  if (!from) {
    std::size_t begin = classCount * options.lanes;
    if (begin == laneCount.load())
      if (Result<void> made = makeLanes(); !made)
        return made.error();
    from = begin;
    for (const std::unique_ptr<Lane> &lane : lanes().subspan(begin))
      lane->setClass(bestEffortClass);
    hasClasses = ++classCount > 1;
  }
  return lanes().subspan(*from, options.lanes);
}

Result<Lane *> Dispatcher::assignLane(std::uint32_t client, std::uint32_t bestEffortClass) {
  auto all = lanesOf(bestEffortClass);
  if (!all)
    return all.error();
  std::size_t number = options.policy.usesClients() ? client : nextLane.fetch_add(1);
  return (*all)[number % all->size()].get();
}

void Dispatcher::noteClient(std::uint32_t client, std::uint32_t generation) {
  std::unique_lock lock(lanesMutex);
  while (generations.size() <= client)
    if (!generations.add(std::make_unique<std::atomic<std::uint32_t>>(0)))
      return; // so many clients that no policy steers them
  generations.find(client + std::uint64_t{1})->store(generation);
}

/// What works for a higher class, which waits for it, counts as that.
void Dispatcher::findLeadingClass() {
  Nanoseconds now = options.lane.clock();
  for (const std::unique_ptr<Lane> &lane : lanes())
    if (lane->hasWork())
      lastWork[lane->currentClass() - 1] = now;
  auto leads = [&](const std::optional<Nanoseconds> &last) {
    return last && now - *last < leadOutlasts;
  };
  auto highest = std::ranges::find_if(lastWork, leads);
  leadingClass =
      std::min(static_cast<std::uint32_t>(highest - lastWork.begin()) + 1, lowestBestEffortClass);
}

/// What is under way of lower classes is told to yield, and gets no permit to go on.
void Dispatcher::enforceClasses() {
  if (!hasClasses)
    return;
  findLeadingClass();
  auto mustYield = [&](const auto &lane) {
    return lane->underWay() && lane->epochUnderWay() == control.currentEpoch() &&
           lane->currentClass() > leadingClass && !lane->inheritsHighPriority();
  };
  if (std::ranges::any_of(lanes(), mustYield))
    stopByPolicy();
}

} // namespace tally::runtime
