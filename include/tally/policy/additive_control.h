// A quantity that grows by steps while high-priority work does not suffer, and shrinks by a factor
// when it does: what rate and partition steer by.
#ifndef TALLY_POLICY_ADDITIVE_CONTROL_H
#define TALLY_POLICY_ADDITIVE_CONTROL_H

#include "tally/policy/policy.h"

#include <algorithm>
#include <optional>

namespace tally {

/// AIMD. High-priority work suffers where its busy times take more than `tolerance` times the
/// shortest average seen. That baseline is given up slowly (1 % an interval), so that a load that
/// has become heavier is not taken for suffering for ever.
struct AdditiveControl {
  double least = 0, most = 1;
  double step = 0.05, factor = 0.5; ///< per interval: added; or multiplied by
  double tolerance = 1.1;
  std::chrono::nanoseconds interval{std::chrono::milliseconds(50)};

  double value = least;

  /// Takes a snapshot in; times are those of the snapshots. Returns the value.
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
