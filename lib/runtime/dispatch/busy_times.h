// Durations of the times in which high-priority work is active.
#ifndef TALLY_LIB_RUNTIME_DISPATCH_BUSY_TIMES_H
#define TALLY_LIB_RUNTIME_DISPATCH_BUSY_TIMES_H

#include "base/duration_estimate.h"
#include "requests/device_control.h"

#include <optional>

namespace tally::runtime {

/// For one thread.
class BusyTimes {
public:
  /// Records the last busy time of high-priority work if it has ended since the last call.
  void observe(const DeviceControl &control) {
    std::optional<Nanoseconds> since = control.lastWake();
    if (!since || since == lastSince)
      return;
    Snapshot now = control.snapshot();
    if (now.highPriorityActive != 0)
      return;
    lastSince = since;
    Nanoseconds ended = now.now - now.sinceHighPriorityEnded;
    if (ended < *since) // the next busy time has begun
      return;
    last = ended - *since;
    times.add(last);
  }
  void addTo(Snapshot &now) const {
    now.busyPeriods = times.count();
    now.busyMean = times.mean();
    now.busyHigh = times.high();
    now.busyLast = last;
  }

private:
  DurationEstimate times;
  Nanoseconds last{0};
  std::optional<Nanoseconds> lastSince; // begin of the newest busy time
};

} // namespace tally::runtime

#endif
