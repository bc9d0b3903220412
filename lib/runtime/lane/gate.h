// What a lane asks before it sends something: whether best-effort work may go out.
#ifndef TALLY_LIB_RUNTIME_LANE_GATE_H
#define TALLY_LIB_RUNTIME_LANE_GATE_H

#include "planning/kind_choice.h"

#include "tally/policy/policy.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace tally::runtime {

/// Saturates at anyDuration.
constexpr Nanoseconds sumOf(Nanoseconds a, Nanoseconds b) {
  return a > anyDuration - b ? anyDuration : a + b;
}

/// Best-effort work may go out now.
struct Permit {
  std::uint64_t epoch = 0; ///< under which
  Decision decision;       ///< what of it
  bool shares = false;     ///< beside high-priority work, or on a part of the SMs
  bool oftenAsked = false; ///< requests come, so that it may soon have to yield
};

/// Says whether best-effort work may go out now, and under which epoch.
class Gate {
public:
  virtual ~Gate() = default;
  /// For work of that class of best effort.
  virtual std::optional<Permit> permit(std::uint32_t bestEffortClass) const = 0;
  /// Lanes that have something under way: they have the device between them.
  virtual std::size_t lanesUnderWay() const = 0;
  /// What is left, on all lanes, of kernels under way that cannot yield: as
  /// Lane::nonPreemptibleLeft().
  virtual Nanoseconds nonPreemptibleLeft() const = 0;
  /// The newest epoch that anything was asked to yield by.
  virtual std::uint64_t currentEpoch() const = 0;
  /// Something goes out that does not pause when it is told to. Said before permit() is asked.
  virtual void expectOthers() const = 0;
  /// Something goes out that pauses when it is told to, before it does.
  virtual void expectPausing() const = 0;
  /// Nothing goes out any more, not even what high priority waits for.
  virtual bool isClosed() const { return false; }
};

} // namespace tally::runtime

#endif
