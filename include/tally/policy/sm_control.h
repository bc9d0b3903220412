/**
 * @file
 * Steers the number of SMs that best-effort work has beside requests, by how much longer they take.
 */
#ifndef TALLY_POLICY_SM_CONTROL_H
#define TALLY_POLICY_SM_CONTROL_H

#include "tally/policy/policy.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace tally {

/// Measures busy times alone and beside best-effort work on some of the SMs, a window of busy times
/// for each number of SMs. The slowdown is the ratio of their means, of the middle half of each
/// window: a few long requests, such as long prompts of a generation, say nothing. A step is the
/// least number of SMs to which the runtime can confine work (Snapshot::leastSms). "Alone" is
/// beside best-effort work on its `least` part.
///
///  - The number grows by a step while the slowdown that is to be expected of one step more is
///    allowed. It shrinks when the slowdown is not allowed.
///  - Sharing has to pay: with a slowdown s, on a part p of the SMs, a busy time B costs
///  best-effort
///    work s * B * (1 - p), and two yields. Alone it costs B, or B * (1 - least). So requests that
///    fill the device are not shared with, unless they come one after the other without a queue.
///  - A window in which best-effort work had little to do says nothing.
///  - Where requests queue, and leave so little time that a trial could make the queue grow, there
///    is no trial.
///  - A number that was too large, or did not pay, is tried again much later, and after twice the
///    time whenever it fails again: a trial makes some requests late.
///  - After `refresh` windows a window alone is measured again.
///
/// One thread at a time.
struct SmControl {
  double least = 0;  ///< part of the SMs that best-effort work always has, 0 to `most`
  double most = 0.5; ///< largest part of the SMs, 0 to 1
  std::chrono::nanoseconds cost{std::chrono::microseconds(100)}; ///< of two yields; 0 or more
  std::uint64_t window = 64;                                     ///< busy times; 32 or more
  std::uint64_t refresh = 64;                                    ///< windows; above 0
  /// How many windows pass before a number that failed is tried again, at first; above 0.
  std::uint64_t betweenTrials = 200;
  std::uint64_t mostBetweenTrials = 3200; ///< the same, at most

  /// What requests may take.
  struct Goal {
    /// Latencies over those of the server alone, 1 or more; 0: by `target`.
    double factor = 0;
    /// What 99 of 100 busy times may take at most.
    std::chrono::nanoseconds target{0};
    /// Whether requests queue: then one that is slower makes those behind it late as well.
    bool queues = true;
  };

  /// Returns the number of SMs, a multiple of Snapshot::leastSms, and at least that number where
  /// `least` is above 0. 0: best-effort work stands aside.
  /// Reads now, highPriorityActive, activeFor, busyPeriods, busyLast, bestEffortRan, leastSms and
  /// smCount.
  std::uint32_t update(const Snapshot &now, const Goal &goal) {
    if (now.leastSms == 0 || now.smCount == 0)
      return 0;
    if (now.now - looked < mostBetweenLooks)
      (now.highPriorityActive != 0 ? active : idle) += now.now - looked;
    looked = now.now;
    if (level != 0 && static_cast<double>(now.activeFor.count()) > 8 * longestAlone)
      fail(now, 0); // a queue grows
    if (now.busyPeriods != seen) {
      seen = now.busyPeriods;
      times.push_back(static_cast<double>(now.busyLast.count()));
      longer += now.busyLast > goal.target ? 1 : 0;
      judge(now, goal);
    }
    return base(now) + level * now.leastSms;
  }

private:
  void judge(const Snapshot &now, const Goal &goal) {
    std::size_t count = times.size();
    bool isLate = goal.factor == 0 && longer >= 3 && 50 * longer > count;
    if (level == 0) {
      if (count < window)
        return;
      alone = middle();
      longestAlone = times.back(); // sorted
      windows = 0;
      busy = static_cast<double>(active.count()) /
             std::max(static_cast<double>((active + idle).count()), 1.0);
      return begin(now, !isLate && mayGrow(now, goal, 1) ? first(now) : 0);
    }
    if (count < window / 4)
      return;
    double slowdown = std::max(middle() / alone, 1.0);
    bool isFar = slowdown > 1.05 * allowed(goal);
    if (count < window && !isLate && !isFar)
      return;
    if (!isLate && !isFar && now.bestEffortRan - ranBefore < active / 2)
      return begin(now, level);
    ++windows;
    if (isLate || isFar || slowdown > allowed(goal))
      return fail(now, level > first(now) ? level - 1 : 0);
    if (!pays(now, goal, slowdown))
      return fail(now, 0);
    if (windows >= refresh)
      return begin(now, 0);
    if (level >= failed) // the trial succeeded
      failed = UINT32_MAX;
    begin(now, mayGrow(now, goal, slowdown) ? level + 1 : level);
  }
  /// Returns the mean of the middle half of the window's times. Sorts them.
  double middle() {
    std::sort(times.begin(), times.end());
    std::size_t from = times.size() / 4, to = times.size() - from;
    double sum = 0;
    for (std::size_t i = from; i < to; ++i)
      sum += times[i];
    return sum / static_cast<double>(to - from);
  }
  /// Whether one step more is worth a trial.
  bool mayGrow(const Snapshot &now, const Goal &goal, double slowdown) const {
    std::uint32_t next = std::max(level + 1, first(now));
    double part = static_cast<double>(next) * now.leastSms / now.smCount;
    if (part + partOf(now, 0) > most || (next >= failed && now.busyPeriods < retryAt))
      return false;
    if (level != 0)
      return 1 + (slowdown - 1) * next / level <= allowed(goal);
    // A trial must not make a queue grow, even where requests suffer twice what they lose in SMs.
    return !goal.queues || busy * (1 + 2 * part) < 0.85;
  }
  void fail(const Snapshot &now, std::uint32_t next) {
    wait = level == failed ? std::min(2 * wait, mostBetweenTrials) : betweenTrials;
    failed = level;
    retryAt = now.busyPeriods + wait * window;
    begin(now, next);
  }
  void begin(const Snapshot &now, std::uint32_t with) {
    level = with;
    ranBefore = now.bestEffortRan;
    times.clear();
    longer = 0;
    active = idle = {};
  }

  /// The largest slowdown of busy times. Where requests queue, latencies grow by more than busy
  /// times (in the mean of a queue with random arrivals by (1 - busy) / (1 - slowdown * busy)).
  double allowed(const Goal &goal) const {
    double factor = goal.factor;
    if (factor == 0)
      factor = static_cast<double>(goal.target.count()) / std::max(longestAlone, 1.0);
    factor = std::max(1 + (factor - 1) * caution, 1.0);
    return goal.queues ? factor / (1 - busy + factor * busy) : factor;
  }
  bool pays(const Snapshot &now, const Goal &goal, double slowdown) const {
    double own = partOf(now, 0), part = partOf(now, level);
    double lost = own > 0 ? 0 : static_cast<double>(cost.count()) / alone;
    if (goal.queues)
      return slowdown * (1 - part) + lost < 1 - own;
    // The next busy time comes as long after this one as it would alone.
    double rest = (1 - busy) / busy;
    return (rest + part * slowdown - lost) / (rest + slowdown) > (rest + own) / (rest + 1);
  }
  /// The SMs of level 0.
  std::uint32_t base(const Snapshot &now) const {
    auto steps = static_cast<std::uint32_t>(least * now.smCount) / now.leastSms;
    return (least > 0 ? std::max(steps, 1u) : 0) * now.leastSms;
  }
  double partOf(const Snapshot &now, std::uint32_t of) const {
    return static_cast<double>(base(now) + of * now.leastSms) / now.smCount;
  }
  /// The smallest level worth a trial: without a slowdown it brings twice what two yields take.
  std::uint32_t first(const Snapshot &now) const {
    if (least > 0)
      return 1;
    double sms = 2 * static_cast<double>(cost.count()) / alone * now.smCount;
    return static_cast<std::uint32_t>(std::clamp(std::ceil(sms / now.leastSms), 1.0, 1e6));
  }

  static constexpr double caution = 0.7; // the part of the allowed lateness that is used
  // After a longer time without a call the state in between is not known.
  static constexpr std::chrono::nanoseconds mostBetweenLooks{std::chrono::milliseconds(1)};

  std::uint32_t level = 0;             // steps
  std::uint32_t failed = UINT32_MAX;   // the level that was too large last
  std::uint64_t seen = 0, windows = 0; // busyPeriods; windows since the last one alone
  std::vector<double> times;           // of the window, ns
  std::uint64_t longer = 0;            // those above the target
  double alone = 0, longestAlone = 0;  // of the last window alone: the middle and the longest, ns
  double busy = 1;                     // part of the time in it
  std::chrono::nanoseconds active{0}, idle{0}, looked{0}; // of the window; the last call
  std::chrono::nanoseconds ranBefore{0};                  // Snapshot::bestEffortRan before it
  std::uint64_t wait = 0, retryAt = 0;                    // windows; busyPeriods
};

} // namespace tally

#endif
