// Durations of the times in which high-priority work is active.
#ifndef TALLY_LIB_RUNTIME_DISPATCH_BUSY_TIMES_H
#define TALLY_LIB_RUNTIME_DISPATCH_BUSY_TIMES_H

#include "base/duration_estimate.h"
#include "requests/device_control.h"
#include "requests/high_waits.h"

#include <optional>

namespace tally::runtime {

/// A server whose next request has arrived already makes its first call before its scope is closed.
/// So a scope may last for many requests, and the waits within it tell them apart: a busy time ends
/// when a wait for high-priority work ends, or with the last scope. Only a thread that looks
/// closes some scopes, so the end of a busy time in which it does not look is not known, and that
/// time is not recorded. For one thread.
class BusyTimes {
public:
  /// Records the busy times that have ended since the last call; call it often. `own`: the waits in
  /// this process; `elsewhere`: the number of waits in other processes.
  void observe(const DeviceControl &control, const HighWaits &own, std::uint64_t elsewhere);
  /// observe() is not called for more than some microseconds now.
  void lookAway() { isAway = true; }
  /// Sets the fields of busy times, and Snapshot::activeFor to the time since the last wait if one
  /// has ended since the wake.
  void addTo(Snapshot &now) const;

private:
  void record(Nanoseconds took);

  DurationEstimate times;
  Nanoseconds last{0};
  std::optional<Nanoseconds> woken;    // the last wake that was seen
  Nanoseconds from{0};                 // begin of the busy time under way
  std::uint64_t seen = 0, ownSeen = 0; // waits: all; in this process
  bool isOpen = false;                 // no end was seen of the activity since `woken`
  bool hasWaited = false;              // since `woken`
  bool isAway = false;                 // lookAway() was called after the last observe()
  bool wasActive = true;               // at the last call; before the first one it is not known
};

} // namespace tally::runtime

#endif
