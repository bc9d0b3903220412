// A process claims its slot of the arena, gives it back, and finds out that another process has
// died.
#include "arena/arena.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <thread>
#include <unistd.h>

namespace tally::runtime {

namespace {

/// A lock on the slot's byte. `l_pid` has to be 0 for open-file-description locks (fcntl(2)).
struct flock lockOf(std::uint32_t slot, short type) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(arenaLockBase + slot);
  lock.l_len = 1;
  return lock;
}

} // namespace

bool isArenaSlotHeld(int file, std::uint32_t slot) {
  struct flock lock = lockOf(slot, F_WRLCK);
  return fcntl(file, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

Result<Arena::Lock> Arena::tryLock(std::uint32_t slot) const {
  struct flock lock = lockOf(slot, F_WRLCK);
  if (fcntl(file, F_OFD_SETLK, &lock) == 0)
    return Lock::Taken;
  if (errno == EAGAIN || errno == EACCES)
    return Lock::Held;
  return arenaFailure(place.path, "cannot be locked", errno);
}

void Arena::unlock(std::uint32_t slot) const {
  struct flock lock = lockOf(slot, F_UNLCK);
  fcntl(file, F_OFD_SETLK, &lock); // the lock is held, so this cannot fail
}

bool Arena::isHeld(std::uint32_t slot) const {
  if ((own.load() & arenaBit(slot)) != 0)
    return true; // the description's own lock does not show
  return isArenaSlotHeld(file, slot);
}

/// Locks a free slot and returns its number; nothing where all slots are held.
Result<std::optional<std::uint32_t>> Arena::lockFree() {
  for (std::uint32_t slot = 0; slot < arenaSlots; ++slot) {
    if ((own.load() & arenaBit(slot)) != 0)
      continue; // locking it again would succeed
    Result<Lock> lock = tryLock(slot);
    if (!lock)
      return lock.error();
    if (*lock == Lock::Taken)
      return std::optional(slot);
  }
  return std::optional<std::uint32_t>();
}

Result<std::unique_ptr<ArenaSlot>> Arena::claim(std::uint32_t slotClass, std::string_view name) {
  if (!data.load())
    return Error{place.path + ": a forked child has no part in its parent's arena"};
  std::unique_lock lock(claiming);
  Result<std::optional<std::uint32_t>> found = lockFree();
  // Another process may hold a dead process's lock for an instant, to clear the slot.
  for (int attempt = 0; attempt < 3 && found && !*found; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    found = lockFree();
  }
  if (!found)
    return found.error();
  if (!*found)
    return Error{place.path + ": all " + std::to_string(arenaSlots) +
                 " slots of the arena are held by living processes"};
  std::uint32_t slot = **found;
  own.fetch_or(arenaBit(slot));
  reset(slot, slotClass, name);
  for (std::uint32_t other = 0; other < arenaSlots; ++other)
    clearIfDead(other);
  std::unique_ptr<ArenaSlot> made(
      new ArenaSlot(shared_from_this(), slot, &data.load()->slots[slot]));
  slots[slot] = made.get();
  return made;
}

/// Call under the slot's lock. Order as in arena.h: zero the old claim first, set the mask before
/// use.
void Arena::reset(std::uint32_t slot, std::uint32_t slotClass, std::string_view name) {
  ArenaData &all = *data.load();
  ArenaSlotData &mine = all.slots[slot];
  mine.active = 0;
  mine.generation.fetch_add(1);
  mine.slotClass = slotClass;
  mine.pid = static_cast<std::uint32_t>(getpid());
  mine.changedAt = arenaNow();
  std::array<std::uint64_t, 4> letters{};
  std::memcpy(letters.data(), name.data(), std::min(name.size(), sizeof letters));
  for (std::size_t i = 0; i < letters.size(); ++i)
    mine.name[i] = letters[i];
  for (std::atomic<std::uint64_t> &counter : mine.statistics)
    counter = 0;
  all.header.masks.occupied.fetch_or(arenaBit(slot));
  if (slotClass != 0)
    all.header.masks.bestEffort.fetch_or(arenaBit(slot));
}

void Arena::clear(ArenaData &data, std::uint32_t slot) {
  data.slots[slot].active = 0;
  data.header.masks.bestEffort.fetch_and(~arenaBit(slot));
  data.header.masks.occupied.fetch_and(~arenaBit(slot));
}

void Arena::giveBack(std::uint32_t slot) {
  ArenaData *all = data.load();
  if (!all)
    return;
  slots[slot] = nullptr;
  clear(*all, slot);
  unlock(slot);
  // Only now: before unlock() a claim() on another thread would lock the byte again, and unlock()
  // would drop that lock.
  own.fetch_and(~arenaBit(slot));
  wakeSleepers();
}

bool Arena::clearIfDead(std::uint32_t slot) {
  ArenaData *all = data.load();
  if (!all || ((all->header.masks.occupied.load() & arenaBit(slot)) == 0 &&
               all->slots[slot].active.load() == 0))
    return false;
  if (isHeld(slot))
    return false;
  if (Result<Lock> lock = tryLock(slot); !lock || *lock != Lock::Taken)
    return false;
  clear(*all, slot);
  unlock(slot);
  wakeSleepers();
  return true;
}

} // namespace tally::runtime
