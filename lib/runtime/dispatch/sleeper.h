// The sleep of a thread that other threads wake.
#ifndef TALLY_LIB_RUNTIME_DISPATCH_SLEEPER_H
#define TALLY_LIB_RUNTIME_DISPATCH_SLEEPER_H

#include "tally/runtime/control_word.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tally::runtime {

class Sleeper {
public:
  /// Thread-safe. Costs an addition while the thread is awake.
  void wake() {
    // Change the counter, then read the flag; the sleeper sets the flag, then reads the counter. So
    // one of the two threads sees the other.
    wakes.fetch_add(1);
    if (!asleep.load())
      return;
    std::unique_lock lock(mutex);
    woken.notify_one();
  }

  /// While a Nap lives, wake() ends the waits of its thread, even if wake() came before the wait.
  /// Look for work only after making the Nap: for work that came earlier, the call of wake() may
  /// be over already.
  class Nap {
  public:
    explicit Nap(Sleeper &sleeper) : sleeper(sleeper), lock(sleeper.mutex) {
      before = sleeper.wakes.load();
      sleeper.asleep = true;
    }
    ~Nap() { sleeper.asleep = false; }
    Nap(const Nap &) = delete;
    Nap &operator=(const Nap &) = delete;
    void wait() {
      sleeper.woken.wait(lock, [this] { return isOver(); });
    }
    void waitFor(Nanoseconds limit) {
      sleeper.woken.wait_for(lock, limit, [this] { return isOver(); });
    }

  private:
    bool isOver() const { return sleeper.wakes.load() != before; }

    Sleeper &sleeper;
    std::unique_lock<std::mutex> lock;
    std::uint64_t before = 0;
  };

private:
  std::mutex mutex;
  std::condition_variable woken;
  std::atomic<bool> asleep{false};
  std::atomic<std::uint64_t> wakes{0};
};

} // namespace tally::runtime

#endif
