#include "arena/arena_watcher.h"

#include <utility>

namespace tally::runtime {

using namespace std::chrono_literals;

namespace {

/// Within this time of a change the thread does not even yield its core.
constexpr Nanoseconds tightSpin = 50us;

} // namespace

ArenaWatcher::ArenaWatcher(std::shared_ptr<Arena> watched, ArenaWatcherOptions given)
    : arena(std::move(watched)), options(std::move(given)) {
  look();
  thread = std::thread([this] { run(); });
}

void ArenaWatcher::stop() {
  if (!thread.joinable())
    return;
  stopping = true;
  arena->wakeSleepers();
  {
    std::unique_lock lock(idling);
  }
  hasWork.notify_all();
  thread.join();
}

void ArenaWatcher::setBusy(bool now) {
  // Set the flag, then read whether the thread sleeps; the sleeper works in the reverse order.
  if (busy.load(std::memory_order_relaxed) == now || busy.exchange(now) == now)
    return;
  if (now && options.spinWhileBusy && asleep.load())
    arena->wakeSleepers();
  if (!now || !options.sleepsWhileIdle)
    return;
  // Under the mutex the thread either sees `busy`, or has set `idle`.
  {
    std::unique_lock lock(idling);
  }
  if (!idle.load())
    return;
  hasWork.notify_all();
  while (idle.load() && !stopping)
    std::this_thread::yield();
}

void ArenaWatcher::look() {
  std::uint64_t before = higher;
  higher = arena->higherActive(options.slotClass);
  if (higher != 0) {
    clearDead();
    higher = arena->higherActive(options.slotClass);
  }
  if (higher != before)
    lastChange = SteadyClock{}();
  if (higher != 0 && !told)
    told = options.onRaise();
  else if (higher == 0 && std::exchange(told, false))
    options.onWithdraw();
}

/// Clears the claims of dead processes among the slots that have blocked for `deathInterval`.
void ArenaWatcher::clearDead() {
  Nanoseconds now = SteadyClock{}();
  for (std::uint64_t left = higher; left != 0; left &= left - 1) {
    auto slot = static_cast<std::uint32_t>(std::countr_zero(left));
    if ((followed >> slot & 1) != 0) {
      if (now < nextTest[slot])
        continue;
      arena->clearIfDead(slot);
    }
    nextTest[slot] = now + options.deathInterval;
  }
  followed = higher;
}

void ArenaWatcher::run() {
  while (!stopping) {
    look();
    rest();
  }
}

void ArenaWatcher::rest() {
  Nanoseconds now = SteadyClock{}();
  if (busy)
    lastBusy = now;
  Nanoseconds quiet = now - lastChange;
  if (quiet < tightSpin)
    return pauseProcessor();
  if (quiet < options.spin || (options.spinWhileBusy && busy))
    return pause();
  if (!options.sleepsWhileIdle || busy || told || higher != 0)
    return sleep();
  if (now - lastBusy < options.spin) // a training has no work between two steps either
    return options.spinWhileBusy ? pause() : sleep();
  sleepIdle();
}

void ArenaWatcher::pause() {
  if (!yieldInTurn())
    pauseProcessor();
}

void ArenaWatcher::sleepIdle() {
  {
    std::unique_lock lock(idling);
    idle = true;
    hasWork.wait(lock, [&] { return stopping || busy; });
  }
  look();
  idle = false;
}

void ArenaWatcher::sleep() {
  asleep = true;
  auto changed = [&] {
    return stopping || (options.spinWhileBusy && busy) ||
           arena->higherActive(options.slotClass) != higher;
  };
  arena->sleepUnless(changed, higher != 0 ? options.deathInterval : options.longestSleep);
  asleep = false;
}

} // namespace tally::runtime
