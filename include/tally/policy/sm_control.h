/**
 * @file
 * Steers the number of SMs that best-effort work has beside requests, by how much longer they take.
 */
#ifndef TALLY_POLICY_SM_CONTROL_H
#define TALLY_POLICY_SM_CONTROL_H

#include "tally/policy/policy.h"
#include "tally/policy/sm_measurements.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tally {

/// Measures busy times alone and beside best-effort work on some of the SMs, a window of busy times
/// for each number of SMs. The slowdown is the ratio of their means, of the middle half of each
/// window. A window is as long as the slowdown needs to be known: at most 32 times `window`, and
/// where that is not enough, best-effort work stands aside. A step is the least number of SMs to
/// which the runtime can confine work (Snapshot::leastSms). "Alone" is beside best-effort work on
/// its `least` part.
///
///  - Heavy busy times take turns with best-effort work. Once a busy time has lasted 1.25 times the
///    usual one, and the allowed slowdown more, the work stands aside for its rest. Long prompts of
///    a generation are heavy. Until then the control takes a heavy busy time to be slowed by all
///    the SMs that it lacks, and allows for that.
///  - The number at most doubles, while the slowdown that is to be expected is allowed. It shrinks
///    when the slowdown is not allowed. Before the first trial a part p of the SMs is expected to
///    slow requests down by 0.4 * p (on an H200, with twelve pairs of requests and trainings, the
///    median was 0.65 * p), and by 80 us more, which is what a trial may leave even if it fails:
///    once kernels have run on two streams beside a server's, each kernel of the server's graphs
///    begins some 0.2 us later until the GPU runs another context's work (H200). With a `least`
///    part that is so without a trial.
///  - The first trial follows two windows alone with about the same busy times: a server that has
///    just started, or whose load changes, says nothing yet. If requests are a sixth faster beside
///    best-effort work than they were alone, the server has changed, and is measured alone again.
///  - Sharing has to pay. With a slowdown s, on a part p of the SMs, a busy time B takes the time
///    s * B * (1 - p) and two yields from best-effort work. Alone it takes B, or B * (1 - least).
///    So requests that fill the device are not shared with, unless they come without a queue.
///  - A window in which best-effort work had little to do says nothing.
///  - Where requests queue, and leave so little time that a trial could make the queue grow, there
///    is no trial.
///  - A trial that makes a few requests far too late ends at once. A number that was too large, or
///    did not pay, is tried again much later, and after twice the time whenever it fails again.
///  - After `refresh` windows a window alone is measured again.
///
/// One thread at a time.
struct SmControl {
  double least = 0;  ///< part of the SMs that best-effort work always has, 0 to `most`
  double most = 0.5; ///< largest part of the SMs, 0 to 1
  /// What two yields more for each busy time take from best-effort work; 0 or more. On an H200 they
  /// took 100 to 300 us beside requests of 0.3 to 2 ms.
  std::chrono::nanoseconds cost{std::chrono::microseconds(200)};
  std::uint64_t window = 32;   ///< busy times; 16 or more, a multiple of 4
  std::uint64_t refresh = 128; ///< windows; above 0
  /// How many windows pass before a number that failed is tried again, at first; 16 or more. A
  /// number that failed by little is tried again after a sixteenth of it.
  std::uint64_t betweenTrials = 400;
  std::uint64_t mostBetweenTrials = 6400; ///< the same, at most

  /// What requests may take.
  struct Goal {
    /// Latencies over those of the server alone, 1 or more; 0: by `target`.
    double factor = 0;
    /// What 99 of 100 busy times may take at most, of those that keep it alone.
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
    auto activeFor = static_cast<double>(now.activeFor.count());
    bool isHeavy = activeFor > heavyAfter(goal) * alone.usual;
    if (now.now - looked < mostBetweenLooks) {
      (now.highPriorityActive != 0 ? active : idle) += now.now - looked;
      shared +=
          now.highPriorityActive != 0 && !isHeavy ? now.now - looked : std::chrono::nanoseconds(0);
    }
    looked = now.now;
    if (now.busyPeriods != seen) {
      seen = now.busyPeriods;
      times.add(static_cast<double>(std::max<std::int64_t>(now.busyLast.count(), 1)));
      longer += now.busyLast > goal.target ? 1 : 0;
      judge(now, goal);
    }
    return base(now) + (isHeavy ? 0 : level) * now.leastSms;
  }

  /// The numbers of SMs that the control has found so far, as a line for recall() in a later run.
  std::string memory() const { return found.text(); }
  /// Takes the numbers of an earlier run: beside busy times of the same length alone the first
  /// trial has the number found then. Ignores a text that is none of memory().
  void recall(std::string_view text) { found = FoundSms(text); }

private:
  void judge(const Snapshot &now, const Goal &goal) {
    std::size_t count = times.size();
    bool isLate = isTooLate(goal);
    if (count != 4 && count % (window / 4) != 0 && !isLate)
      return;
    if (windowsSoFar == 0)
      busy = busyNow();
    BusyFacts facts = goal.factor == 0 ? times.facts(heavyAfter(goal), targetOf(goal))
                                       : times.facts(heavyAfter(goal));
    bool isKnown = count >= window && isSure(facts, goal);
    bool isWhole = isKnown || count >= 32 * window;
    if (level == 0) {
      if (!isWhole)
        return;
      bool isSteady = noteAlone(facts);
      lateAlone +=
          weight() * (static_cast<double>(longer) / static_cast<double>(count) - lateAlone);
      noteWindow(facts, 1);
      if (!isSteady)
        windowsSoFar = 0; // the windows so far are of another load
      windows = good = 0;
      return begin(now, isLate || !isKnown || !isSteady ? 0 : start(now, goal));
    }
    double usual = std::max(facts.middle / alone.middle, 1.0);
    double slowdown = slowdownOf(now, goal, usual, level);
    bool isFar = count >= window / 4 ? slowdown > (1.05 + 2 * facts.error) * allowed(goal)
                                     : facts.shortest > 1.5 * allowed(goal) * alone.usual;
    if (!isWhole && !isLate && !isFar)
      return;
    if (!isLate && !isFar && now.bestEffortRan - ranBefore < shared / 2)
      return begin(now, level);
    if (facts.middle * faster < alone.middle)
      return begin(now, 0);
    noteWindow(facts, totalOf(now, usual, level));
    ++windows;
    double unsure = 1 + facts.error + alone.error;
    bool isSlow = !isKnown || slowdown > unsure * allowed(goal);
    if (isLate || isFar || isSlow)
      return fail(now, slowdown > 1.5 * allowed(goal) ? 0 : smaller(now),
                  isLate || isFar ? betweenTrials : betweenTrials / 16);
    if (!pays(now, goal, std::max(usual / unsure, 1.0)))
      return fail(now, 0, betweenTrials);
    if (windows >= refresh)
      return begin(now, 0);
    if (level >= failed) // the trial succeeded
      failed = UINT32_MAX;
    good = level;
    found.note(alone.middle, {level * now.leastSms, usual});
    begin(now, grown(now, goal, usual));
  }
  /// Whether clearly more busy times miss the target than alone: one in fifty more.
  bool isTooLate(const Goal &goal) const {
    if (goal.factor != 0)
      return false;
    auto count = static_cast<double>(times.size()), late = static_cast<double>(longer);
    return late >= 3 + 1.5 * lateAlone * count && late > (lateAlone + 0.02) * count;
  }
  static double targetOf(const Goal &goal) { return static_cast<double>(goal.target.count()); }
  /// The number of steps to go back to from one that is too large.
  std::uint32_t smaller(const Snapshot &now) const {
    if (good < level)
      return good;
    return level > first(now) ? level - 1 : 0;
  }
  /// Whether the middle is known well enough to judge by it.
  bool isSure(const BusyFacts &facts, const Goal &goal) const {
    return facts.error <= (allowed(goal) - 1) / 3;
  }
  /// Windows alone of the same load are put together, so that their middle becomes surer. What
  /// failed beside another load may be tried beside this one. Returns whether the load is about
  /// that of the window alone before.
  bool noteAlone(const BusyFacts &facts) {
    double known = alone.middle, error = 3 * facts.error * facts.middle;
    double change = std::abs(known - facts.middle);
    alone = facts;
    if (known > 0 && change < error) {
      alone.middle = (3 * known + facts.middle) / 4;
      alone.error = facts.error / 2;
    } else if (change > known / 4) {
      failed = UINT32_MAX;
    }
    return known > 0 && change < std::max(error, known / 20);
  }
  /// Heavy busy times may be rare: a window may have none. And a load changes. `slowdown`: of all
  /// busy time in the window.
  void noteWindow(const BusyFacts &facts, double slowdown) {
    heavyNumber += weight() * (facts.heavyNumber - heavyNumber);
    heavyPart += weight() * (facts.heavyPart - heavyPart);
    unseenPart += weight() * (facts.unseenPart - unseenPart);
    busy += weight() * (busyNow() / slowdown - busy);
    ++windowsSoFar;
  }
  /// Of the newest window in the mean of recent windows.
  double weight() const { return windowsSoFar == 0 ? 1 : 1.0 / 8; }
  /// The busy part of the window's time so far.
  double busyNow() const {
    return static_cast<double>(active.count()) /
           std::max(static_cast<double>((active + idle).count()), 1.0);
  }
  /// The number of steps of the first window beside best-effort work.
  std::uint32_t start(const Snapshot &now, const Goal &goal) const {
    if (std::optional<FoundSms::Number> known = found.find(alone.middle))
      for (std::uint32_t next = known->sms / now.leastSms; next >= first(now); --next)
        if (mayHave(now, goal, 1 + (known->slowdown - 1) * next * now.leastSms / known->sms, next))
          return next;
    return grown(now, goal, 1);
  }
  /// The number of steps for the next window, where usual busy times have the slowdown `usual` now:
  /// this number, or a larger one that is worth a trial, at most twice as large.
  std::uint32_t grown(const Snapshot &now, const Goal &goal, double usual) const {
    std::uint32_t least = std::max(level + 1, first(now));
    for (std::uint32_t next = std::max(least, 2 * level); next >= least; --next)
      if (mayHave(now, goal, expected(now, usual, next), next))
        return next;
    return level;
  }
  /// The slowdown of usual busy times on `next` steps, where it is `usual` now. It grows with the
  /// number of SMs, and a little faster.
  double expected(const Snapshot &now, double usual, std::uint32_t next) const {
    double growth = next == level + 1 ? 1 : 1.25;
    if (level == 0)
      return 1 + (least > 0 ? 0 : leftByTrial / alone.middle) + usualHarm * takenBy(now, next);
    return 1 + growth * (usual - 1) * next / level;
  }
  /// Whether a trial of `next` steps is allowed, where usual busy times would be slowed by `usual`.
  bool mayHave(const Snapshot &now, const Goal &goal, double usual, std::uint32_t next) const {
    if (partOf(now, next) > most || (next >= failed && now.busyPeriods < retryAt))
      return false;
    if (slowdownOf(now, goal, usual, next) > allowed(goal))
      return false;
    // A trial must not make a queue grow, even where requests suffer twice what they lose in SMs.
    return level != 0 || !goal.queues || busy * (1 + 2 * takenBy(now, next)) < 0.92;
  }
  /// Goes on with `next` steps. `windowsBetween`: until this number is tried again, where it has
  /// not failed before.
  void fail(const Snapshot &now, std::uint32_t next, std::uint64_t windowsBetween) {
    wait =
        level == failed ? std::clamp(2 * wait, windowsBetween, mostBetweenTrials) : windowsBetween;
    failed = level;
    good = std::min(good, next);
    found.limit(alone.middle, next * now.leastSms);
    retryAt = now.busyPeriods + wait * window;
    begin(now, next);
  }
  void begin(const Snapshot &now, std::uint32_t with) {
    level = with;
    ranBefore = now.bestEffortRan;
    times.clear();
    longer = 0;
    active = idle = shared = {};
  }

  /// The largest slowdown of busy times. Where requests queue, latencies grow by more than busy
  /// times (in the mean of a queue with random arrivals by (1 - busy) / (1 - slowdown * busy)).
  double allowed(const Goal &goal) const {
    double factor = goal.factor;
    if (factor == 0)
      factor = targetOf(goal) / std::max(alone.longest, 1.0);
    factor = std::max(1 + (factor - 1) * caution, 1.0);
    return goal.queues ? factor / (1 - busy + factor * busy) : factor;
  }
  /// After how many usual busy times one is heavy; a usual one that is slowed as far as is allowed
  /// is not.
  double heavyAfter(const Goal &goal) const { return 0.25 + allowed(goal); }
  /// The slowdown of all busy time together, on `of` steps, where usual busy times have this one.
  double totalOf(const Snapshot &now, double usual, std::uint32_t of) const {
    return (1 - heavyPart) * usual + heavyPart + unseenPart * takenBy(now, of);
  }
  /// The slowdown that the goal is about: of heavy busy times, or of all of them where one makes
  /// those behind it late, else of usual ones.
  double slowdownOf(const Snapshot &now, const Goal &goal, double usual, std::uint32_t of) const {
    double ofHeavy = heavyNumber > enough ? 1 + unseenPart / heavyPart * takenBy(now, of) : 1;
    return std::max(goal.queues ? totalOf(now, usual, of) : usual, ofHeavy);
  }
  bool pays(const Snapshot &now, const Goal &goal, double usual) const {
    double own = partOf(now, 0), part = partOf(now, level);
    double lost = own > 0 ? 0 : static_cast<double>(cost.count()) / alone.middle;
    // In multiples of the busy time alone: all of it now, and what best-effort work has of that.
    double total = totalOf(now, usual, level);
    double shared = (1 - heavyPart) * usual + unseenPart;
    double had = part * shared + own * (total - shared);
    if (goal.queues)
      return total - had + lost < 1 - own;
    // The next busy time comes as long after this one as it would alone.
    double rest = (1 - busy) / busy;
    return (rest + had - lost) / (rest + total) > (rest + own) / (rest + 1);
  }
  /// The SMs of level 0.
  std::uint32_t base(const Snapshot &now) const {
    auto steps = static_cast<std::uint32_t>(least * now.smCount) / now.leastSms;
    return (least > 0 ? std::max(steps, 1u) : 0) * now.leastSms;
  }
  /// The part of the SMs that `steps` take beyond those of level 0.
  static double takenBy(const Snapshot &now, std::uint32_t steps) {
    return static_cast<double>(steps * now.leastSms) / now.smCount;
  }
  double partOf(const Snapshot &now, std::uint32_t of) const {
    return static_cast<double>(base(now) + of * now.leastSms) / now.smCount;
  }
  /// The smallest level worth a trial: without a slowdown it brings twice what two yields take.
  std::uint32_t first(const Snapshot &now) const {
    if (least > 0)
      return 1;
    double sms = 2 * static_cast<double>(cost.count()) / alone.middle * now.smCount;
    return static_cast<std::uint32_t>(std::clamp(std::ceil(sms / now.leastSms), 1.0, 1e6));
  }

  static constexpr double caution = 0.7;      // the part of the allowed lateness that is used
  static constexpr double usualHarm = 0.4;    // slowdown over the part of the SMs, before any trial
  static constexpr double leftByTrial = 80e3; // nanoseconds more for each busy time behind a trial
  static constexpr double faster = 1.2;   // alone over beside others: then the server has changed
  static constexpr double enough = 0.005; // heavy ones for them to be seen in a 99th percentile
  // After a longer time without a call the state in between is not known.
  static constexpr std::chrono::nanoseconds mostBetweenLooks{std::chrono::milliseconds(1)};

  std::uint32_t level = 0, good = 0;   // steps; the largest that a window found good
  std::uint32_t failed = UINT32_MAX;   // the level that was too large last
  std::uint64_t seen = 0, windows = 0; // busyPeriods; windows since the last one alone
  BusyWindow times;
  FoundSms found;
  std::uint64_t longer = 0; // those above the target
  double lateAlone = 0;     // part of the busy times above the target, in recent windows alone
  BusyFacts alone;          // of the last window alone
  double busy = 1;          // part of the time in it
  // Of busy times, in the mean of recent windows (BusyFacts).
  double heavyNumber = 0, heavyPart = 0, unseenPart = 0;
  std::uint64_t windowsSoFar = 0;
  std::chrono::nanoseconds active{0}, idle{0}, shared{0}; // of the window
  std::chrono::nanoseconds looked{0};                     // the last call
  std::chrono::nanoseconds ranBefore{0};                  // Snapshot::bestEffortRan before it
  std::uint64_t wait = 0, retryAt = 0;                    // windows; busyPeriods
};

} // namespace tally

#endif
