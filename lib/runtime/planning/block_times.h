// Duration of a block of one kernel and launch shape, from recent launches. Where launches do not
// stop inside blocks, a request waits for this time, so it decides the kind.
#ifndef TALLY_LIB_RUNTIME_PLANNING_BLOCK_TIMES_H
#define TALLY_LIB_RUNTIME_PLANNING_BLOCK_TIMES_H

#include "tally/runtime/control_word.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tally::runtime {

/// The median of the last few durations, the lower of two. A host that was stopped during a
/// measurement changes it only until the next durations come. Not thread-safe.
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

/// Block durations of one kernel and shape, for all ways of launching it. Not thread-safe.
class BlockTimes {
public:
  bool known() const { return times.known(); }
  /// Zero while nothing is known.
  Nanoseconds time() const { return times.value(); }
  /// Adds the time from a launch that had the device to itself. Never zero, which means unknown.
  void add(Nanoseconds block) { times.add(std::max(block, Nanoseconds(1))); }
  /// Replaces the known time by a recent time that was measured elsewhere, if the two differ by a
  /// factor of two or more.
  void addNews(Nanoseconds block) {
    Nanoseconds before = time();
    if (before.count() == 0 || (block < 2 * before && before < 2 * block))
      return;
    times = {};
    add(block);
  }
  /// Adds the time from a launch that shared the device. Used only if no better time comes for a
  /// while.
  void addShared(Nanoseconds block) {
    if (!known() && ++shared > mostShared)
      add(block);
  }
  /// Whether launches should go alone to learn more: one launch if blocks are short; if they are
  /// long, which changes the kind, until a single bad measurement cannot decide that.
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
