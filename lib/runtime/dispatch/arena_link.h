// The runtime's part in the arena: its slots, its watcher, and the link between them and the
// control word.
//
// The process's own scopes go to its slot of class 0 and to the control word (RequestScopeTracker).
// The activity of other processes is one more scope in the control word alone. It never gets into a
// slot, so it stays in this process: else the activity of another process would come back to that
// process and last for ever.
//
// In the arena each process has one class of best-effort work. While a process of a lower class has
// a slot, this process's best-effort slot has a claim as long as there is best-effort work, held
// back or not, and for a millisecond longer, since a training has no work between two steps either.
// Claims block only lower classes, so no two processes wait for each other.
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
  std::uint64_t used = 0, peak = 0;     ///< allocated now, and the largest value so far
  std::uint64_t quota = 0, reserve = 0; ///< 0: no quota, no reserve
  std::uint64_t refusals = 0;           ///< allocations refused because of quota or reserve
};

class ArenaLink final : public Neighbours {
public:
  /// Until stopWatching() a thread of the link calls `resume` when no higher class is active in
  /// another process any more and this process has no open scope. The arguments must outlive the
  /// link.
  static Result<std::unique_ptr<ArenaLink>> open(const ArenaOptions &options, std::string_view uuid,
                                                 DeviceControl &control,
                                                 RequestScopeTracker &highPriority,
                                                 std::function<void()> resume);
  /// Gives the slots back. No scope may be open, and none may be opened later.
  ~ArenaLink() override;

  /// Takes the slot for a class. Call it for each client before the client has work; only the first
  /// call for a class takes a slot. Thread-safe.
  Result<void> join(Class clientClass, std::string_view name);

  /// Stops the watcher; call it before the objects that `resume` uses end. A second call does
  /// nothing.
  void stopWatching();
  /// Gives the slots back with their claims. Scopes open now or opened later no longer count.
  void leave();
  /// Clears the slots of dead best-effort processes, so that isWaitedFor() ignores them.
  void clearDead() { arena->clearDeadBestEffort(); }

  /// Whether all slots of other processes are of this process's best-effort class, so that no
  /// process yields to another. Thread-safe, cheap.
  bool isAlone() { return arena->onlyOfClass(bestEffortClass) || isAloneWithoutDead(); }
  /// Counts best-effort launches that went to the device past the dispatcher. Thread-safe.
  void noteAhead(std::uint64_t launches);
  /// Shows in the slot whether work past the dispatcher is on the device now.
  void showAhead(bool now);

  void setBusy(bool now) override;
  bool isWaitedFor() const override { return arena->bestEffortPresent(); }
  std::uint64_t waitsElsewhere() const override { return arena->highWaits(); }
  void note(const LaneTotals &totals) override;
  void noteTurnaround(Nanoseconds took) override;
  /// Shows `now` in the process's slot; in the high-priority slot if it has two. Thread-safe.
  void noteMemory(const MemoryStatus &now);
  /// Sets the trace that records when other processes were active. Call it before join().
  void traceTo(Trace *to) { trace = to; }

private:
  bool isAloneWithoutDead();
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
  std::atomic<ArenaWatcher *> watching{nullptr}; ///< read by the dispatcher's thread
  std::atomic<ArenaSlot *> counted{nullptr};     ///< the best-effort slot, once watched
  std::atomic<std::uint64_t> launchedAhead{0};
  std::atomic<bool> aheadShown{false};
  std::atomic<std::int64_t> deadLookedFor{0}; ///< when isAlone() last looked for dead processes, ns
  Trace *trace = nullptr;
  Nanoseconds elsewhereSince{0}; ///< used only by the watcher's thread
  // Used only by the dispatcher's thread.
  bool shownBusy = false, claims = false;
  Nanoseconds lastWork{0};
};

} // namespace tally::runtime

#endif
