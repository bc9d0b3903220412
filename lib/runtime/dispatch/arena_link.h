// The runtime's part in the arena: its slots, its watcher, and what passes between them and the
// control word.
//
// Own scopes go to the slot of class 0 and to the control word (RequestScopeTracker). Others'
// activity is one scope more in the control word alone. It never gets into a slot, so it goes no
// further than this process: activity that came from another process would else come back to it and
// last for ever.
//
// Best-effort work has classes too, which are processes'. Where a process of a lower one is there,
// this one's best-effort slot has a claim while there is best-effort work, held back or not, and
// for a millisecond after that: a training has nothing to do between two steps either. Claims block
// lower classes alone, so nobody waits for who waits for it.
#ifndef TALLY_LIB_RUNTIME_DISPATCH_ARENA_LINK_H
#define TALLY_LIB_RUNTIME_DISPATCH_ARENA_LINK_H

#include "arena/arena_watcher.h"
#include "dispatch/dispatcher.h"
#include "requests/request_scope_tracker.h"

#include "tally/runtime/runtime.h"

#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

namespace tally::runtime {

/// The process's part of the device's memory, in bytes.
struct MemoryStatus {
  std::uint64_t used = 0, peak = 0;     ///< now, and the most at a time
  std::uint64_t quota = 0, reserve = 0; ///< 0: there is none
  std::uint64_t refusals = 0;           ///< allocations that were not made for one of the two
};

class ArenaLink final : public Neighbours {
public:
  /// `resume` is called when no other process is active any more and none of this one's scopes is
  /// open, by a thread of the link's, until stopWatching(). What is given must outlive the link.
  static Result<std::unique_ptr<ArenaLink>> open(const ArenaOptions &options, std::string_view uuid,
                                                 DeviceControl &control,
                                                 RequestScopeTracker &highPriority,
                                                 std::function<void()> resume);
  /// Gives the slots back; no scope may be open or opened any more.
  ~ArenaLink() override;

  /// Takes the slot for a class with its first client, before that has any work; for later ones
  /// does nothing. Thread-safe.
  Result<void> join(Class clientClass, std::string_view name);

  /// Before what `resume` uses goes away. The second time nothing.
  void stopWatching();
  /// Gives the slots back with what they claim. Scopes that are open or opened later count no more.
  void leave();
  /// isWaitedFor() says no again where those that waited have died.
  void clearDead() { arena->clearDeadBestEffort(); }

  /// Whether no other process has work of another class than this one's best-effort work: nobody
  /// makes way for anybody then. Thread-safe, cheap.
  bool isAlone();
  /// So much best-effort work has gone to the device past the dispatcher. Thread-safe.
  void noteAhead(std::uint64_t launches);
  /// Whether such work is there now.
  void showAhead(bool now);

  void setBusy(bool now) override;
  bool isWaitedFor() const override { return arena->bestEffortPresent(); }
  void note(const LaneTotals &totals) override;
  void noteTurnaround(Nanoseconds took) override;
  /// Shown in the process's slot; of two, in that of high priority. Thread-safe.
  void noteMemory(const MemoryStatus &now);
  /// Where it is noted when other processes were active. Before join().
  void traceTo(Trace *to) { trace = to; }

private:
  ArenaLink(std::shared_ptr<Arena> arena, std::uint32_t bestEffortClass, DeviceControl &control,
            RequestScopeTracker &highPriority, std::function<void()> resume)
      : arena(std::move(arena)), bestEffortClass(bestEffortClass), control(control),
        highPriority(highPriority), resume(std::move(resume)) {}
  void watch();
  void claimFor(ArenaSlot &slot, bool hasWork);
  void traceElsewhere();
  void showMemory();

  std::shared_ptr<Arena> arena;
  const std::uint32_t bestEffortClass;
  DeviceControl &control;
  RequestScopeTracker &highPriority;
  std::function<void()> resume;
  std::mutex joining;
  std::unique_ptr<ArenaSlot> high, bestEffort;
  MemoryStatus memory; ///< guarded by `joining`
  std::unique_ptr<ArenaWatcher> watcher;
  std::atomic<ArenaWatcher *> watching{nullptr}; ///< for the dispatcher's thread
  std::atomic<ArenaSlot *> counted{nullptr};     ///< the best-effort slot, once it is watched
  std::atomic<std::uint64_t> launchedAhead{0};
  std::atomic<bool> aheadShown{false};
  std::atomic<std::int64_t> deadLookedFor{0}; ///< when, in ns
  Trace *trace = nullptr;
  Nanoseconds elsewhereSince{0}; ///< the watcher's thread's own
  // The dispatcher's thread's own.
  bool shownBusy = false, claims = false;
  Nanoseconds lastWork{0};
};

} // namespace tally::runtime

#endif
