// The arena: processes on one GPU tell each other when high-priority work is active.
//
// Each process holds slots of a shared file (arena_layout.h), one per class of work. A
// high-priority one counts its open scopes in its slot; a best-effort one watches the others'
// (arena_watcher.h). A slot is held by an open-file-description lock on one byte of the file, which
// the kernel drops when its holder dies, however it dies and in whatever PID namespace it lived.
//
// Deaths. A claim (`active` above 0) counts for watchers whether its holder lives or not, so it
// must go when the holder dies; and a slot without its lock belongs to nobody, so whoever gets the
// lock may do with it what it likes. At any instruction:
//  - claiming, lock taken, nothing reset: the lock goes, the slot holds what its last owner left,
//    as before; if that is a claim, the next to be blocked by it clears it.
//  - claiming, half reset: the claim is zeroed before the class is set, so no old claim is ever
//  seen
//    under a new class; what else is half written is shown by nobody, since the lock is gone.
//  - the masks' bits are set before the slot can be used, and cleared under the lock after the
//  claim
//    is: a death leaves a bit too many, never one too few. Too many costs a look.
//  - raised, not yet woken the sleepers: the claim is a dead one's, as below; sleepers are right to
//    sleep on.
//  - withdrawn, not yet woken the sleepers: who is blocked never sleeps for longer than 2 ms.
//  - with a claim: whoever is blocked by a slot for 2 ms asks the kernel whether its lock is held
//    and, if not, takes it, zeroes the claim, gives it back. A live holder's lock cannot be taken,
//    so no live claim is lost; and under the lock there is no other claimer, so what is zeroed is
//    nobody's, in whichever generation.
//  - clearing a dead one's claim: before the zero, the next one does it; after, it is done.
//  - waking: see ArenaSleepers below.
// What a stopped (SIGSTOP) process holds it holds; its scopes are open until it goes on or dies.
//
// Sleeping and waking. A sleeper reads the sequence, takes a ticket, looks once more at all that it
// waits for, and waits on the sequence. Who changed something compares the last ticket with the
// last one that a wake covered; only where they differ it advances the sequence, wakes, and then
// notes the ticket as covered. A sleeper whose ticket came before that comparison read the sequence
// before it was advanced, so it is woken or does not fall asleep; one whose ticket came later looks
// after the change was made. Nobody's part can be lost by another's death: a waker that dies leaves
// the ticket uncovered, so that the next one wakes; a sleeper that dies costs one wake for nothing.
// A sleeper that is awake again covers its ticket itself where those before it are covered. So
// where the one ticket that is not is this arena's own, only this process sleeps, which a change in
// its own slots does not concern: then that costs no call of the system's.
//
// Fork. A child shares its parent's open file descriptions, and with them the locks. So the child
// closes its copy at once (an atfork handler; closing in the child leaves the parent's lock), has
// no mapping, and its slots do nothing. A child made by a bare clone() without exec runs no such
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

/// A slot of this process. Thread-safe but for release().
class ArenaSlot {
public:
  ~ArenaSlot() { release(); }
  ArenaSlot(const ArenaSlot &) = delete;
  ArenaSlot &operator=(const ArenaSlot &) = delete;

  /// Counts a high-priority scope in and out. One atomic addition; the first in and the last out
  /// wake the watchers that sleep, if any do. After release() and in a forked child nothing. `at`:
  /// of SteadyClock, from who has just looked.
  void raise(std::optional<Nanoseconds> at = std::nullopt);
  void withdraw(std::optional<Nanoseconds> at = std::nullopt);
  /// For who is about to call raise(): fetches what that writes and reads, all at once.
  void fetchForRaise() const;

  /// Statistics for others to read.
  void add(ArenaCounter counter, std::uint64_t amount = 1) { change(counter, amount, false); }
  void set(ArenaCounter counter, std::uint64_t value) { change(counter, value, true); }
  void addTurnaround(Nanoseconds took) {
    addTo(ArenaCounter::Turnaround, Histogram::bucketOf(took), ArenaCounter::TurnaroundSum, took);
  }
  void addRequest(Nanoseconds took) {
    addTo(ArenaCounter::RequestTime, RequestHistogram::bucketOf(took), ArenaCounter::RequestSum,
          took);
  }

  /// Gives the slot back with all its claims; the second time nothing. Calls only what a signal
  /// handler may. But a raise() or withdraw() that is under way meanwhile, on another thread or
  /// interrupted by the handler, would count in a slot that is somebody else's by then: who drains
  /// on a signal releases from a thread that knows that there is none.
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

/// What a slot shows.
struct ArenaSlotView {
  std::uint32_t index = 0, slotClass = 0, pid = 0;
  bool isHeld = false; ///< by a living process
  std::uint64_t generation = 0, active = 0;
  Nanoseconds changedAt{0}; ///< CLOCK_MONOTONIC
  std::string name;
  std::array<std::uint64_t, arenaCounters> statistics{};
};

/// The slot's bit in masks of slots; and the clock that all processes of a machine share.
constexpr std::uint64_t arenaBit(std::uint32_t slot) { return std::uint64_t{1} << slot; }
inline std::uint64_t arenaNow() { return static_cast<std::uint64_t>(SteadyClock{}().count()); }

/// `isHeld` is the caller's to know.
ArenaSlotView viewOf(const ArenaSlotData &slot, std::uint32_t index, bool isHeld);
/// Whether another description of the file than `file` holds the slot's lock.
bool isArenaSlotHeld(int file, std::uint32_t slot);

/// The file, opened and mapped. Thread-safe.
class Arena : public std::enable_shared_from_this<Arena> {
public:
  static Result<std::shared_ptr<Arena>> open(const ArenaPlace &place);
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  /// A free slot, for work of a class (0 is the highest). `name` is cut at 32 bytes. Fails when all
  /// 64 are held.
  Result<std::unique_ptr<ArenaSlot>> claim(std::uint32_t slotClass, std::string_view name);

  /// Slots of classes above `slotClass` with open scopes, a bit each, without this arena's own.
  std::uint64_t higherActive(std::uint32_t slotClass) const;
  /// Whether slots of classes below `slotClass` are there, but this arena's own. A hint, as
  /// bestEffortPresent() is.
  bool lowerPresent(std::uint32_t slotClass) const;
  /// Whether all slots but this arena's own are of that class. A hint, as bestEffortPresent() is.
  bool onlyOfClass(std::uint32_t slotClass) const;
  /// Clears the slot's claim if its holder is dead. Returns whether it was.
  bool clearIfDead(std::uint32_t slot);
  /// Whether best-effort work is there: other arena objects' slots, so mostly other processes'. A
  /// hint: after a death it may say so until somebody claims a slot or calls clearDeadBestEffort().
  bool bestEffortPresent() const;
  void clearDeadBestEffort();
  /// The same of all slots that are of another class.
  void clearDeadBut(std::uint32_t slotClass);
  /// All slots that are held or hold something.
  std::vector<ArenaSlotView> view() const;

  /// Wakes those in sleepUnless(), in any process, if there are any.
  void wakeSleepers();
  /// The same, unless nobody sleeps but this arena's own.
  void wakeOthers();
  /// Sleeps until woken or for `limit`, but not if `changed()` is true once a wake can be relied
  /// on.
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

  static int registerForkHandlers();
  static void prepareFork();
  static void afterForkInParent();
  static void afterForkInChild();

  ArenaPlace place;
  std::atomic<int> file{-1};
  std::atomic<ArenaData *> data{nullptr}; ///< null in a forked child
  std::mutex claiming;
  std::atomic<std::uint64_t> own{0};       ///< slots whose locks this arena's description holds
  std::atomic<std::uint64_t> ownTicket{0}; ///< the last that a thread of this process took
  std::array<std::atomic<ArenaSlot *>, arenaSlots> slots{};
};

} // namespace tally::runtime

#endif
