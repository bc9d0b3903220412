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

/// Looks between two times that a polling thread yields its CPU. A yield is a system call, which
/// takes far more of the core from its other hardware thread than pauses do.
constexpr unsigned looksBetweenYields = 32;

/// For a thread that polls for long. Not thread-safe.
class OccasionalYield {
public:
  /// Yields the CPU at each call in `looksBetweenYields`. Returns whether it has.
  bool operator()() {
    if (++looks % looksBetweenYields != 0)
      return false;
    std::this_thread::yield();
    return true;
  }

private:
  unsigned looks = 0;
};

/// Polls `over` until it is true, at most for spinBeforeSleep(); `now` is a clock.
template <class Over, class Clock> void spinUntil(Over over, const Clock &now) {
  Nanoseconds deadline = now() + spinBeforeSleep();
  while (!over() && now() < deadline) {
    for (unsigned looks = 0; looks < looksBetweenYields && !over(); ++looks)
      pauseProcessor();
    std::this_thread::yield();
  }
}

} // namespace tally::runtime

#endif
