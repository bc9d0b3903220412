/**
 * @file
 * Policies: pure decisions over a snapshot. A user's own policy is any copyable type with
 * `Decision decide(const Snapshot &)`; docs/reference/policies.md.
 *
 * Threads: the runtime calls decide() from one thread at a time. The types here have no locks; each
 * object is used by one thread at a time.
 */
#ifndef TALLY_POLICY_POLICY_H
#define TALLY_POLICY_POLICY_H

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tally {

/// A best-effort client, as policies see it.
struct ClientProgress {
  /// Time for which the client's work has had the device, by the host's clock.
  std::chrono::nanoseconds ran{0};
  /// Whether the client's work is on the device, or first in a queue. Work that waits behind
  /// another client's work is not ready: the other client must not be made to wait for it.
  bool ready = false;
  /// Changes when the client's number goes to a new client. A policy then forgets what it kept for
  /// the number; `ran` begins at 0.
  std::uint32_t generation = 0;
};

/// The best-effort clients of a Snapshot, by number. The view does not own the memory, which is
/// valid during the call of decide().
class ClientView {
public:
  /// No clients.
  constexpr ClientView() = default;
  /// `count` clients from `first` on; the caller owns the memory.
  constexpr ClientView(const ClientProgress *first, std::size_t count)
      : first(first), count(count) {}

  /// The number of clients.
  constexpr std::size_t size() const { return count; }
  /// The client with a number below size(); not checked.
  constexpr const ClientProgress &operator[](std::size_t number) const { return first[number]; }
  /// The client with number 0; with end(), for loops over all clients.
  constexpr const ClientProgress *begin() const { return first; }
  /// The position after the last client.
  constexpr const ClientProgress *end() const { return first + count; }

private:
  const ClientProgress *first = nullptr;
  std::size_t count = 0;
};

/// The input of a policy. Plain data, taken at one instant.
///
/// A busy time is a time in which highPriorityActive was above 0. Where the program waits for
/// high-priority work meanwhile, the end of the wait ends one busy time and begins the next:
/// requests that wait for each other in a server are busy times of their own. The runtime records
/// busy times only while there is best-effort work.
struct Snapshot {
  /// Number of open request scopes and high-priority streams with work.
  std::uint32_t highPriorityActive = 0;
  /// Time since highPriorityActive last fell to 0; max() if it never did.
  std::chrono::nanoseconds sinceHighPriorityEnded{0};
  /// Waiting time of the oldest launch that Decision::longestNonPreemptible holds back; 0: no
  /// launch is held back.
  std::chrono::nanoseconds heldBack{0};

  std::chrono::nanoseconds now{0}; ///< time on the clock of all times here; never goes back
  /// Time since the busy time under way began; zero while highPriorityActive is 0.
  std::chrono::nanoseconds activeFor{0};
  std::uint64_t busyPeriods = 0;        ///< number of recorded busy times
  std::chrono::nanoseconds busyMean{0}; ///< recent mean of busy times; 0: none recorded
  /// A bound on all but one of the last 64 busy times; 0: none recorded.
  std::chrono::nanoseconds busyHigh{0};
  std::chrono::nanoseconds busyLast{0}; ///< the newest recorded busy time; 0: none recorded
  /// Time for which best-effort work has had the device.
  std::chrono::nanoseconds bestEffortRan{0};
  std::uint32_t smCount = 0; ///< the device's streaming multiprocessors
  /// The fewest SMs to which the runtime can confine every variant; 0: it can confine some only
  /// (Decision::sms).
  std::uint32_t leastSms = 0;
  /// The best-effort clients, for policies with `static constexpr bool usesClients = true`; else
  /// empty.
  ClientView clients;
};

/// A limit on the duration that holds no launch back.
inline constexpr std::chrono::nanoseconds anyDuration = std::chrono::nanoseconds::max();
/// A limit that lets each measured launch run and holds back launches without a prediction.
inline constexpr std::chrono::nanoseconds anyKnownDuration =
    anyDuration - std::chrono::nanoseconds(1);
/// Decision::sms: best-effort work may run on all SMs.
inline constexpr std::uint32_t allSms = UINT32_MAX;
/// A policy may hold back individual clients only if their number is below this, 0 to 63.
inline constexpr std::size_t maxPolicyClients = 64;
/// Classes of best-effort work are 1, the highest, to this number; class 0 is high priority.
inline constexpr std::uint32_t lowestBestEffortClass = 4;

/// The output of a policy: what best-effort work may do now.
///
/// When high-priority work wakes from idle, the runtime tells all running best-effort work to
/// yield, whatever the policy. The policy's next decision says whether and how best-effort work
/// goes on beside the request.
struct Decision {
  /// False: the runtime issues no best-effort launch and tells running best-effort work to yield.
  bool runBestEffort = false;
  /// Longest predicted duration of a kernel that cannot yield; the runtime holds longer kernels
  /// back. The prediction is a bound on all but few of the kernel's past launches. A kernel that
  /// has not run yet has no prediction and is sent only at ::anyDuration.
  std::chrono::nanoseconds longestNonPreemptible = anyDuration;
  /// The same limit for every kernel, including kernels that can yield.
  std::chrono::nanoseconds longest = anyDuration;
  /// How many SMs best-effort work may use: 1 or more; ::allSms: all. With fewer than all SMs the
  /// runtime sends only launches that it can confine to them: every variant, where it has a green
  /// context of at most so many SMs; else kinds with workers, with fewer workers (saved blocks wait
  /// until as many workers may resume as saved them), and other kinds, if the grid is small enough;
  /// kernels that cannot yield, in a green context made for them
  /// (Options::smsOfNonPreemptible).
  std::uint32_t sms = allSms;
  /// A kernel that cannot be confined to `sms` SMs may run on all of them if its predicted duration
  /// is at most this, and at most the other limits.
  std::chrono::nanoseconds longestUnconfined{0};
  /// Bit i: client i may send. Clients above 63 always may.
  std::uint64_t clients = ~std::uint64_t{0};
};

/// Strict priority: best-effort work runs only after high-priority work has been idle for at least
/// `hysteresis`. A kernel that cannot yield and has not been measured yet waits for a longer idle
/// time, though not for ever.
struct PriorityPolicy {
  static constexpr bool limitsSms = false; ///< the policy never sets Decision::sms

  /// How long high-priority work must be idle before best-effort work runs; 0 or more.
  std::chrono::nanoseconds hysteresis{0};
  /// How long high-priority work must be idle before a kernel runs that cannot yield and was never
  /// measured; 0 or more.
  std::chrono::nanoseconds idleBeforeUnknown{std::chrono::microseconds(500)};
  /// Waiting time after which an unmeasured kernel runs in any idle time; 0 or more.
  std::chrono::nanoseconds patience{std::chrono::milliseconds(20)};

  /// Reads highPriorityActive, sinceHighPriorityEnded and heldBack. Keeps no state.
  constexpr Decision decide(const Snapshot &now) const {
    bool longIdle = now.sinceHighPriorityEnded >= idleBeforeUnknown || now.heldBack >= patience;
    Decision decision;
    decision.runBestEffort =
        now.highPriorityActive == 0 && now.sinceHighPriorityEnded >= hysteresis;
    decision.longestNonPreemptible = longIdle ? anyDuration : anyKnownDuration;
    return decision;
  }
};

} // namespace tally

#endif
