// Limits how long a write stays armed, whatever the dispatcher's thread does.
#ifndef TALLY_LIB_RUNTIME_REQUESTS_ARMED_LIMIT_H
#define TALLY_LIB_RUNTIME_REQUESTS_ARMED_LIMIT_H

#include "requests/request_scope_tracker.h"

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

#include <pthread.h>

namespace tally::runtime {

/// Disarms a write that stays armed too long, from a thread that makes no driver call. A call of
/// the program may hold the driver's lock until the device is idle (for a kernel that is loaded at
/// its first use). Then the call waits for the armed stream, and the dispatcher's thread, which
/// would disarm the write, waits for the lock.
class ArmedLimit {
public:
  /// A write is disarmed at the latest after twice `limit`, and may be after once `limit`.
  ArmedLimit(DeviceControl &control, std::chrono::nanoseconds limit)
      : control(control), limit(limit) {}
  ~ArmedLimit() { end(); }
  ArmedLimit(const ArmedLimit &) = delete;
  ArmedLimit &operator=(const ArmedLimit &) = delete;

  /// Lives while the dispatcher's thread arms, in a call that may block for ever.
  class Arming {
  public:
    explicit Arming(ArmedLimit &limit) : limit(limit) { limit.setArming(true); }
    ~Arming() { limit.setArming(false); }
    Arming(const Arming &) = delete;
    Arming &operator=(const Arming &) = delete;

  private:
    ArmedLimit &limit;
  };

  void end() {
    {
      std::unique_lock lock(mutex);
      ending = true;
      changed.notify_one();
    }
    if (thread.joinable())
      thread.join();
  }

private:
  void setArming(bool now) {
    std::unique_lock lock(mutex);
    isArming = now;
    if (!thread.joinable())
      thread = std::thread([this] { run(); });
    if (isAsleep)
      changed.notify_one();
  }

  void run() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex);
    while (!ending) {
      std::uint64_t now = control.armedEpoch();
      if (now != 0 && now == seen)
        control.disarm();
      seen = now;
      isAsleep = now == 0 && !isArming;
      if (isAsleep)
        changed.wait(lock);
      else
        changed.wait_for(lock, limit);
      isAsleep = false;
    }
  }

  DeviceControl &control;
  const std::chrono::nanoseconds limit;
  std::mutex mutex; ///< guards the members below
  std::condition_variable changed;
  bool isArming = false, isAsleep = false, ending = false;
  std::thread thread;
};

} // namespace tally::runtime

#endif
