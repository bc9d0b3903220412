/**
 * @file
 * slo: best-effort work gets the time that a request does not need to meet its deadline (after
 * Herald: light kernels share the device with a request, heavy kernels take turns with it).
 */
#ifndef TALLY_POLICY_SLO_POLICY_H
#define TALLY_POLICY_SLO_POLICY_H

#include "tally/policy/policy.h"

#include <algorithm>

namespace tally {

/// The slack is the target less the time that high-priority work usually takes
/// (Snapshot::busyHigh), or has taken so far if that is more. The slack uses measured times only,
/// so sharing that slows requests down reduces the slack, and with it the sharing.
///
///  - While no high-priority work is active all best-effort work runs. A kernel that cannot yield
///    runs only if it is predicted to fit the slack, or has waited for `patience`.
///  - While high-priority work is active, a kernel runs if it is predicted to take at most
///    `lightShare` of the slack. With less slack than `least`, no kernel runs.
///  - Until a busy time has been seen, the policy is strict priority.
///
/// Where requests overlap or queue, one busy time spans all of them.
struct SloPolicy {
  static constexpr bool limitsSms = false; ///< the policy never sets Decision::sms

  std::chrono::nanoseconds target{std::chrono::milliseconds(10)}; ///< latency of a request
  double lightShare = 0.25; ///< part of the slack that a light kernel may take; 0 to 1
  /// Slack below which no best-effort work runs beside a request; 0 or more.
  std::chrono::nanoseconds least{std::chrono::microseconds(50)};
  /// Waiting time after which a kernel that cannot yield runs in any idle time; 0 or more.
  std::chrono::nanoseconds patience{std::chrono::milliseconds(20)};

  /// Reads busyPeriods, busyHigh, activeFor, highPriorityActive and heldBack; before the first busy
  /// time, the fields that PriorityPolicy::decide() reads. Keeps no state.
  Decision decide(const Snapshot &now) const {
    if (now.busyPeriods == 0) {
      PriorityPolicy strict;
      strict.patience = patience;
      return strict.decide(now);
    }
    std::chrono::nanoseconds slack = target - std::max(now.busyHigh, now.activeFor);
    Decision decision;
    if (now.highPriorityActive == 0) {
      decision.runBestEffort = true;
      decision.longestNonPreemptible = now.heldBack >= patience ? anyDuration : slack;
      return decision;
    }
    decision.runBestEffort = slack >= least;
    decision.longest = std::chrono::nanoseconds(
        static_cast<std::int64_t>(static_cast<double>(slack.count()) * lightShare));
    decision.longestNonPreemptible = decision.longest;
    return decision;
  }
};

} // namespace tally

#endif
