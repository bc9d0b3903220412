/**
 * @file
 * rate: best effort is given a part of the time that grows until high-priority work suffers (after
 * TGS). It does not look at whether a request is there: a baseline to compare with.
 */
#ifndef TALLY_POLICY_RATE_POLICY_H
#define TALLY_POLICY_RATE_POLICY_H

#include "tally/policy/additive_control.h"

#include <algorithm>

namespace tally {

/// Best-effort work earns `rate` nanoseconds in each nanosecond, saves at most `burst` of them,
/// and pays for the time that it has the device. It runs while it has any. The rate is steered by
/// AdditiveControl.
struct RatePolicy {
  static constexpr bool limitsSms = false; ///< it never sets Decision::sms

  /// A rate from 0.05 to 1.
  RatePolicy() { rate.least = rate.value = 0.05; }
  AdditiveControl rate; ///< steers the part of the time, 0 to 1, that best-effort work earns
  std::chrono::nanoseconds burst{std::chrono::milliseconds(2)}; ///< most that is saved; above 0

  /// Reads now, bestEffortRan, and the fields that AdditiveControl::update() reads.
  Decision decide(const Snapshot &now) {
    double earns = rate.update(now);
    if (!known) {
      known = true;
      saved = static_cast<double>(burst.count());
    } else {
      saved += static_cast<double>((now.now - lastNow).count()) * earns -
               static_cast<double>((now.bestEffortRan - lastRan).count());
      saved = std::min(saved, static_cast<double>(burst.count()));
    }
    lastNow = now.now;
    lastRan = now.bestEffortRan;
    Decision decision;
    decision.runBestEffort = saved > 0;
    return decision;
  }

private:
  bool known = false;
  double saved = 0; // ns
  std::chrono::nanoseconds lastNow{0}, lastRan{0};
};

} // namespace tally

#endif
