#include "arena/arena.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tally::runtime {

namespace {

// Registry of the process's arenas, for the fork handlers. Never destroyed: exit() may come before
// the last arena is destroyed.
std::mutex &registryMutex() {
  static auto *mutex = new std::mutex;
  return *mutex;
}
std::vector<Arena *> &registry() {
  static auto *arenas = new std::vector<Arena *>;
  return *arenas;
}

} // namespace

// ---- Fork

int Arena::registerForkHandlers() {
  static const int code = pthread_atfork(prepareFork, afterForkInParent, afterForkInChild);
  return code;
}

void Arena::prepareFork() { registryMutex().lock(); }
void Arena::afterForkInParent() { registryMutex().unlock(); }
void Arena::afterForkInChild() {
  for (Arena *arena : registry()) {
    arena->data = nullptr;
    for (std::atomic<ArenaSlot *> &slot : arena->slots)
      if (ArenaSlot *held = slot.load())
        held->shared = nullptr;
    close(arena->file.exchange(-1));
  }
  registry().clear();
  registryMutex().unlock();
}

// ---- Opening

Result<std::shared_ptr<Arena>> Arena::open(const ArenaPlace &place) {
  std::shared_ptr<Arena> arena(new Arena(place));
  // Register the fork handlers before there is a lock that a child could keep.
  if (int code = registerForkHandlers(); code != 0)
    return arenaFailure(place.path, "cannot be kept from children", code);
  std::unique_lock lock(registryMutex());
  Result<int> file = openArenaFile(place);
  if (!file)
    return file.error();
  arena->file = *file;
  void *mapped = mmap(nullptr, sizeof(ArenaData), PROT_READ | PROT_WRITE, MAP_SHARED, *file, 0);
  if (mapped == MAP_FAILED) {
    Error error = arenaFailure(place.path, "cannot be mapped", errno);
    close(arena->file.exchange(-1));
    return error;
  }
  arena->data = static_cast<ArenaData *>(mapped);
  registry().push_back(arena.get());
  // A child's copy of the mapping would keep the file description open, and with it the locks.
  int refused = madvise(mapped, sizeof(ArenaData), MADV_DONTFORK);
  int code = errno;
  lock.unlock(); // ~Arena() takes it
  if (refused != 0)
    return arenaFailure(place.path, "cannot be kept from children", code);
  return arena;
}

Arena::~Arena() {
  std::unique_lock lock(registryMutex());
  std::erase(registry(), this);
  if (ArenaData *mapped = data.exchange(nullptr))
    munmap(mapped, sizeof(ArenaData));
  if (int number = file.exchange(-1); number >= 0)
    close(number);
}

// ---- Queries of slots

std::uint64_t Arena::higherActive(std::uint32_t slotClass) const {
  const ArenaData *all = data.load(std::memory_order_relaxed);
  if (!all)
    return 0;
  std::uint64_t active = 0;
  std::uint64_t left = all->header.masks.occupied.load() & ~own.load(std::memory_order_relaxed);
  for (; left != 0; left &= left - 1) {
    const ArenaSlotData &slot = all->slots[static_cast<std::size_t>(std::countr_zero(left))];
    // The claim, then the class: reset() writes them in that order.
    if (slot.active.load() != 0 && slot.slotClass.load() < slotClass)
      active |= left & -left;
  }
  return active;
}

bool Arena::lowerPresent(std::uint32_t slotClass) const {
  const ArenaData *all = data.load(std::memory_order_relaxed);
  if (!all)
    return false;
  std::uint64_t left = all->header.masks.bestEffort.load() & ~own.load(std::memory_order_relaxed);
  for (; left != 0; left &= left - 1)
    if (all->slots[static_cast<std::size_t>(std::countr_zero(left))].slotClass.load() > slotClass)
      return true;
  return false;
}

bool Arena::bestEffortPresent() const {
  const ArenaData *all = data.load(std::memory_order_relaxed);
  return all && (all->header.masks.bestEffort.load() & ~own.load(std::memory_order_relaxed)) != 0;
}

std::uint64_t Arena::highWaits() const {
  const ArenaData *all = data.load(std::memory_order_relaxed);
  if (!all)
    return 0;
  std::uint64_t sum = 0;
  std::uint64_t left = all->header.masks.occupied.load() & ~all->header.masks.bestEffort.load() &
                       ~own.load(std::memory_order_relaxed);
  for (; left != 0; left &= left - 1)
    sum += all->slots[static_cast<std::size_t>(std::countr_zero(left))]
               .statistics[static_cast<std::size_t>(ArenaCounter::HighWaits)]
               .load(std::memory_order_relaxed);
  return sum;
}

bool Arena::areOfClass(const ArenaData &data, std::uint64_t slots, std::uint32_t slotClass) {
  for (; slots != 0; slots &= slots - 1)
    if (data.slots[static_cast<std::size_t>(std::countr_zero(slots))].slotClass.load() != slotClass)
      return false;
  return true;
}

void Arena::clearDeadBut(std::uint32_t slotClass) {
  const ArenaData *all = data.load();
  std::uint64_t left = all ? all->header.masks.occupied.load() & ~own.load() : 0;
  for (; left != 0; left &= left - 1) {
    auto slot = static_cast<std::uint32_t>(std::countr_zero(left));
    if (all->slots[slot].slotClass.load() != slotClass)
      clearIfDead(slot);
  }
}

void Arena::clearDeadBestEffort() {
  const ArenaData *all = data.load();
  for (std::uint64_t left = all ? all->header.masks.bestEffort.load() : 0; left != 0;
       left &= left - 1)
    clearIfDead(static_cast<std::uint32_t>(std::countr_zero(left)));
}

std::vector<ArenaSlotView> Arena::view() const {
  std::vector<ArenaSlotView> views;
  const ArenaData *all = data.load();
  for (std::uint32_t i = 0; all && i < arenaSlots; ++i) {
    ArenaSlotView shown = viewOf(all->slots[i], i, isHeld(i));
    if (shown.isHeld || shown.active != 0 || (all->header.masks.occupied.load() & arenaBit(i)) != 0)
      views.push_back(std::move(shown));
  }
  return views;
}

ArenaSlotView viewOf(const ArenaSlotData &slot, std::uint32_t index, bool isHeld) {
  ArenaSlotView shown;
  shown.index = index;
  shown.isHeld = isHeld;
  shown.active = slot.active;
  shown.slotClass = slot.slotClass;
  shown.pid = slot.pid;
  shown.generation = slot.generation;
  shown.changedAt = Nanoseconds(static_cast<std::int64_t>(slot.changedAt.load()));
  std::array<std::uint64_t, 4> letters{};
  for (std::size_t n = 0; n < letters.size(); ++n)
    letters[n] = slot.name[n];
  const char *text = reinterpret_cast<const char *>(letters.data());
  shown.name.assign(text, strnlen(text, sizeof letters));
  for (std::size_t n = 0; n < shown.statistics.size(); ++n)
    shown.statistics[n] = slot.statistics[n].load(std::memory_order_relaxed);
  return shown;
}

void Arena::wakeSleepers() {
  ArenaData *all = data.load(std::memory_order_relaxed);
  if (!all)
    return;
  ArenaSleepers &sleepers = all->header.sleepers;
  std::uint64_t slept = sleepers.slept.load();
  if (slept == sleepers.woken.load())
    return;
  int before = errno;
  sleepers.sequence.fetch_add(1);
  // Not FUTEX_PRIVATE_FLAG: the sleepers are other processes.
  syscall(SYS_futex, &sleepers.sequence, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  sleepers.woken = slept;
  errno = before;
}

void Arena::wakeOthers() {
  ArenaData *all = data.load(std::memory_order_relaxed);
  if (!all)
    return;
  std::uint64_t slept = all->header.sleepers.slept.load();
  // Read the tickets first: a sleeper that takes a ticket later looks after the change.
  if (slept != ownTicket.load() || all->header.sleepers.woken.load() + 1 < slept)
    wakeSleepers();
}

void Arena::waitFor(std::uint32_t sequence, Nanoseconds limit) {
  constexpr std::int64_t second = 1'000'000'000;
  timespec time{limit.count() / second, limit.count() % second};
  // Woken, timed out, sequence changed before, interrupted: in each case the caller looks again.
  syscall(SYS_futex, &data.load()->header.sleepers.sequence, FUTEX_WAIT, sequence, &time, nullptr,
          0);
}

// ---- ArenaSlot

void ArenaSlot::fetchForRaise() const {
  const ArenaSlotData *mine = shared.load(std::memory_order_relaxed);
  if (!mine)
    return;
  __builtin_prefetch(&mine->active, 1);
  __builtin_prefetch(&mine->statistics[static_cast<std::size_t>(ArenaCounter::Activations)], 1);
  arena->fetchSleepers();
}

void ArenaSlot::raise(std::optional<Nanoseconds> at) {
  ArenaSlotData *mine = shared.load(std::memory_order_relaxed);
  if (!mine || mine->active.fetch_add(1) != 0)
    return;
  arena->wakeOthers();
  mine->changedAt.store(at ? static_cast<std::uint64_t>(at->count()) : arenaNow(),
                        std::memory_order_relaxed);
  add(ArenaCounter::Activations);
}

void ArenaSlot::withdraw(std::optional<Nanoseconds> at) {
  ArenaSlotData *mine = shared.load(std::memory_order_relaxed);
  if (!mine || mine->active.fetch_sub(1) != 1)
    return;
  arena->wakeOthers();
  std::uint64_t now = at ? static_cast<std::uint64_t>(at->count()) : arenaNow();
  std::uint64_t came = mine->changedAt.exchange(now, std::memory_order_relaxed);
  // A raise() that is under way on another thread may have stored a later time.
  add(ArenaCounter::ActiveNanoseconds, came < now ? now - came : 0);
}

void ArenaSlot::change(ArenaCounter counter, std::uint64_t value, bool absolute) {
  ArenaSlotData *mine = shared.load(std::memory_order_relaxed);
  if (!mine)
    return;
  std::atomic<std::uint64_t> &counted = mine->statistics[static_cast<std::size_t>(counter)];
  if (absolute)
    counted.store(value, std::memory_order_relaxed);
  else
    counted.fetch_add(value, std::memory_order_relaxed);
}

void ArenaSlot::addTo(ArenaCounter histogram, std::uint32_t bucket, ArenaCounter sum,
                      Nanoseconds took) {
  add(static_cast<ArenaCounter>(static_cast<std::uint32_t>(histogram) + bucket));
  add(sum, static_cast<std::uint64_t>(took.count()));
}

void ArenaSlot::release() {
  if (!shared.exchange(nullptr))
    return;
  int before = errno;
  arena->giveBack(place);
  errno = before;
}

} // namespace tally::runtime
