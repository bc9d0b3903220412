// Records in a trace when high priority woke and when it came to rest.
#ifndef TALLY_LIB_RUNTIME_REQUESTS_WAKE_TRACE_H
#define TALLY_LIB_RUNTIME_REQUESTS_WAKE_TRACE_H

#include "requests/device_control.h"
#include "trace/trace.h"

#include <atomic>
#include <cstdint>

namespace tally::runtime {

/// Thread-safe, except to().
class WakeTrace {
public:
  explicit WakeTrace(DeviceControl &control) : control(control) {}

  /// Sets the trace; nullptr: no trace. Call it before any scope is opened.
  void to(Trace *where) { trace = where; }
  /// Records the new epochs; call it where the control word may have advanced. `byPolicy`: the
  /// policy has advanced it.
  void wakes(bool byPolicy = false);
  /// Records that high priority is idle; call it after withdrawing the last scope.
  void idle();

private:
  DeviceControl &control;
  Trace *trace = nullptr;
  std::atomic<std::uint64_t> tracedEpoch{0};
};

} // namespace tally::runtime

#endif
