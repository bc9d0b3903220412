// AnyPolicy: one type for any policy; the runtime keeps the user's policy in it.
#ifndef TALLY_RUNTIME_ANY_POLICY_H
#define TALLY_RUNTIME_ANY_POLICY_H

#include "tally/policy/policy.h"

#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>

namespace tally::runtime {

using tally::allSms;
using tally::anyDuration;
using tally::anyKnownDuration;
using tally::ClientProgress;
using tally::Decision;
using tally::lowestBestEffortClass;
using tally::maxPolicyClients;
using tally::PriorityPolicy;
using tally::Snapshot;

template <class T>
concept Policy = requires(T policy, const Snapshot &now) {
  { policy.decide(now) } -> std::same_as<Decision>;
} && std::copy_constructible<T>; // last: not tested for a type that is no policy

/// Holds a copy of a policy. One thread at a time calls decide(), often (before each launch that is
/// sent), so decide() must not block. A policy may keep state; its time is Snapshot::now.
class AnyPolicy {
public:
  AnyPolicy() : AnyPolicy(PriorityPolicy{}) {}
  template <class T>
    requires(!std::same_as<T, AnyPolicy> && Policy<T>)
  AnyPolicy(T policy) // NOLINT(google-explicit-constructor): callers pass a policy itself
      : readsClients(usesClientsOf<T>()), mayLimitSms(limitsSmsOf<T>()),
        call([kept = std::move(policy)](const Snapshot &now) mutable -> Decision {
          return kept.decide(now);
        }) {}

  /// A policy whose two properties are known only at run time.
  AnyPolicy(std::function<Decision(const Snapshot &)> decide, bool usesClients, bool limitsSms)
      : readsClients(usesClients), mayLimitSms(limitsSms), call(std::move(decide)) {}

  Decision decide(const Snapshot &now) const { return call(now); }
  /// Whether the policy reads Snapshot::clients (`static constexpr bool usesClients = true`).
  bool usesClients() const { return readsClients; }
  /// Whether the policy may set Decision::sms (no `static constexpr bool limitsSms = false`).
  bool limitsSms() const { return mayLimitSms; }

private:
  template <class T> static constexpr bool usesClientsOf() {
    if constexpr (requires { T::usesClients; })
      return T::usesClients;
    else
      return false;
  }

  template <class T> static constexpr bool limitsSmsOf() {
    if constexpr (requires { T::limitsSms; })
      return T::limitsSms;
    else
      return true;
  }

  bool readsClients = false, mayLimitSms = true;
  std::function<Decision(const Snapshot &)> call;
};

} // namespace tally::runtime

#endif
