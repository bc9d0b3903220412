/**
 * @file
 * Wraps a policy of any type in the C interface's tally_policy; tally::Options holds it. Included
 * by tally/tally.hpp.
 */
#ifndef TALLY_POLICY_CHOSEN_POLICY_HPP
#define TALLY_POLICY_CHOSEN_POLICY_HPP

#include "tally/policy/policy.h"
#include "tally/tally.h"

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tally {

/// @cond internal
namespace detail {

template <class T, class = void> struct UsesClients : std::false_type {};
template <class T>
struct UsesClients<T, std::void_t<decltype(T::usesClients)>> : std::bool_constant<T::usesClients> {
};
template <class T, class = void> struct LimitsSms : std::true_type {};
template <class T>
struct LimitsSms<T, std::void_t<decltype(T::limitsSms)>> : std::bool_constant<T::limitsSms> {};
template <class T, class = void> struct IsPolicy : std::false_type {};
template <class T>
struct IsPolicy<T,
                std::void_t<decltype(std::declval<T &>().decide(std::declval<const Snapshot &>()))>>
    : std::is_same<decltype(std::declval<T &>().decide(std::declval<const Snapshot &>())),
                   Decision> {};

/// A policy and the memory for the clients of its snapshots.
template <class T> struct PolicyState {
  T policy;
  std::vector<ClientProgress> clients;

  static void decide(void *state, const tally_policy_snapshot *seen, tally_policy_decision *said) {
    using std::chrono::nanoseconds;
    auto &self = *static_cast<PolicyState *>(state);
    self.clients.clear();
    for (std::size_t i = 0; i < seen->client_count; ++i) {
      tally_client_progress each;
      std::memcpy(&each, static_cast<const char *>(seen->clients) + i * seen->client_size,
                  sizeof each);
      ClientProgress progress;
      progress.ran = nanoseconds(each.ran_nanoseconds);
      progress.ready = each.ready != 0;
      progress.generation = each.generation;
      self.clients.push_back(progress);
    }
    Snapshot now;
    now.highPriorityActive = seen->high_priority_active;
    now.sinceHighPriorityEnded = nanoseconds(seen->since_high_priority_ended);
    now.heldBack = nanoseconds(seen->held_back);
    now.now = nanoseconds(seen->now);
    now.activeFor = nanoseconds(seen->active_for);
    now.busyPeriods = seen->busy_periods;
    now.busyMean = nanoseconds(seen->busy_mean);
    now.busyHigh = nanoseconds(seen->busy_high);
    now.bestEffortRan = nanoseconds(seen->best_effort_ran);
    now.smCount = seen->sm_count;
    now.clients = ClientView(self.clients.data(), self.clients.size());
    if (seen->size >= sizeof *seen) { // an older runtime has no such fields
      now.leastSms = static_cast<std::uint32_t>(seen->least_sms);
      now.busyLast = nanoseconds(seen->busy_last);
    }
    Decision decision = self.policy.decide(now);
    said->run_best_effort = decision.runBestEffort ? 1 : 0;
    said->sms = decision.sms;
    said->longest_non_preemptible = decision.longestNonPreemptible.count();
    said->longest = decision.longest.count();
    said->clients = decision.clients;
    if (said->size >= sizeof *said)
      said->longest_unconfined = decision.longestUnconfined.count();
  }
  static void destroy(void *state) { delete static_cast<PolicyState *>(state); }
};

} // namespace detail
/// @endcond

/// The policy that a runtime is opened with: the name of a policy ("slo:target-us=2000",
/// docs/reference/policies.md), or any copyable type with `Decision decide(const Snapshot &)`. The
/// runtime calls decide() often, from one thread at a time; decide() must neither block nor throw
/// nor call Tally. A type that reads Snapshot::clients says `static constexpr bool usesClients =
/// true`; a type that never sets Decision::sms may say `limitsSms = false`.
class Policy {
public:
  /// Strict priority.
  Policy() = default;
  /// A policy by its name; Runtime::open() fails for an unknown name.
  Policy(std::string text) : text(std::move(text)) {} // NOLINT(google-explicit-constructor)
  /// A policy by its name; `text` must not be nullptr.
  Policy(const char *text) : text(text) {} // NOLINT(google-explicit-constructor)
  /// The program's own policy; each runtime gets a copy.
  template <class T, class = std::enable_if_t<detail::IsPolicy<std::decay_t<T>>::value>>
  Policy(T policy) // NOLINT(google-explicit-constructor)
      : make([kept = std::make_shared<const T>(std::move(policy))] { return table(*kept); }) {}

private:
  friend class Runtime;
  template <class T> static tally_policy table(const T &policy) {
    tally_policy made{};
    made.size = sizeof made;
    made.state = new detail::PolicyState<T>{policy, {}};
    made.decide = &detail::PolicyState<T>::decide;
    made.destroy = &detail::PolicyState<T>::destroy;
    made.uses_clients = detail::UsesClients<T>::value ? 1 : 0;
    made.limits_sms = detail::LimitsSms<T>::value ? 1 : 0;
    return made;
  }
  std::string text;
  std::function<tally_policy()> make;
};

} // namespace tally

#endif
