/**
 * @file
 * rate: best-effort work gets a part of the time, which grows until high-priority work suffers
 * (after TGS). The policy ignores whether a request is open. A baseline for comparison.
 */
#ifndef TALLY_POLICY_RATE_POLICY_H
#define TALLY_POLICY_RATE_POLICY_H

#include "tally/policy/additive_control.h"

#include <algorithm>
#include <optional>

namespace tally {

/// A token bucket: best-effort work earns `rate` nanoseconds in each nanosecond, saves at most
/// `burst` nanoseconds, and pays for the time that it has the device. It runs while its savings are
/// above 0. AdditiveControl steers the rate.
struct RatePolicy {
  static constexpr bool limitsSms = false; ///< the policy never sets Decision::sms

  /// A rate from 0.05 to 1.
  RatePolicy() { rate.least = rate.value = 0.05; }
  AdditiveControl rate; ///< steers the part of the time, 0 to 1, that best-effort work earns
  std::chrono::nanoseconds burst{std::chrono::milliseconds(2)}; ///< largest savings; above 0

  /// Reads now, bestEffortRan, and the fields that AdditiveControl::update() reads.
  Decision decide(const Snapshot &now) {
    double earns = rate.update(now);
    auto most = static_cast<double>(burst.count());
    double gained = account.change(now, earns);
    saved = saved ? std::min(*saved + gained, most) : most;
    Decision decision;
    decision.runBestEffort = *saved > 0;
    return decision;
  }

private:
  TimeAccount account;
  std::optional<double> saved; // ns
};

} // namespace tally

#endif
