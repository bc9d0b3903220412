// Threads poll the device for a while before they sleep.
#ifndef TALLY_LIB_RUNTIME_BASE_SPIN_H
#define TALLY_LIB_RUNTIME_BASE_SPIN_H

#include "base/cpus.h"

#include "tally/runtime/control_word.h"

#include <chrono>
#include <thread>

namespace tally::runtime {

/// Time for which a waiting application polls before it sleeps. A wake-up from sleep costs about 50
/// us, which a training loop would pay in each step. Where cores are scarce, other threads need
/// them.
inline Nanoseconds spinBeforeSleep() {
  using namespace std::chrono_literals;
  return hasCpusToPoll() ? 20ms : 50us;
}

/// Pauses between two polls. Meanwhile the core's other hardware thread, which may launch requests,
/// has most of the core.
inline void pauseProcessor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Polls `over` until it is true, at most for spinBeforeSleep(); `now` is a clock.
template <class Over, class Clock> void spinUntil(Over over, const Clock &now) {
  constexpr int looksBetweenYields = 32;
  Nanoseconds deadline = now() + spinBeforeSleep();
  while (!over() && now() < deadline) {
    for (int looks = 0; looks < looksBetweenYields && !over(); ++looks)
      pauseProcessor();
    std::this_thread::yield();
  }
}

} // namespace tally::runtime

#endif
