/**
 * @file
 * AdditiveControl: a quantity that grows by steps while high-priority work does not suffer, and
 * shrinks by a factor when it does. The policies rate, partition and slo use it. TimeAccount: the
 * time that best-effort work has earned.
 */
#ifndef TALLY_POLICY_ADDITIVE_CONTROL_H
#define TALLY_POLICY_ADDITIVE_CONTROL_H

#include "tally/policy/policy.h"

#include <algorithm>
#include <optional>

namespace tally {

/// Additive increase, multiplicative decrease (AIMD). High-priority work suffers if the mean of its
/// busy times is above `tolerance` times the baseline, the smallest mean seen. The baseline rises
/// by 1 % an interval, so that a load that has become heavier does not count as suffering for ever.
/// One thread at a time.
struct AdditiveControl {
  double least = 0;       ///< lower end of the value's range
  double most = 1;        ///< upper end of the value's range, at least `least`
  double step = 0.05;     ///< added to the value in an interval without suffering
  double factor = 0.5;    ///< multiplied with the value in an interval with suffering; 0 to 1
  double tolerance = 1.1; ///< largest mean over baseline without suffering; 1 or more
  /// Time between two changes of the value, above 0. An interval without a busy time changes
  /// nothing.
  std::chrono::nanoseconds interval{std::chrono::milliseconds(50)};

  double value = least; ///< the steered quantity, from `least` to `most`

  /// Updates the value from a snapshot and returns it. Reads now, busyPeriods and busyMean. The
  /// time is Snapshot::now, which must not go back.
  double update(const Snapshot &now) {
    if (next(now)) {
      auto mean = static_cast<double>(now.busyMean.count());
      baseline = baseline == 0 ? mean : std::min(baseline * 1.01, mean);
      adjust(mean > tolerance * baseline);
    }
    return value;
  }

  /// The time since the last change, and the busy times in it.
  struct Passed {
    std::chrono::nanoseconds time{0}; ///< at least `interval`
    std::uint64_t busyPeriods = 0;    ///< 1 or more
  };
  /// For owners with a rule of their own, in place of update(): returns a value when the quantity
  /// may change, once; then adjust() has to follow. Reads now and busyPeriods.
  std::optional<Passed> next(const Snapshot &now) {
    if (!last)
      last = now.now;
    // An interval without a busy time says nothing.
    if (now.now - *last < interval || now.busyPeriods == seen)
      return std::nullopt;
    Passed passed{now.now - *last, now.busyPeriods - seen};
    last = now.now;
    seen = now.busyPeriods;
    return passed;
  }
  /// Shrinks the value if high-priority work suffers, else grows it.
  void adjust(bool suffers) {
    value = std::clamp(suffers ? value * factor : value + step, least, most);
  }

private:
  double baseline = 0; // ns
  std::uint64_t seen = 0;
  std::optional<std::chrono::nanoseconds> last;
};

/// The time that best-effort work has earned, less the time for which it had the device. The
/// policies rate and slo use it. One thread at a time.
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
