// Notes in a trace when high priority woke and when it came to rest.
#ifndef TALLY_LIB_RUNTIME_REQUESTS_WAKE_TRACE_H
#define TALLY_LIB_RUNTIME_REQUESTS_WAKE_TRACE_H

#include "requests/device_control.h"
#include "trace/trace.h"

#include <atomic>
#include <cstdint>

namespace tally::runtime {

/// Thread-safe, but for to().
class WakeTrace {
public:
  explicit WakeTrace(DeviceControl &control) : control(control) {}

  /// Where it is noted, or nowhere. Before any scope is opened.
  void to(Trace *where) { trace = where; }
  /// For who may have seen the control word advanced: notes what was not noted yet. `byPolicy`: the
  /// policy has advanced it.
  void wakes(bool byPolicy = false);
  /// For who has withdrawn the last scope.
  void idle();

private:
  DeviceControl &control;
  Trace *trace = nullptr;
  std::atomic<std::uint64_t> tracedEpoch{0};
};

} // namespace tally::runtime

#endif
