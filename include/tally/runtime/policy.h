// Policies: pure decisions over a snapshot. A user's own policy is any copyable type with
// `Decision decide(const Snapshot &)`; docs/policies.md.
#ifndef TALLY_RUNTIME_POLICY_H
#define TALLY_RUNTIME_POLICY_H

#include <chrono>
#include <cstdint>

namespace tally::runtime {

/// What a policy sees. Plain data, taken at one instant.
struct Snapshot {
  std::uint32_t highPriorityActive =
      0; ///< open request scopes, and high-priority streams with work
  /// Since that count last fell to 0; max() if it never did.
  std::chrono::nanoseconds sinceHighPriorityEnded{0};
  /// How long the oldest launch has been waiting that `Decision::longestWhole` did not let go.
  std::chrono::nanoseconds heldBack{0};
};

/// Values of Decision::longestWhole: no launch is held back for its duration; all that have been
/// measured go, new ones wait.
inline constexpr std::chrono::nanoseconds anyDuration = std::chrono::nanoseconds::max();
inline constexpr std::chrono::nanoseconds anyKnownDuration =
    anyDuration - std::chrono::nanoseconds(1);

/// What best-effort work may do now.
struct Decision {
  bool runBestEffort = false; ///< false: nothing best-effort is issued, what runs is told to yield
  /// A kernel that cannot yield is sent only if it is predicted to take at most this (all but few
  /// of its launches did). Of one that has not run yet nothing is predicted: that takes
  /// `anyDuration`.
  std::chrono::nanoseconds longestWhole = anyDuration;
};

/// Strict priority: best-effort work runs only while no high-priority work is active, and, where
/// `hysteresis` is above zero, has not been for that long. A kernel that cannot yield and has not
/// been measured yet waits for a longer idle time, though not for ever.
struct PriorityPolicy {
  std::chrono::nanoseconds hysteresis{0};
  /// What has not been measured yet goes once high-priority work has been idle for so long, or once
  /// it has waited for `patience` in all.
  std::chrono::nanoseconds idleBeforeUnknown{std::chrono::microseconds(500)};
  std::chrono::nanoseconds patience{std::chrono::milliseconds(20)};

  constexpr Decision decide(const Snapshot &now) const {
    bool longIdle = now.sinceHighPriorityEnded >= idleBeforeUnknown || now.heldBack >= patience;
    return {.runBestEffort =
                now.highPriorityActive == 0 && now.sinceHighPriorityEnded >= hysteresis,
            .longestWhole = longIdle ? anyDuration : anyKnownDuration};
  }
};

} // namespace tally::runtime

#endif
