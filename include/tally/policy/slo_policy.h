/**
 * @file
 * slo: best-effort work gets the time that a request does not need to meet its deadline (after
 * Herald: light kernels share the device with a request, heavy kernels take turns with it).
 */
#ifndef TALLY_POLICY_SLO_POLICY_H
#define TALLY_POLICY_SLO_POLICY_H

#include "tally/policy/additive_control.h"
#include "tally/policy/sm_control.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace tally {

/// The slack is the target less the time that high-priority work usually takes
/// (Snapshot::busyHigh), or has taken so far if that is more. The slack uses measured times only,
/// so sharing that slows requests down reduces the slack, and with it the sharing.
///
///  - While high-priority work is active, best-effort work runs on a part of the SMs, if the
///  runtime
///    can confine it to them (Snapshot::leastSms). The part follows the measured slowdown
///    (SmControl). A kernel that cannot yield, or cannot be confined, has to fit `lightShare` of
///    the slack.
///  - Else, while high-priority work is active, a kernel runs if it is predicted to take at most
///    `lightShare` of the slack, times a steered factor. The factor grows from 0 to 1 by a step in
///    each interval in which the target is kept, and is halved in each in which it is not: under a
///    high load a little harm to each request adds up.
///  - While no high-priority work is active all best-effort work runs. With a target, a kernel that
///    cannot yield runs only if it is predicted to fit the slack, or has waited for `patience`.
///    With a factor it runs as under strict priority.
///  - With less slack than `least`, and until a busy time has been seen, the policy is strict
///    priority. Where high-priority work alone misses the target, to hold best-effort work back
///    would not help.
///  - Where requests queue, the harm to one passes on to the next, all the more the less idle time
///    there is. So the slack for light kernels shrinks with the part of the time that is idle
///    (`queues`).
///  - Best-effort work that got less than `floor` of the time runs beside requests too, until that
///    work has caught up. The policy does not keep the target then.
///
/// The target is for a busy time (Snapshot). The time that a request waits in the server's own
/// queue is unknown here.
struct SloPolicy {
  std::chrono::nanoseconds target{std::chrono::milliseconds(10)}; ///< latency of a request
  /// Latencies over those of the server alone, 1 or more; 0: `target` says what requests may take.
  /// Where the runtime cannot confine work, a policy with a factor is strict priority.
  double factor = 0;
  double lightShare = 0.25; ///< part of the slack that a light kernel may take; 0 to 1
  /// Slack below which the policy is strict priority; 0 or more.
  std::chrono::nanoseconds least{std::chrono::microseconds(50)};
  /// Waiting time after which a kernel that cannot yield runs in any idle time; 0 or more.
  std::chrono::nanoseconds patience{std::chrono::milliseconds(5)};
  /// Whether requests may queue. False: the next request, or step of a generation, comes only when
  /// the one before is over.
  bool queues = true;
  /// Part of the time that best-effort work gets in any case; 0 to 1. 0: none.
  double floor = 0;
  /// How much time below `floor` best-effort work can catch up; above 0.
  std::chrono::nanoseconds debt{std::chrono::milliseconds(20)};
  /// Steers the factor, from 0 to 1, by which light kernels share. It shrinks where the target is
  /// not kept; `tolerance` is not used.
  AdditiveControl sharing;
  SmControl beside; ///< steers how many SMs best-effort work has beside requests

  /// Reads now, bestEffortRan, busyPeriods, busyLast, busyMean, busyHigh, activeFor,
  /// highPriorityActive, heldBack, leastSms and smCount; as strict priority, the fields that
  /// PriorityPolicy::decide() reads.
  Decision decide(const Snapshot &now) {
    double steered = now.leastSms == 0 ? steer(now) : 0;
    std::uint32_t sms = beside.update(now, {factor, target, queues});
    Decision decision;
    decision.runBestEffort = true;
    if (isOwed(now))
      return decision;
    std::chrono::nanoseconds slack = factor == 0 ? target - std::max(now.busyHigh, now.activeFor)
                                                 : partOf(now.busyMean, factor - 1);
    bool isActive = now.highPriorityActive != 0;
    if (isActive && sms != 0 && (factor != 0 || now.activeFor < target)) {
      decision.sms = sms;
      decision.longestNonPreemptible = decision.longestUnconfined = partOf(slack, lightShare);
      return decision;
    }
    bool isStrict = factor != 0 || (isActive && now.leastSms != 0);
    if (isStrict || now.busyPeriods == 0 || slack < least) {
      PriorityPolicy strict;
      strict.patience = patience;
      return strict.decide(now);
    }
    if (now.highPriorityActive == 0) {
      decision.longestNonPreemptible = now.heldBack >= patience ? anyDuration : slack;
      return decision;
    }
    if (queues)
      steered *= idle;
    decision.longest = decision.longestNonPreemptible = partOf(slack, lightShare * steered);
    decision.runBestEffort = decision.longest.count() > 0;
    return decision;
  }

  /// What `beside` found, for recall() in a later run.
  std::string memory() const { return beside.memory(); }
  /// Takes what an earlier run found.
  void recall(std::string_view text) { beside.recall(text); }

private:
  static std::chrono::nanoseconds partOf(std::chrono::nanoseconds time, double part) {
    return std::chrono::nanoseconds(
        static_cast<std::int64_t>(std::max(static_cast<double>(time.count()) * part, 0.0)));
  }
  /// Whether best-effort work has had less than its floor.
  bool isOwed(const Snapshot &now) {
    if (floor <= 0)
      return false;
    auto most = static_cast<double>(debt.count());
    owed = std::clamp(owed + account.change(now, floor), -most, most);
    return owed > 0;
  }

  /// Returns the factor, 0 to 1; below a step it is 0.
  double steer(const Snapshot &now) {
    if (std::optional<AdditiveControl::Passed> passed = sharing.next(now)) {
      double busy = static_cast<double>(passed->busyPeriods) *
                    static_cast<double>(now.busyMean.count()) /
                    static_cast<double>(passed->time.count());
      idle = (3 * idle + std::clamp(1 - busy, 0.0, 1.0)) / 4;
      sharing.adjust(now.busyHigh > target);
    }
    return sharing.value < sharing.step ? 0 : sharing.value;
  }

  TimeAccount account;
  double owed = 0; ///< nanoseconds
  double idle = 0; ///< part of the time, recently
};

} // namespace tally

#endif
