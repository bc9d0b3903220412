// Watches the arena for a best-effort process: a thread that says when some higher class becomes
// active in another process, and when none is any more.
//
// What it reports is the others' activity only: slots of its own arena object are not looked at.
// And what the runtime does about it, a scope more in the process's own control word, is not
// written to the process's slot. So two processes never keep each other awake: a slot's claim
// counts requests of its own process and nothing else.
//
// Within `spin` of the last change it looks again and again, so that the next one is seen within a
// microsecond; likewise while best-effort work is under way, where there are cores for that. Else
// it sleeps until it is woken by the change itself, and after 50 ms at the latest; while it is
// blocked after 2 ms, since a dead process wakes nobody.
//
// Where the process has had no best-effort work for `spin` what others do does not concern it: then
// it may sleep where nobody has to wake it, which is a call of the system's in whoever serves
// requests. Who has work again wakes it, and waits until it has looked.
#ifndef TALLY_LIB_RUNTIME_ARENA_ARENA_WATCHER_H
#define TALLY_LIB_RUNTIME_ARENA_ARENA_WATCHER_H

#include "arena/arena.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tally::runtime {

/// Whether the machine has cores enough that one may be kept busy with looking.
bool hasCoresToSpin();

struct ArenaWatcherOptions {
  std::uint32_t slotClass = 1;
  Nanoseconds spin = std::chrono::milliseconds(1);
  bool spinWhileBusy = hasCoresToSpin();
  /// Without work nothing is reported; see above.
  bool sleepsWhileIdle = false;
  /// How long a slot may block before its holder is looked for, and how often from then on.
  Nanoseconds deathInterval = std::chrono::milliseconds(2);
  /// Nobody has to be woken by its end; it bounds what a process that writes nonsense can do.
  Nanoseconds longestSleep = std::chrono::milliseconds(50);
  /// Some higher class is active. False where that could not be acted on: it is said again soon.
  std::function<bool()> onRaise;
  /// None is. Only after an onRaise() that gave true.
  std::function<void()> onWithdraw;
};

class ArenaWatcher {
public:
  /// The callbacks are called by the watcher's thread, but for the first look, which is done before
  /// this returns.
  ArenaWatcher(std::shared_ptr<Arena> arena, ArenaWatcherOptions options);
  ~ArenaWatcher() { stop(); }
  ArenaWatcher(const ArenaWatcher &) = delete;
  ArenaWatcher &operator=(const ArenaWatcher &) = delete;

  /// Ends the thread; what was raised stays so. The second time nothing.
  void stop();

  /// Whether best-effort work is under way, or about to be: a hint, but where it sleeps while idle;
  /// then nothing goes before this was told, and it returns when the others' activity is known.
  /// Thread-safe, cheap where nothing changes.
  void setBusy(bool now);
  /// Whether it sleeps where no change wakes it.
  bool isIdle() const { return idle; }

private:
  void look();
  void clearDead();
  void run();
  void rest();
  void sleep();
  void sleepIdle();

  std::shared_ptr<Arena> arena;
  ArenaWatcherOptions options;
  std::uint64_t higher = 0, followed = 0; // slots that block; those with a time for the next test
  std::array<Nanoseconds, arenaSlots> nextTest{};
  bool told = false;
  Nanoseconds lastChange{0}, lastBusy{0};
  std::atomic<bool> busy{false}, asleep{false}, stopping{false};
  std::mutex idling;
  std::condition_variable hasWork;
  std::atomic<bool> idle{false}; ///< it sleeps, or has not looked since; set under the mutex
  std::thread thread;
};

} // namespace tally::runtime

#endif
