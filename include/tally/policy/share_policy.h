/**
 * @file
 * share: best-effort clients get the device in proportion to their weights.
 */
#ifndef TALLY_POLICY_SHARE_POLICY_H
#define TALLY_POLICY_SHARE_POLICY_H

#include "tally/policy/policy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace tally {

/// Strict priority towards high-priority work. A best-effort client that has had more of the device
/// than its weight allows waits for the other ready clients: a client may send while its time,
/// divided by its weight, is at most `quantum` above the smallest such value of the ready clients.
/// A client that is new, or had nothing to send for longer than `memory`, loses its claim to the
/// time that it did not use. A weight belongs to a client's number: a new client has the weight of
/// the earlier client with its number.
struct SharePolicy {
  static constexpr bool usesClients = true; ///< the policy reads Snapshot::clients
  static constexpr bool limitsSms = false;  ///< the policy never sets Decision::sms

  /// All weights are 1.
  SharePolicy() { weights.fill(1); }
  PriorityPolicy priority;                        ///< decides towards high-priority work
  std::array<double, maxPolicyClients> weights{}; ///< by client number; above 0
  /// How far a client's weighted time may exceed the smallest one; 0 or more.
  std::chrono::nanoseconds quantum{std::chrono::milliseconds(1)};
  /// Time without work after which a client loses its claim to unused time; 0 or more.
  std::chrono::nanoseconds memory{std::chrono::milliseconds(10)};

  /// Reads now, clients, and the fields that PriorityPolicy::decide() reads.
  Decision decide(const Snapshot &now) {
    Decision decision = priority.decide(now);
    std::size_t count = std::min(now.clients.size(), weights.size());
    std::array<double, maxPolicyClients> had{};
    double smallest = std::numeric_limits<double>::infinity(); // of clients always ready
    for (std::size_t i = 0; i < count; ++i) {
      if (std::exchange(generations[i], now.clients[i].generation) != now.clients[i].generation) {
        forgiven[i] = 0;
        lastReady[i].reset();
      }
      had[i] = static_cast<double>(now.clients[i].ran.count()) / weights[i] + forgiven[i];
      if (now.clients[i].ready && !isNew(i, now.now))
        smallest = std::min(smallest, had[i]);
    }
    for (std::size_t i = 0; i < count; ++i)
      if (now.clients[i].ready) {
        if (isNew(i, now.now) && had[i] < smallest && std::isfinite(smallest)) {
          forgiven[i] += smallest - had[i];
          had[i] = smallest;
        }
        smallest = std::min(smallest, had[i]);
        lastReady[i] = now.now;
      }
    for (std::size_t i = 0; i < count; ++i)
      if (had[i] > smallest + static_cast<double>(quantum.count()))
        decision.clients &= ~(std::uint64_t{1} << i);
    return decision;
  }

private:
  bool isNew(std::size_t client, std::chrono::nanoseconds now) const {
    return !lastReady[client] || now - *lastReady[client] > memory;
  }
  std::array<double, maxPolicyClients> forgiven{}; // ns over the weight
  std::array<std::optional<std::chrono::nanoseconds>, maxPolicyClients> lastReady{};
  std::array<std::uint32_t, maxPolicyClients> generations{}; // for which the two arrays hold
};

} // namespace tally

#endif
