// What a block of one kernel and launch shape takes, as the launches lately showed it: what a
// request waits for where blocks are not stopped inside, and so what the kind is chosen by.
#ifndef TALLY_LIB_RUNTIME_PLANNING_BLOCK_TIMES_H
#define TALLY_LIB_RUNTIME_PLANNING_BLOCK_TIMES_H

#include "tally/runtime/control_word.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tally::runtime {

/// The median of the last few durations, the lower one of two: a host that was stopped while it
/// measured moves it only until the next ones have come. Not thread-safe.
class RecentMedian {
public:
  bool known() const { return samples != 0; }
  std::uint64_t count() const { return samples; }
  void add(Nanoseconds took) { last[samples++ % last.size()] = took; }
  /// Zero while nothing is known.
  Nanoseconds value() const {
    auto kept = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(samples, last.size()));
    if (kept == 0)
      return Nanoseconds(0);
    std::array<Nanoseconds, 7> sorted = last;
    std::nth_element(sorted.begin(), sorted.begin() + (kept - 1) / 2, sorted.begin() + kept);
    return sorted[static_cast<std::size_t>(kept - 1) / 2];
  }

private:
  std::uint64_t samples = 0;
  std::array<Nanoseconds, 7> last{};
};

/// Of one kernel and shape, whichever way its launches are made. Not thread-safe.
class BlockTimes {
public:
  bool known() const { return times.known(); }
  /// Zero while nothing is known.
  Nanoseconds time() const { return times.value(); }
  /// From a launch that had the device to itself. Zero would say that nothing is known.
  void add(Nanoseconds block) { times.add(std::max(block, Nanoseconds(1))); }
  /// What was measured elsewhere, not long ago. Where it is something else altogether than what was
  /// known, that is forgotten.
  void addNews(Nanoseconds block) {
    Nanoseconds before = time();
    if (before.count() == 0 || (block < 2 * before && before < 2 * block))
      return;
    times = {};
    add(block);
  }
  /// From one that shared it. Where nothing better comes for a while this has to do.
  void addShared(Nanoseconds block) {
    if (!known() && ++shared > mostShared)
      add(block);
  }
  /// Whether launches should go alone so that more is learned: once where blocks are short, and
  /// where they are long, which has consequences, until one bad measurement cannot say so.
  bool wantsMore(Nanoseconds bound) const {
    return !known() || (times.count() < 3 && time() > bound);
  }

private:
  static constexpr std::uint32_t mostShared = 8;
  RecentMedian times;
  std::uint32_t shared = 0;
};

} // namespace tally::runtime

#endif
