// Policies: pure decisions over a snapshot. A user's own policy is any copyable type with
// `Decision decide(const Snapshot &)`; docs/policies.md.
#ifndef TALLY_POLICY_POLICY_H
#define TALLY_POLICY_POLICY_H

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tally {

/// A best-effort client, as policies see it.
struct ClientProgress {
  /// For how long its work has had the device, by the host's clock.
  std::chrono::nanoseconds ran{0};
  /// Whether it has something under way, or next in a queue. (What waits behind another client's
  /// work is not ready: that client must not be made to wait for it.)
  bool ready = false;
  /// Another one where the number has gone to a new client: whatever is kept of the number was the
  /// old one's. `ran` begins at 0.
  std::uint32_t generation = 0;
};

/// The best-effort clients of a Snapshot, by number: a view of memory that is not its own, valid
/// during the call of decide().
class ClientView {
public:
  constexpr ClientView() = default;
  constexpr ClientView(const ClientProgress *first, std::size_t count)
      : first(first), count(count) {}

  constexpr std::size_t size() const { return count; }
  constexpr const ClientProgress &operator[](std::size_t number) const { return first[number]; }
  constexpr const ClientProgress *begin() const { return first; }
  constexpr const ClientProgress *end() const { return first + count; }

private:
  const ClientProgress *first = nullptr;
  std::size_t count = 0;
};

/// What a policy sees. Plain data, taken at one instant.
struct Snapshot {
  std::uint32_t highPriorityActive =
      0; ///< open request scopes, and high-priority streams with work
  /// Since that count last fell to 0; max() if it never did.
  std::chrono::nanoseconds sinceHighPriorityEnded{0};
  /// How long the oldest launch has been waiting that `Decision::longestWhole` did not let go.
  std::chrono::nanoseconds heldBack{0};

  std::chrono::nanoseconds now{0}; ///< of the clock that all times here are of; never goes back
  /// Since that count last rose from 0; zero while it is 0.
  std::chrono::nanoseconds activeFor{0};
  /// Times in which the count was above 0, as far as they were seen (only while there is
  /// best-effort work): how many, what they took lately on average, and what all but one of the
  /// last 64 stayed below. Zero while there were none.
  std::uint64_t busyPeriods = 0;
  std::chrono::nanoseconds busyMean{0}, busyHigh{0};
  /// For how long best-effort work has had the device.
  std::chrono::nanoseconds bestEffortRan{0};
  std::uint32_t smCount = 0; ///< of the device
  /// Only for policies that have `static constexpr bool usesClients = true`; else empty.
  ClientView clients;
};

/// Values of a longest duration: no launch is held back for its duration; all that have been
/// measured go, new ones wait.
inline constexpr std::chrono::nanoseconds anyDuration = std::chrono::nanoseconds::max();
inline constexpr std::chrono::nanoseconds anyKnownDuration =
    anyDuration - std::chrono::nanoseconds(1);
inline constexpr std::uint32_t allSms = UINT32_MAX;
inline constexpr std::size_t maxPolicyClients = 64;
/// Classes of best-effort work are 1, the highest, to this; 0 is high priority.
inline constexpr std::uint32_t lowestBestEffortClass = 4;

/// What best-effort work may do now.
///
/// When high-priority work wakes from idle, all best-effort work that runs is told to yield,
/// whatever the policy; what it decides then says whether and how it goes on beside the request.
struct Decision {
  bool runBestEffort = false; ///< false: nothing best-effort is issued, what runs is told to yield
  /// A kernel that cannot yield is sent only if it is predicted to take at most this (all but few
  /// of its launches did). Of one that has not run yet nothing is predicted: that takes
  /// `anyDuration`.
  std::chrono::nanoseconds longestWhole = anyDuration;
  /// The same for every kernel.
  std::chrono::nanoseconds longest = anyDuration;
  /// On how many SMs best-effort work may be. Below all of them only launches are sent that can be
  /// kept there: kinds with workers with fewer of them (where blocks were saved, not before as many
  /// workers may go on with them as saved them), others whose grid is as small, and those that
  /// cannot yield in a green context of at most so many.
  std::uint32_t sms = allSms;
  /// Which clients may send, by number; those above 63 always.
  std::uint64_t clients = ~std::uint64_t{0};
};

/// Strict priority: best-effort work runs only while no high-priority work is active, and, where
/// `hysteresis` is above zero, has not been for that long. A kernel that cannot yield and has not
/// been measured yet waits for a longer idle time, though not for ever.
struct PriorityPolicy {
  static constexpr bool limitsSms = false;

  std::chrono::nanoseconds hysteresis{0};
  /// What has not been measured yet goes once high-priority work has been idle for so long, or once
  /// it has waited for `patience` in all.
  std::chrono::nanoseconds idleBeforeUnknown{std::chrono::microseconds(500)};
  std::chrono::nanoseconds patience{std::chrono::milliseconds(20)};

  constexpr Decision decide(const Snapshot &now) const {
    bool longIdle = now.sinceHighPriorityEnded >= idleBeforeUnknown || now.heldBack >= patience;
    Decision decision;
    decision.runBestEffort =
        now.highPriorityActive == 0 && now.sinceHighPriorityEnded >= hysteresis;
    decision.longestWhole = longIdle ? anyDuration : anyKnownDuration;
    return decision;
  }
};

} // namespace tally

#endif
