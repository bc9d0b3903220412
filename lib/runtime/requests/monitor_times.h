// Intervals at which the monitor looks at implicit scopes.
#ifndef TALLY_LIB_RUNTIME_REQUESTS_MONITOR_TIMES_H
#define TALLY_LIB_RUNTIME_REQUESTS_MONITOR_TIMES_H

#include "tally/runtime/control_word.h"

namespace tally::runtime {

/// Time between two looks while work is waiting.
constexpr Nanoseconds nap = std::chrono::microseconds(20);
/// watchedNap: nap while other processes may wait for this process's implicit scopes to be closed,
/// but none is open; so the launch that opens a scope need not wake the thread. If a scope was open
/// within `recently`, naps are as short as `nap`. unwatchedNap: nap while no process may wait, and
/// so the time within which a new one is seen.
constexpr Nanoseconds watchedNap = std::chrono::milliseconds(1),
                      recently = std::chrono::milliseconds(10),
                      unwatchedNap = std::chrono::milliseconds(20);
/// The nap while other processes may wait. `since`: time since an implicit scope was seen open.
constexpr Nanoseconds napWhileWatched(Nanoseconds since) {
  return since < recently ? nap : watchedNap;
}
/// Interval at which statistics are updated that are not counted where they arise.
constexpr Nanoseconds noteInterval = std::chrono::milliseconds(100);

} // namespace tally::runtime

#endif
