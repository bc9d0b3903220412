// A lane asks the gate whether best-effort work may go out before it sends anything.
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

/// Permission to send best-effort work now.
struct Permit {
  std::uint64_t epoch = 0; ///< the epoch to send under
  Decision decision;       ///< work that may go
  bool shares = false;     ///< it goes beside high-priority work, or on a part of the SMs
  bool oftenAsked = false; ///< requests are expected, so the work may soon have to yield
};

/// Decides whether best-effort work may go out now, and under which epoch.
class Gate {
public:
  virtual ~Gate() = default;
  /// Returns the permit for work of a class of best effort; nothing if it may not go.
  virtual std::optional<Permit> permit(std::uint32_t bestEffortClass) const = 0;
  /// The number of lanes with batches under way; they share the device.
  virtual std::size_t lanesUnderWay() const = 0;
  /// Remaining time of the kernels under way on all lanes that cannot yield; see
  /// Lane::nonPreemptibleLeft().
  virtual Nanoseconds nonPreemptibleLeft() const = 0;
  /// The newest epoch; launches of older epochs are asked to yield.
  virtual std::uint64_t currentEpoch() const = 0;
  /// The lane calls this before permit() if it sends work that does not pause when told to.
  virtual void expectOthers() const = 0;
  /// The lane calls this before it sends work that pauses when told to.
  virtual void expectPausing() const = 0;
  /// Whether no work goes out any more, not even work that high priority waits for.
  virtual bool isClosed() const { return false; }
};

} // namespace tally::runtime

#endif
