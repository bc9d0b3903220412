#include "launch_profile.h"

#include <cassert>

namespace tally::runtime {

namespace {

/// After trials that gave nothing (high-priority work was there all the time), these many.
constexpr std::uint64_t launchesBeforeRetry = 4096;
/// A way has to be so much better than the first to be taken instead; a kernel that then cannot
/// yield, so much.
constexpr double betterBy = 0.98, wholeBetterBy = 0.95;
/// Turnarounds above the bound that are about equally bad.
constexpr double aboutEqual = 1.25;
constexpr std::uint32_t mostWavesPerSlice = 64;
constexpr std::uint64_t slicesBeforeFit = 16;
/// Two periods between polls (ptx::PollRules) and the write.
constexpr Nanoseconds pauseTime{15000};

} // namespace

Nanoseconds turnaroundOf(const LaunchPlan &way) {
  if (!way.kind)
    return way.duration.high();
  if (*way.kind == Kind::Pause)
    return pauseTime;
  if (*way.kind == Kind::Slice)
    return 2 * way.duration.mean();
  // The median is not moved by a host that was stopped while it measured.
  Nanoseconds whole = way.trial.isMeasured() ? way.trial.cost() : way.duration.mean();
  return whole / static_cast<std::int64_t>(std::max<std::uint64_t>(way.waves, 1));
}

LaunchProfile::LaunchProfile(std::vector<LaunchPlan> given) {
  assert(!given.empty());
  for (LaunchPlan &each : given)
    ways.push_back(std::make_shared<LaunchPlan>(std::move(each)));
}

void LaunchProfile::settle(std::optional<Kind> kind, Nanoseconds high) {
  for (std::size_t i = 0; i < ways.size(); ++i)
    if (ways[i]->kind == kind) {
      ways[i]->duration.add(high);
      current = i;
      settled = true;
      return;
    }
}

const std::shared_ptr<LaunchPlan> &LaunchProfile::pick(Nanoseconds bound, bool measures) {
  ++launches;
  if (!measures || !hasChoice() || settled)
    return ways[current];
  if (!trying) {
    if (launches < trialsFrom)
      return ways[0];
    trying = true;
    startTrial(0, bound);
  }
  if (trying && ways[current]->trial.isOver())
    startTrial(current + 1, bound);
  if (trying)
    ways[current]->trial.give();
  return ways[current];
}

/// Begins the trial of the first way from `from` that is worth one; without any the trials end.
void LaunchProfile::startTrial(std::size_t from, Nanoseconds bound) {
  for (const auto &way : ways)
    way->isTried = false;
  for (std::size_t i = from; i < ways.size(); ++i)
    if (!ways[i]->trial.isMeasured() && isWorthTrying(*ways[i], bound)) {
      current = i;
      ways[i]->isTried = true;
      // It is not unknown, so it need not wait for a long idle time.
      if (!ways[i]->kind && !ways[i]->duration.known())
        ways[i]->duration.add(ways[0]->duration.high());
      return;
    }
  trying = false;
  current = choose(bound);
  settled = ways[0]->trial.isMeasured();
  if (settled)
    return;
  // Nothing was there to compare with: later, from the beginning.
  trialsFrom = launches + launchesBeforeRetry;
  for (const auto &way : ways)
    way->trial = {};
}

bool LaunchProfile::isWorthTrying(const LaunchPlan &way, Nanoseconds bound) const {
  if (way.kind)
    return true;
  const DurationEstimate &known = ways[0]->duration;
  return known.known() && known.high() <= bound;
}

/// Of those within the bound the one of the least cost; without any, of those whose turnaround is
/// about the least.
std::size_t LaunchProfile::choose(Nanoseconds bound) const {
  Nanoseconds least = anyDuration;
  for (const auto &way : ways)
    if (way->trial.isMeasured())
      least = std::min(least, turnaroundOf(*way));
  auto limit = std::max(bound, Nanoseconds(static_cast<std::int64_t>(
                                   static_cast<double>(least.count()) * aboutEqual)));
  std::size_t best = 0;
  for (std::size_t i = 1; i < ways.size(); ++i) {
    const LaunchPlan &way = *ways[i], &known = *ways[best];
    if (!way.trial.isMeasured() || turnaroundOf(way) > limit || (!way.kind && limit > bound))
      continue;
    double factor = way.kind ? betterBy : wholeBetterBy;
    bool cheaper = static_cast<double>(way.trial.cost().count()) <
                   static_cast<double>(known.trial.cost().count()) * factor;
    if (cheaper || turnaroundOf(known) > limit)
      best = i;
  }
  return best;
}

void fitSlices(LaunchPlan &way, Nanoseconds bound, std::uint32_t wave) {
  if (way.kind != Kind::Slice || way.duration.count() < slicesBeforeFit)
    return;
  Nanoseconds each = way.duration.mean();
  std::uint32_t most = wave * mostWavesPerSlice, before = way.sliceBlocks;
  if (4 * each <= bound)
    way.sliceBlocks = std::min(way.sliceBlocks * 2, std::max(most, way.sliceBlocks));
  else if (2 * each > bound)
    way.sliceBlocks = std::max(way.sliceBlocks / 2, wave);
  if (way.sliceBlocks != before)
    way.duration = {};
}

} // namespace tally::runtime
