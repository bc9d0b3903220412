/**
 * @file
 * A quantity that grows by steps while high-priority work does not suffer, and shrinks by a factor
 * when it does. The policies rate and partition use it.
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
    if (!last)
      last = now.now;
    // An interval without a busy time says nothing.
    if (now.now - *last < interval || now.busyPeriods == seen)
      return value;
    last = now.now;
    seen = now.busyPeriods;
    auto mean = static_cast<double>(now.busyMean.count());
    baseline = baseline == 0 ? mean : std::min(baseline * 1.01, mean);
    value = mean > tolerance * baseline ? value * factor : value + step;
    value = std::clamp(value, least, most);
    return value;
  }

private:
  double baseline = 0; // ns
  std::uint64_t seen = 0;
  std::optional<std::chrono::nanoseconds> last;
};

} // namespace tally

#endif
