// The ways in which launches of one kernel and shape can be made, what each of them takes, and
// which of them is best within the bound: the profiler. It measures the application's own launches:
// the first few dozen of a shape are made in each way in turn, while no high-priority work is
// active (others do not count). What blocks take is always measured where there is a kind that
// stops inside of them, and that kind taken where they are long (docs/design/kinds.md).
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

/// Measurements of launches that were made one at a time for their sake.
class Trial {
public:
  void give() { ++given; }
  /// What the launch kept the lane from doing other work for: its duration, and where the device
  /// had to wait for it to be sent, that.
  void add(Nanoseconds cost) {
    if (!isMeasured())
      costs.push_back(cost);
  }
  bool isMeasured() const { return costs.size() == wanted; }
  /// It was tried often enough without being measured.
  bool isHopeless() const { return given >= mostGiven && !isMeasured(); }
  bool isOver() const { return isMeasured() || isHopeless(); }
  /// The median; zero while it is not measured.
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

/// One way: through `kind`, or, without one, by the user's kernel.
struct LaunchPlan {
  std::optional<Kind> kind;
  std::uint32_t sliceBlocks = 1;
  std::uint32_t workers = 1;
  std::uint32_t wave = 1;       ///< blocks that run at a time
  Footprint leaves;             ///< of kinds with workers: what these leave of an SM
  std::uint32_t padding = 0;    ///< of pause: see paddingFor()
  std::uint64_t saveStride = 0; ///< of checkpoint: see saveStrideOf()
  std::uint64_t saveBytes = 0;  ///< likewise: of all workers' slots
  Nanoseconds saveTime{0};      ///< likewise: what it takes to write these
  /// How many blocks run one after the other where one would do with unlimited SMs: the launch's
  /// duration over that is about a block's.
  std::uint64_t waves = 1;
  DurationEstimate duration; ///< of launches made so; of slices: of one
  Trial trial;
  bool isTried = false; ///< it is the one that a trial is made of now: launches go alone
  /// Where the length of blocks decides on the way: what they take. All ways' together.
  std::shared_ptr<BlockTimes> blocks;
  /// With them: what the device took for 1,024 blocks.
  RecentMedian blockCost;
  std::uint32_t timesAlone = 0; ///< how often a launch went alone for the sake of these
};

/// For one thread.
class KindChoice {
public:
  /// `ways`: at least one; the first is taken before anything is known. One without a kind is tried
  /// where the launches turn out to be shorter than the bound. Those that stop inside of blocks are
  /// taken where blocks turn out to be longer than that; unless the first is one.
  explicit KindChoice(std::vector<LaunchPlan> ways);

  /// The way for the next launch. `measures`: of more than the length of blocks. `assumed`: what
  /// blocks are taken to be like while nothing is known of these; zero: nothing.
  const std::shared_ptr<LaunchPlan> &pick(Nanoseconds bound, bool measures,
                                          Nanoseconds assumed = Nanoseconds(0));
  /// Takes guard instead of persistent where both are ways: at once, or, where what blocks take
  /// decides, when that is known and launches go between; before that a launch that has begun could
  /// not go on inside of its blocks.
  void preferGuard();
  /// What a block takes; zero where it is not known, or decides nothing.
  Nanoseconds blockTime() const { return blocks ? blocks->time() : Nanoseconds(0); }
  /// What blocks take of a launch that takes so long all in all.
  Nanoseconds blockOf(Nanoseconds launch) const {
    return launch / static_cast<std::int64_t>(std::max<std::uint64_t>(ways[0]->waves, 1));
  }
  /// Launches took so long while they ran past the lane.
  void addNews(Nanoseconds launch) {
    if (blocks)
      blocks->addNews(blockOf(launch));
  }
  /// What an earlier process found them to take.
  void assumeBlocks(Nanoseconds each) {
    if (blocks)
      blocks->add(each);
  }
  /// The way that was found best, once it is.
  const LaunchPlan *best() const { return settled ? ways[current].get() : nullptr; }
  /// What an earlier process found: taken for this one's, if there is such a way.
  void settle(std::optional<Kind> kind, Nanoseconds high);

  bool has(Kind kind) const;
  /// The way through a kind was planned again, to leave other room. What blocks take stays known;
  /// what they cost is measured anew where there are other workers.
  void changeWorkers(const LaunchPlan &planned);

  /// Whether there is a choice at all.
  bool hasChoice() const { return ways.size() > 1; }

private:
  std::optional<std::size_t> wayInside(Nanoseconds bound, Nanoseconds assumed);
  bool isWorthItsCost(const LaunchPlan &way, Nanoseconds block) const;
  bool isWorthTrying(const LaunchPlan &way, Nanoseconds bound) const;
  void startTrial(std::size_t from, Nanoseconds bound);
  std::size_t choose(Nanoseconds bound) const;

  std::vector<std::shared_ptr<LaunchPlan>> ways;
  std::shared_ptr<BlockTimes> blocks;    // of all ways
  bool inside = false;                   // the last launch was made to stop inside of blocks
  std::optional<std::size_t> whereShort; // the way between blocks once these are known
  std::size_t current = 0;
  /// What runs a few times is not worth trials, and the first launches pay for what is set up then.
  std::uint64_t launches = 0, trialsFrom = 16;
  bool trying = false, settled = false;
};

/// Whether the next launch made so should go alone, since too little is known of what its blocks
/// take, or, where they are longer than the bound, of what the way costs.
bool wantsMeasurement(const LaunchPlan &way, Nanoseconds bound);

/// From a request to yield until the last block of such a launch is gone, by its measured duration.
Nanoseconds turnaroundOf(const LaunchPlan &way);

/// tally_launch_params::stay of a launch through pause.
std::uint32_t stayOf(const LaunchPlan &way);

/// Makes slices of a kernel longer where they are much shorter than the bound, and shorter where
/// they are longer; `wave` blocks run at a time, a slice has at least so many. A request waits for
/// what is left of two.
void fitSlices(LaunchPlan &way, Nanoseconds bound, std::uint32_t wave);

} // namespace tally::runtime

#endif
