// Any policy behind one type: what the runtime keeps of the one that the user chose.
#ifndef TALLY_RUNTIME_ANY_POLICY_H
#define TALLY_RUNTIME_ANY_POLICY_H

#include "tally/runtime/policy.h"

#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>

namespace tally::runtime {

template <class T>
concept Policy = std::copy_constructible<T> && requires(T policy, const Snapshot &now) {
  { policy.decide(now) } -> std::convertible_to<Decision>;
};

/// Holds a copy of a policy. decide() is called by one thread at a time, often (before each launch
/// that is sent): it must not block. A policy may keep what it has seen; time is what the snapshots
/// say.
class AnyPolicy {
public:
  AnyPolicy() : AnyPolicy(PriorityPolicy{}) {}
  template <Policy T>
  requires(!std::same_as<std::remove_cvref_t<T>, AnyPolicy>)
      AnyPolicy(T policy) // NOLINT(google-explicit-constructor): a policy is given as it is
      : call([kept = std::move(policy)](const Snapshot &now) mutable -> Decision {
          return kept.decide(now);
        }) {}

  Decision decide(const Snapshot &now) const { return call(now); }

private:
  std::function<Decision(const Snapshot &)> call;
};

} // namespace tally::runtime

#endif
