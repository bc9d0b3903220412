// The profiler: the ways to launch one kernel in one shape, the cost of each way, and which way is
// best within the bound. It measures the application's own launches: the first few dozen launches
// of a shape are made in each way in turn, while no high-priority work is active (other launches do
// not count). If there is a kind that stops inside blocks, the duration of blocks is always
// measured, and that kind is taken where blocks are long (docs/design/kinds.md).
#ifndef TALLY_LIB_RUNTIME_PLANNING_KIND_CHOICE_H
#define TALLY_LIB_RUNTIME_PLANNING_KIND_CHOICE_H

#include "base/duration_estimate.h"
#include "planning/block_times.h"
#include "planning/residency.h"

#include "tally/bundle/bundle.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tally::runtime {

/// Costs of launches that were made alone to be measured.
class Trial {
public:
  void give() { ++given; }
  /// Adds the time for which a launch kept the lane from other work: its duration, plus the time
  /// for which the device had to wait until it was sent.
  void add(Nanoseconds cost) {
    if (!isMeasured())
      costs.push_back(cost);
  }
  bool isMeasured() const { return costs.size() == wanted; }
  /// Whether the way was tried often enough without being measured.
  bool isHopeless() const { return given >= mostGiven && !isMeasured(); }
  bool isOver() const { return isMeasured() || isHopeless(); }
  /// The median cost; zero while it is not measured.
  Nanoseconds cost() const {
    if (!isMeasured())
      return Nanoseconds(0);
    std::vector<Nanoseconds> sorted = costs;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }

private:
  static constexpr std::size_t wanted = 9;
  static constexpr std::uint32_t mostGiven = 64;
  std::uint32_t given = 0;
  std::vector<Nanoseconds> costs;
};

/// One way to launch: through a variant of `kind`, or, without a kind, by the user's kernel.
struct LaunchPlan {
  std::optional<Kind> kind;
  std::uint32_t sliceBlocks = 1;
  std::uint32_t workers = 1;
  std::uint32_t wave = 1;    ///< thread blocks that run at a time
  Footprint leaves;          ///< kinds with workers: resources of an SM that the workers leave free
  std::uint32_t padding = 0; ///< kind pause: see paddingFor()
  std::uint64_t saveStride = 0; ///< kind checkpoint: see saveStrideOf()
  std::uint64_t saveBytes = 0;  ///< kind checkpoint: bytes of all workers' slots
  Nanoseconds saveTime{0};      ///< kind checkpoint: time to write these bytes
  /// Number of waves: how many blocks run one after another. The launch's duration divided by
  /// `waves` is about a block's duration.
  std::uint64_t waves = 1;
  DurationEstimate duration; ///< duration of launches made this way; kind slice: of one slice
  Trial trial;
  bool isTried = false; ///< a trial of this way is under way: its launches go alone
  /// Durations of blocks, where these decide on the way; shared by all ways.
  std::shared_ptr<BlockTimes> blocks;
  /// With `blocks`: the device's time for 1,024 blocks.
  RecentMedian blockCost;
  std::uint32_t timesAlone = 0; ///< number of launches that went alone to measure these
};

/// For one thread.
class KindChoice {
public:
  /// `ways`: at least one; the first way is taken before anything is known. A way without a kind is
  /// tried where launches turn out to be shorter than the bound. Ways that stop inside blocks are
  /// taken where blocks turn out to be longer than the bound, unless the first way is one of them.
  explicit KindChoice(std::vector<LaunchPlan> ways);

  /// The way for the next launch. `measures`: make trials too, not only measure blocks. `assumed`:
  /// assumed duration of a block while it is unknown; zero: no assumption.
  const std::shared_ptr<LaunchPlan> &pick(Nanoseconds bound, bool measures,
                                          Nanoseconds assumed = Nanoseconds(0));
  /// Prefers guard to persistent where both are ways: at once, or, if the duration of blocks
  /// decides, once it is known and launches stop between blocks. Before that a begun launch of kind
  /// guard could not go on with a kind that stops inside blocks.
  void preferGuard();
  /// Duration of a block; zero where it is unknown or not used.
  Nanoseconds blockTime() const { return blocks ? blocks->time() : Nanoseconds(0); }
  /// Duration of a block of a launch that takes `launch` in all.
  Nanoseconds blockOf(Nanoseconds launch) const {
    return launch / static_cast<std::int64_t>(std::max<std::uint64_t>(ways[0]->waves, 1));
  }
  /// Tells the duration of launches that ran outside of the lane.
  void addNews(Nanoseconds launch) {
    if (blocks)
      blocks->addNews(blockOf(launch));
  }
  /// Tells the duration of blocks that an earlier process found.
  void assumeBlocks(Nanoseconds each) {
    if (blocks)
      blocks->add(each);
  }
  /// The way found best; nullptr before the trials are over.
  const LaunchPlan *best() const { return settled ? ways[current].get() : nullptr; }
  /// Takes over the result of an earlier process, if there is such a way.
  void settle(std::optional<Kind> kind, Nanoseconds high);

  bool has(Kind kind) const { return way(kind) != nullptr; }
  /// The way through `kind`; nullptr if there is none.
  std::shared_ptr<LaunchPlan> way(Kind kind) const;
  /// Call this when the way through a kind was planned again, to leave another headroom. The
  /// duration of blocks stays known; their cost is measured anew if the number of workers changed.
  void changeWorkers(const LaunchPlan &planned);

  /// Whether there is more than one way.
  bool hasChoice() const { return ways.size() > 1; }

private:
  std::optional<std::size_t> wayInside(Nanoseconds bound, Nanoseconds assumed);
  bool isWorthItsCost(const LaunchPlan &way, Nanoseconds block) const;
  bool isWorthTrying(const LaunchPlan &way, Nanoseconds bound) const;
  void startTrial(std::size_t from, Nanoseconds bound);
  std::size_t choose(Nanoseconds bound) const;

  std::vector<std::shared_ptr<LaunchPlan>> ways;
  std::shared_ptr<BlockTimes> blocks;    // shared by all ways
  bool inside = false;                   // the last launch was made to stop inside blocks
  std::optional<std::size_t> whereShort; // way between blocks, once their duration is known
  std::size_t current = 0;
  /// Launch at which trials begin: a kernel that runs a few times is not worth trials, and the
  /// first launches include set-up.
  std::uint64_t launches = 0, trialsFrom = 16;
  bool trying = false, settled = false;
};

/// Whether the next launch made this way should go alone, since too little is known of the duration
/// of its blocks, or, where they are longer than the bound, of the way's cost.
bool wantsMeasurement(const LaunchPlan &way, Nanoseconds bound);

/// Time from a request to yield until the last block of a launch is gone, by measured durations.
Nanoseconds turnaroundOf(const LaunchPlan &way);

/// tally_launch_params::stay of a launch of kind pause.
std::uint32_t stayOf(const LaunchPlan &way);

/// Makes a kernel's slices longer where they are much shorter than the bound, and shorter where two
/// of them are longer, since a request waits for the rest of two slices. A slice has at least
/// `wave` blocks, the number that runs at a time.
void fitSlices(LaunchPlan &way, Nanoseconds bound, std::uint32_t wave);

} // namespace tally::runtime

#endif
