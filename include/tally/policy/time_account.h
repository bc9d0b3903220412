/**
 * @file
 * The time that best-effort work has earned, less the time for which it had the device. The
 * policies rate and slo use it.
 */
#ifndef TALLY_POLICY_TIME_ACCOUNT_H
#define TALLY_POLICY_TIME_ACCOUNT_H

#include "tally/policy/policy.h"

#include <optional>

namespace tally {

/// One thread at a time.
class TimeAccount {
public:
  /// Nanoseconds that best-effort work has earned since the last call, at `rate` nanoseconds in
  /// each nanosecond, less those for which it had the device; 0 at the first call. Reads now and
  /// bestEffortRan.
  double change(const Snapshot &now, double rate) {
    double gained = 0;
    if (last)
      gained = static_cast<double>((now.now - *last).count()) * rate -
               static_cast<double>((now.bestEffortRan - ran).count());
    last = now.now;
    ran = now.bestEffortRan;
    return gained;
  }

private:
  std::optional<std::chrono::nanoseconds> last;
  std::chrono::nanoseconds ran{0};
};

} // namespace tally

#endif
