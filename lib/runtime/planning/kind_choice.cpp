#include "planning/kind_choice.h"

#include "tally/bundle/profile.h"

#include <cassert>
#include <utility>

namespace tally::runtime {

namespace {

/// Launches before new trials after trials without a result (high priority was active all the
/// time).
constexpr std::uint64_t launchesBeforeRetry = 4096;
/// Factors on the cost: a way must be cheaper than the best so far by the first to replace it; the
/// user's kernel, which cannot yield, by the second.
constexpr double betterBy = 0.98, userKernelBetterBy = 0.95;
/// Turnarounds above the bound count as equal within this factor.
constexpr double aboutEqual = 1.25;
/// Launches begin to stop inside blocks when a block takes longer than insideFrom times the bound
/// or that way's turnaround (the longer), and continue down to insideUntil times: block times are
/// measured some 10 us too long.
constexpr double insideFrom = 2, insideUntil = 1.5;
constexpr std::uint32_t mostWavesPerSlice = 64;
constexpr std::uint64_t slicesBeforeFit = 16;
/// Time of a strip between two polls (ptx::PollRules), and of the control word's write.
constexpr Nanoseconds pollTime{20000};
// A profile's block time may be too short by a factor of two (LoadedKernel::keep()).
static_assert(2 * bundle::shortBlock.count() <= insideFrom * pollTime.count());
/// Allowed cost in throughput: this share times the ratio by which waits become shorter.
constexpr double costForEach = 0.02;
/// leastCosts: measurements of a way before its cost counts. mostAlone: launches that may go alone
/// for them; if other work always runs beside them, the choice does without the cost.
constexpr std::uint64_t leastCosts = 3;
constexpr std::uint32_t mostAlone = 32;
/// While launches stop inside blocks, one launch in this many does not, to measure the other way.
constexpr std::uint64_t launchesBetweenLooks = 32;

Nanoseconds scaled(Nanoseconds time, double by) {
  return Nanoseconds(static_cast<std::int64_t>(static_cast<double>(time.count()) * by));
}

bool isInside(const LaunchPlan &way) { return way.kind && stopsInsideBlocks(*way.kind); }

/// Duration of a block, from the known times of the way's launches.
Nanoseconds blockOf(const LaunchPlan &way) {
  if (way.blocks && way.blocks->known())
    return way.blocks->time();
  // A host that was stopped during one measurement does not change the median.
  Nanoseconds whole = way.trial.isMeasured() ? way.trial.cost() : way.duration.mean();
  return whole / static_cast<std::int64_t>(std::max<std::uint64_t>(way.waves, 1));
}

bool isCostKnown(const LaunchPlan &way) { return way.blockCost.count() >= leastCosts; }

} // namespace

bool wantsMeasurement(const LaunchPlan &way, Nanoseconds bound) {
  if (!way.blocks || way.timesAlone >= mostAlone)
    return false;
  return way.blocks->wantsMore(bound) || (way.blocks->time() > bound && !isCostKnown(way));
}

Nanoseconds turnaroundOf(const LaunchPlan &way) {
  if (!way.kind)
    return way.duration.high();
  if (stopsInsideBlocks(*way.kind))
    return pollTime + way.saveTime;
  if (*way.kind == Kind::Slice)
    return 2 * way.duration.mean();
  return blockOf(way);
}

std::uint32_t stayOf(const LaunchPlan &way) {
  // The launch ends up to two naps later. Many workers poll one word of the L2 cache.
  constexpr Nanoseconds least{1000}, most{2000};
  constexpr int napsOfBlock = 64;
  Nanoseconds block = blockOf(way);
  // With blocks this short, workers that exit leave paused workers alone only briefly.
  if (block.count() != 0 && block < pollTime)
    return 0;
  return static_cast<std::uint32_t>(std::clamp(block / napsOfBlock, least, most).count());
}

KindChoice::KindChoice(std::vector<LaunchPlan> given) {
  assert(!given.empty());
  for (LaunchPlan &each : given)
    ways.push_back(std::make_shared<LaunchPlan>(std::move(each)));
  bool isFirst = isInside(*ways[0]);
  if (isFirst ||
      std::none_of(ways.begin(), ways.end(), [](const auto &way) { return isInside(*way); }))
    return;
  blocks = std::make_shared<BlockTimes>();
  for (const auto &way : ways)
    if (way->kind && *way->kind != Kind::Slice)
      way->blocks = blocks;
}

void KindChoice::preferGuard() {
  auto guard = std::find_if(ways.begin(), ways.end(),
                            [](const auto &way) { return way->kind == Kind::Guard; });
  if (guard == ways.end() || ways[0]->kind != Kind::Persistent)
    return;
  if (blocks)
    whereShort = static_cast<std::size_t>(guard - ways.begin());
  else
    std::rotate(ways.begin(), guard, guard + 1);
}

void KindChoice::settle(std::optional<Kind> kind, Nanoseconds high) {
  for (std::size_t i = 0; i < ways.size(); ++i)
    if (ways[i]->kind == kind) {
      ways[i]->duration.add(high);
      current = i;
      settled = true;
      return;
    }
}

std::shared_ptr<LaunchPlan> KindChoice::way(Kind kind) const {
  auto found =
      std::ranges::find(ways, std::optional(kind), [](const auto &way) { return way->kind; });
  return found == ways.end() ? nullptr : *found;
}

void KindChoice::changeWorkers(const LaunchPlan &planned) {
  for (std::shared_ptr<LaunchPlan> &way : ways) {
    if (way->kind != planned.kind || way->leaves == planned.leaves)
      continue;
    // Launches under way keep the plan with which they were made.
    auto changed = std::make_shared<LaunchPlan>(*way);
    changed->wave = planned.wave;
    changed->waves = planned.waves;
    changed->sliceBlocks = planned.sliceBlocks;
    changed->leaves = planned.leaves;
    changed->padding = planned.padding;
    if (std::exchange(changed->workers, planned.workers) != planned.workers) {
      changed->blockCost = {};
      changed->timesAlone = 0;
    }
    way = std::move(changed);
  }
}

const std::shared_ptr<LaunchPlan> &KindChoice::pick(Nanoseconds bound, bool measures,
                                                    Nanoseconds assumed) {
  ++launches;
  if (std::optional<std::size_t> way = wayInside(bound, assumed))
    return ways[*way];
  if (whereShort && !trying && !settled)
    current = blocks->known() ? *whereShort : 0;
  if (!measures || !hasChoice() || settled)
    return ways[current];
  if (!trying) {
    if (launches < trialsFrom)
      return ways[current];
    trying = true;
    startTrial(0, bound);
  }
  if (trying && ways[current]->trial.isOver())
    startTrial(current + 1, bound);
  if (trying)
    ways[current]->trial.give();
  return ways[current];
}

/// The way that stops inside blocks, if blocks are too long for the other ways. Once taken, the
/// choice stays until blocks are clearly shorter.
std::optional<std::size_t> KindChoice::wayInside(Nanoseconds bound, Nanoseconds assumed) {
  if (!blocks)
    return std::nullopt;
  const LaunchPlan &between = *ways[current];
  Nanoseconds block = between.kind == Kind::Slice ? turnaroundOf(between)
                      : blocks->known()           ? blocks->time()
                                                  : assumed;
  auto isBetter = [&](const LaunchPlan &way) {
    // A launch of one wave could not hold any block back, however long it is.
    if (block.count() == 0)
      return between.waves == 1 && way.saveTime <= bound;
    Nanoseconds limit =
        scaled(std::max(bound, turnaroundOf(way)), inside ? insideUntil : insideFrom);
    return block > limit && isWorthItsCost(way, block);
  };
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < ways.size() && !found; ++i)
    if (isInside(*ways[i]) && isBetter(*ways[i]))
      found = i;
  inside = found && block.count() != 0;
  return found;
}

/// Compares the device time of the way with the way that stops between blocks. The first launch of
/// the latter takes too long, since it includes set-up, and a launch of one wave never uses it. So
/// now and then a launch is made that way, unless blocks are so long that the cost may double.
bool KindChoice::isWorthItsCost(const LaunchPlan &way, Nanoseconds block) const {
  auto ratio = [](Nanoseconds a, Nanoseconds b) {
    return static_cast<double>(a.count()) /
           static_cast<double>(std::max<std::int64_t>(b.count(), 1));
  };
  const LaunchPlan &other = *ways[current];
  double allowed = costForEach * ratio(block, turnaroundOf(way));
  if (!isCostKnown(way))
    return true;
  bool maybeKnownLater = !isCostKnown(other) && other.timesAlone < mostAlone;
  if (maybeKnownLater && allowed < 1 && launches % launchesBetweenLooks == 0)
    return false;
  if (!other.blockCost.known())
    return true;
  return ratio(way.blockCost.value(), other.blockCost.value()) - 1 <= allowed;
}

/// Begins the trial of the first way from `from` on that is worth it; without any the trials end.
void KindChoice::startTrial(std::size_t from, Nanoseconds bound) {
  for (const auto &way : ways)
    way->isTried = false;
  for (std::size_t i = from; i < ways.size(); ++i)
    if (!ways[i]->trial.isMeasured() && isWorthTrying(*ways[i], bound)) {
      current = i;
      ways[i]->isTried = true;
      // A known duration, so that the launch need not wait for a long idle time.
      if (!ways[i]->kind && !ways[i]->duration.known())
        ways[i]->duration.add(ways[0]->duration.high());
      return;
    }
  trying = false;
  current = choose(bound);
  settled = ways[0]->trial.isMeasured();
  if (settled)
    return;
  // The first way was not measured: try again later from the beginning.
  trialsFrom = launches + launchesBeforeRetry;
  for (const auto &way : ways)
    way->trial = {};
}

bool KindChoice::isWorthTrying(const LaunchPlan &way, Nanoseconds bound) const {
  if (way.kind)
    return !blocks || !isInside(way); // else the duration of blocks decides
  const DurationEstimate &known = ways[0]->duration;
  return known.known() && known.high() <= bound;
}

/// The cheapest way within the bound; if there is none, the cheapest of the ways whose turnaround
/// is about the shortest.
std::size_t KindChoice::choose(Nanoseconds bound) const {
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
    double factor = way.kind ? betterBy : userKernelBetterBy;
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
