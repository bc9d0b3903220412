// Policies: pure decisions over a snapshot. A user's own policy is any type with the same decide().
#ifndef TALLY_RUNTIME_POLICY_H
#define TALLY_RUNTIME_POLICY_H

#include <chrono>
#include <cstdint>

namespace tally::runtime {

/// What a policy sees. Plain data, taken at one instant.
struct Snapshot {
  std::uint32_t highPriorityActive =
      0; ///< open request scopes, and high-priority streams with work
  std::chrono::nanoseconds sinceHighPriorityEnded{0}; ///< since that count last fell to 0
};

/// What best-effort work may do now.
struct Decision {
  bool runBestEffort = false; ///< false: nothing best-effort is issued, what runs is told to yield
};

/// Strict priority: best-effort work runs only while no high-priority work is active, and, where
/// `hysteresis` is above zero, has not been for that long.
struct PriorityPolicy {
  std::chrono::nanoseconds hysteresis{0};

  constexpr Decision decide(const Snapshot &now) const {
    return {now.highPriorityActive == 0 && now.sinceHighPriorityEnded >= hysteresis};
  }
};

} // namespace tally::runtime

#endif
