// How often implicit scopes are looked at.
#ifndef TALLY_LIB_RUNTIME_REQUESTS_MONITOR_TIMES_H
#define TALLY_LIB_RUNTIME_REQUESTS_MONITOR_TIMES_H

#include "tally/runtime/control_word.h"

namespace tally::runtime {

/// Between two looks while something is waited for.
constexpr Nanoseconds nap = std::chrono::microseconds(20);
/// Where other processes wait for this one's implicit scopes to be closed: naps while none is open,
/// so that the launch that opens one need not wake the thread; those when one was a short time ago
/// are as short as `nap`. Where nobody waits yet, the time within which somebody who comes is seen.
constexpr Nanoseconds watchedNap = std::chrono::milliseconds(1),
                      recently = std::chrono::milliseconds(10),
                      unwatchedNap = std::chrono::milliseconds(20);
/// How often statistics that are not counted where they arise are renewed.
constexpr Nanoseconds noteInterval = std::chrono::milliseconds(100);

} // namespace tally::runtime

#endif
