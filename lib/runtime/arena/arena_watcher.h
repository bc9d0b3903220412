// Watches the arena for a best-effort process: a thread that reports when a higher class becomes
// active in another process, and when no higher class is active any more.
//
// The watcher reports the activity of other processes only: it ignores slots of its own arena
// object. The runtime reacts with one more scope in the process's own control word, and does not
// write this scope to the process's slot. So two processes never keep each other awake: a slot's
// claim counts requests of its own process and nothing else.
//
// Within `spin` of the last change the watcher polls, so that it sees the next change within a
// microsecond. It also polls while best-effort work is under way, if the process has enough CPUs.
// Otherwise it sleeps until a change wakes it, 50 ms at most; while a slot blocks it, 2 ms at most,
// since a dead process wakes no sleeper.
//
// If the process has had no best-effort work for `spin`, the activity of others does not concern
// it. Then the watcher may sleep outside of the arena, so that a process that serves requests need
// not make a system call to wake it. The thread that has work again wakes the watcher and waits
// until it has looked.
#ifndef TALLY_LIB_RUNTIME_ARENA_ARENA_WATCHER_H
#define TALLY_LIB_RUNTIME_ARENA_ARENA_WATCHER_H

#include "arena/arena.h"
#include "base/cpus.h"
#include "base/spin.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tally::runtime {

struct ArenaWatcherOptions {
  std::uint32_t slotClass = 1;
  Nanoseconds spin = std::chrono::milliseconds(1);
  bool spinWhileBusy = hasCpusToPoll();
  /// Without best-effort work the watcher reports nothing; see above.
  bool sleepsWhileIdle = false;
  /// Time for which a slot may block before the watcher tests whether its holder lives; also the
  /// interval of later tests.
  Nanoseconds deathInterval = std::chrono::milliseconds(2);
  /// Limits the harm of a process that writes nonsense; a change wakes the watcher before.
  Nanoseconds longestSleep = std::chrono::milliseconds(50);
  /// Called when a higher class becomes active. Returns false if it failed; then the watcher calls
  /// it again soon.
  std::function<bool()> onRaise;
  /// Called when no higher class is active any more, after an onRaise() that returned true.
  std::function<void()> onWithdraw;
};

class ArenaWatcher {
public:
  /// The watcher's thread calls the callbacks, except for the first look, which the constructor
  /// does itself.
  ArenaWatcher(std::shared_ptr<Arena> arena, ArenaWatcherOptions options);
  ~ArenaWatcher() { stop(); }
  ArenaWatcher(const ArenaWatcher &) = delete;
  ArenaWatcher &operator=(const ArenaWatcher &) = delete;

  /// Ends the thread; a raised state stays raised. A second call does nothing.
  void stop();

  /// Tells the watcher whether best-effort work is under way or about to be. A hint, except with
  /// `sleepsWhileIdle`: then the caller must call this before it sends work, and the call returns
  /// when the activity of other processes is known. Thread-safe, cheap where nothing changes.
  void setBusy(bool now);
  /// Whether the watcher sleeps where no change wakes it.
  bool isIdle() const { return idle; }

private:
  void look();
  void clearDead();
  void run();
  void rest();
  void pause();
  void sleep();
  void sleepIdle();

  std::shared_ptr<Arena> arena;
  ArenaWatcherOptions options;
  std::uint64_t higher = 0, followed = 0; // slots that block; slots that have a nextTest
  std::array<Nanoseconds, arenaSlots> nextTest{};
  bool told = false;
  Nanoseconds lastChange{0}, lastBusy{0};
  OccasionalYield yieldInTurn;
  std::atomic<bool> busy{false}, asleep{false}, stopping{false};
  std::mutex idling;
  std::condition_variable hasWork;
  std::atomic<bool> idle{false}; ///< the thread sleeps or has not looked since; set under mutex
  std::thread thread;
};

} // namespace tally::runtime

#endif
