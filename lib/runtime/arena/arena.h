// The arena: processes on one GPU tell each other when high-priority work is active.
//
// Each process holds slots of a shared file (arena_layout.h), one per class of work. A
// high-priority process counts its open scopes in its slot; a best-effort process watches the slots
// of the others (arena_watcher.h). The holder of a slot has an open-file-description lock on one
// byte of the file. The operating system drops the lock when the holder dies, however it dies and
// in whatever PID namespace it lived.
//
// Deaths. A claim (`active` above 0) counts for watchers whether its holder lives or not, so the
// claim must go when the holder dies. A slot without a lock has no owner: any process that gets the
// lock may write the slot. A process may die at any instruction:
//  - while it claims a slot, after it took the lock and before it reset anything: the lock goes and
//    the slot holds what its last owner left. If that is a claim, the next process blocked by the
//    claim clears it.
//  - while it claims a slot, half reset: the claim is zeroed before the class is set, so no process
//    sees an old claim under a new class. No process shows the other half-written fields, since the
//    lock is gone.
//  - while it changes the masks: bits are set before the slot can be used, and cleared under the
//    lock after the claim is cleared. So a death may leave a bit too many, never a bit too few. A
//    bit too many costs one look at the slot.
//  - after it raised a claim, before it woke the sleepers: the claim is a dead process's (see
//    below), so the sleepers may sleep on.
//  - after it withdrew a claim, before it woke the sleepers: a blocked watcher never sleeps for
//    longer than 2 ms.
//  - while it has a claim: a watcher that a slot has blocked for 2 ms asks the operating system
//    whether the slot's lock is held. If not, it takes the lock, zeroes the claim and drops the
//    lock. A live holder's lock cannot be taken, so no live claim is lost. Under the lock there is
//    no other claimer, so the zeroed claim has no owner, in whichever generation.
//  - while it clears a dead process's claim: if it has not zeroed the claim yet, the next watcher
//    does.
//  - while it wakes sleepers: see the next paragraph.
// A stopped (SIGSTOP) process keeps its slots; its scopes stay open until it continues or dies.
//
// Sleeping and waking. A sleeper reads the sequence, takes a ticket, looks once more at all that it
// waits for, and waits on the sequence. A process that changed something compares the last ticket
// with the last ticket that a wake covered. Only where they differ it advances the sequence, wakes
// the sleepers, and then records the ticket as covered. A sleeper that took its ticket before the
// comparison read the sequence before the advance, so it is woken or does not fall asleep; a
// sleeper that took its ticket later looks after the change was made. No death loses a wake: a
// waker that dies leaves the ticket uncovered, so the next waker wakes; a sleeper that dies costs
// one needless wake. A sleeper that is awake again covers its own ticket if the tickets before it
// are covered. So if the only uncovered ticket is this arena's own, only this process sleeps. A
// change in its own slots does not concern it, so the change costs no system call.
//
// Fork. A child shares its parent's open file descriptions, and with them the locks. So the child
// closes its copy at once (an atfork handler; closing in the child leaves the parent's lock), has
// no mapping, and its slots do nothing. A child made by a bare clone() without exec runs no atfork
// handler and keeps its parent's slots locked while it lives.
#ifndef TALLY_LIB_RUNTIME_ARENA_ARENA_H
#define TALLY_LIB_RUNTIME_ARENA_ARENA_H

#include "arena/arena_file.h"
#include "arena/arena_layout.h"

#include "tally/runtime/control_word.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::runtime {

class Arena;

/// A slot of this process. Thread-safe, except release().
class ArenaSlot {
public:
  ~ArenaSlot() { release(); }
  ArenaSlot(const ArenaSlot &) = delete;
  ArenaSlot &operator=(const ArenaSlot &) = delete;

  /// Count a high-priority scope in and out. One atomic addition; the first scope in and the last
  /// scope out wake sleeping watchers. After release() and in a forked child they do nothing. `at`:
  /// the time of SteadyClock, if the caller has just read it.
  void raise(std::optional<Nanoseconds> at = std::nullopt);
  void withdraw(std::optional<Nanoseconds> at = std::nullopt);
  /// Call this shortly before raise(): prefetches the memory that raise() reads and writes.
  void fetchForRaise() const;

  /// Statistics for other processes to read.
  void add(ArenaCounter counter, std::uint64_t amount = 1) { change(counter, amount, false); }
  void set(ArenaCounter counter, std::uint64_t value) { change(counter, value, true); }
  void addTurnaround(Nanoseconds took) {
    addTo(ArenaCounter::Turnaround, Histogram::bucketOf(took), ArenaCounter::TurnaroundSum, took);
  }
  void addRequest(Nanoseconds took) {
    addTo(ArenaCounter::RequestTime, RequestHistogram::bucketOf(took), ArenaCounter::RequestSum,
          took);
  }

  /// Gives the slot back with all its claims; a second call does nothing. Async-signal-safe. But a
  /// raise() or withdraw() under way meanwhile, on another thread or interrupted by the handler,
  /// would count in a slot that may have a new owner. So a process that drains on a signal calls
  /// release() from a thread that knows that no such call is under way.
  void release();

  std::uint32_t index() const { return place; }

private:
  friend class Arena;
  ArenaSlot(std::shared_ptr<Arena> arena, std::uint32_t place, ArenaSlotData *data)
      : arena(std::move(arena)), place(place), shared(data) {}
  void change(ArenaCounter counter, std::uint64_t value, bool absolute);
  void addTo(ArenaCounter histogram, std::uint32_t bucket, ArenaCounter sum, Nanoseconds took);

  std::shared_ptr<Arena> arena;
  std::uint32_t place;
  std::atomic<ArenaSlotData *> shared; ///< null once released
};

/// A copy of a slot's contents.
struct ArenaSlotView {
  std::uint32_t index = 0, slotClass = 0, pid = 0;
  bool isHeld = false; ///< a living process holds the slot
  std::uint64_t generation = 0, active = 0;
  Nanoseconds changedAt{0}; ///< CLOCK_MONOTONIC
  std::string name;
  std::array<std::uint64_t, arenaCounters> statistics{};
};

/// arenaBit(): the slot's bit in masks of slots. arenaNow(): the clock that all processes of a
/// machine share, in ns.
constexpr std::uint64_t arenaBit(std::uint32_t slot) { return std::uint64_t{1} << slot; }
inline std::uint64_t arenaNow() { return static_cast<std::uint64_t>(SteadyClock{}().count()); }

/// Copies a slot; the caller says whether the slot is held.
ArenaSlotView viewOf(const ArenaSlotData &slot, std::uint32_t index, bool isHeld);
/// Whether an open file description other than that of `file` holds the slot's lock.
bool isArenaSlotHeld(int file, std::uint32_t slot);

/// The arena's file, opened and mapped. Thread-safe.
class Arena : public std::enable_shared_from_this<Arena> {
public:
  static Result<std::shared_ptr<Arena>> open(const ArenaPlace &place);
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  /// Claims a free slot for work of a class (0 is the highest). `name` is cut at 32 bytes. Fails
  /// when all 64 slots are held.
  Result<std::unique_ptr<ArenaSlot>> claim(std::uint32_t slotClass, std::string_view name);

  /// Mask of the slots of classes above `slotClass` that have claims, without this arena's own.
  std::uint64_t higherActive(std::uint32_t slotClass) const;
  /// Whether other arena objects have slots of classes below `slotClass`. A hint, as
  /// bestEffortPresent() is.
  bool lowerPresent(std::uint32_t slotClass) const;
  /// Whether all slots but this arena's own are of `slotClass`. A hint, as bestEffortPresent() is.
  bool onlyOfClass(std::uint32_t slotClass) const {
    const ArenaData *all = data.load(std::memory_order_relaxed);
    std::uint64_t others =
        all ? all->header.masks.occupied.load() & ~own.load(std::memory_order_relaxed) : 0;
    return others == 0 || areOfClass(*all, others, slotClass);
  }
  /// The sum of ArenaCounter::HighWaits over the slots of class 0, without this arena's own.
  std::uint64_t highWaits() const;
  /// Clears the slot's claim if its holder is dead. Returns whether it cleared the slot.
  bool clearIfDead(std::uint32_t slot);
  /// Whether other arena objects (mostly other processes) have best-effort slots. A hint: after a
  /// death it may stay true until a process claims a slot or calls clearDeadBestEffort().
  bool bestEffortPresent() const;
  void clearDeadBestEffort();
  /// Clears the dead processes' slots that are of another class than `slotClass`.
  void clearDeadBut(std::uint32_t slotClass);
  /// Copies of all slots that are held, have a claim or are marked as occupied.
  std::vector<ArenaSlotView> view() const;

  /// Wakes all threads in sleepUnless(), in any process.
  void wakeSleepers();
  /// Wakes like wakeSleepers(), unless only this arena's own thread sleeps.
  void wakeOthers();
  /// Sleeps until woken or for `limit`. Does not sleep if `changed()` is true after the ticket is
  /// taken, from when on a wake cannot be missed.
  template <class Changed> void sleepUnless(const Changed &changed, Nanoseconds limit) {
    ArenaData *now = data.load(std::memory_order_relaxed);
    if (!now)
      return;
    std::uint32_t sequence = now->header.sleepers.sequence.load();
    std::uint64_t ticket = now->header.sleepers.slept.fetch_add(1) + 1;
    ownTicket.store(ticket);
    if (!changed())
      waitFor(sequence, limit);
    std::uint64_t covered = ticket - 1;
    now->header.sleepers.woken.compare_exchange_strong(covered, ticket);
  }

  const std::string &path() const { return place.path; }

private:
  friend class ArenaSlot;
  void fetchSleepers() const {
    if (const ArenaData *now = data.load(std::memory_order_relaxed))
      __builtin_prefetch(&now->header.sleepers);
  }
  explicit Arena(ArenaPlace place) : place(std::move(place)) {}
  enum class Lock { Taken, Held };
  Result<Lock> tryLock(std::uint32_t slot) const;
  void unlock(std::uint32_t slot) const;
  bool isHeld(std::uint32_t slot) const;
  void waitFor(std::uint32_t sequence, Nanoseconds limit);
  Result<std::optional<std::uint32_t>> lockFree();
  void reset(std::uint32_t slot, std::uint32_t slotClass, std::string_view name);
  static void clear(ArenaData &data, std::uint32_t slot);
  void giveBack(std::uint32_t slot);
  static bool areOfClass(const ArenaData &data, std::uint64_t slots, std::uint32_t slotClass);

  static int registerForkHandlers();
  static void prepareFork();
  static void afterForkInParent();
  static void afterForkInChild();

  ArenaPlace place;
  std::atomic<int> file{-1};
  alignas(64) std::atomic<ArenaData *> data{nullptr}; ///< null in a forked child
  std::atomic<std::uint64_t> own{0}; ///< slots whose locks this arena's description holds
  std::mutex claiming;
  std::atomic<std::uint64_t> ownTicket{0}; ///< the last ticket that a thread of this process took
  std::array<std::atomic<ArenaSlot *>, arenaSlots> slots{};
};

} // namespace tally::runtime

#endif
