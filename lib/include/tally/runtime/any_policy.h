// AnyPolicy: one type for any policy; the runtime keeps the user's policy in it.
#ifndef TALLY_RUNTIME_ANY_POLICY_H
#define TALLY_RUNTIME_ANY_POLICY_H

#include "tally/policy/policy.h"

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
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

/// A policy that learns gives its knowledge as a line of text, for a later run.
template <class T>
concept LearningPolicy = requires(T policy, const T &known, std::string_view text) {
  { known.memory() } -> std::same_as<std::string>;
  policy.recall(text);
};

/// Holds a copy of a policy. One thread at a time calls decide(), often (before each launch that is
/// sent), so decide() must not block. A policy may keep state; its time is Snapshot::now.
class AnyPolicy {
public:
  AnyPolicy() : AnyPolicy(PriorityPolicy{}) {}
  template <class T>
    requires(!std::same_as<T, AnyPolicy> && Policy<T>)
  AnyPolicy(T policy) // NOLINT(google-explicit-constructor): callers pass a policy itself
      : readsClients(usesClientsOf<T>()), mayLimitSms(limitsSmsOf<T>()),
        held(std::make_unique<Held<T>>(std::move(policy))) {}

  /// A policy whose two properties are known only at run time.
  AnyPolicy(std::function<Decision(const Snapshot &)> decide, bool usesClients, bool limitsSms)
      : AnyPolicy(Called{std::move(decide)}) {
    readsClients = usesClients;
    mayLimitSms = limitsSms;
  }
  AnyPolicy(const AnyPolicy &other)
      : readsClients(other.readsClients), mayLimitSms(other.mayLimitSms),
        held(other.held->copied()) {}
  AnyPolicy(AnyPolicy &&other) = default;
  AnyPolicy &operator=(AnyPolicy other) {
    readsClients = other.readsClients;
    mayLimitSms = other.mayLimitSms;
    held = std::move(other.held);
    return *this;
  }

  Decision decide(const Snapshot &now) const { return held->decide(now); }
  /// What the policy has learnt, as a line without its end; empty if it learns nothing. Not while
  /// another thread is in decide().
  std::string memory() const { return held->memory(); }
  /// Has the policy take what it learnt in an earlier run. Call it before decide().
  void recall(std::string_view text) { held->recall(text); }
  /// Whether the policy reads Snapshot::clients (`static constexpr bool usesClients = true`).
  bool usesClients() const { return readsClients; }
  /// Whether the policy may set Decision::sms (no `static constexpr bool limitsSms = false`).
  bool limitsSms() const { return mayLimitSms; }

private:
  struct Base {
    virtual ~Base() = default;
    virtual std::unique_ptr<Base> copied() const = 0;
    virtual Decision decide(const Snapshot &now) = 0;
    virtual std::string memory() const = 0;
    virtual void recall(std::string_view text) = 0;
  };
  template <class T> struct Held final : Base {
    explicit Held(T policy) : policy(std::move(policy)) {}
    std::unique_ptr<Base> copied() const override { return std::make_unique<Held>(policy); }
    Decision decide(const Snapshot &now) override { return policy.decide(now); }
    std::string memory() const override {
      if constexpr (LearningPolicy<T>)
        return policy.memory();
      else
        return {};
    }
    void recall([[maybe_unused]] std::string_view text) override {
      if constexpr (LearningPolicy<T>)
        policy.recall(text);
    }
    T policy;
  };
  struct Called {
    std::function<Decision(const Snapshot &)> call;
    Decision decide(const Snapshot &now) const { return call(now); }
  };

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
  std::unique_ptr<Base> held;
};

} // namespace tally::runtime

#endif
