// Layout of the arena's file: a header, then 64 slots, each for a process (more exactly: for one
// runtime's work of one class). Fixed for a version; numbers have the host's byte order.
//
//   0      identification: written before the file gets its name, never changed
//   64     sleepers: the futex and its tickets
//   128    masks of slots, as hints
//   4096   slot 0: the claim's line, the description, statistics
//   12288  slot 1 …
//
// Any process that may open the file may write anything into it. So no process uses a number of the
// file as an index, a length or a pointer: masks have a bit per slot, and every other number is
// only compared, added or shown. Atomics lie in the file as in memory; this works between processes
// since they are lock-free and have the size of their integer.
#ifndef TALLY_LIB_RUNTIME_ARENA_ARENA_LAYOUT_H
#define TALLY_LIB_RUNTIME_ARENA_ARENA_LAYOUT_H

#include "tally/bundle/verdict.h"
#include "tally/runtime/histogram.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tally::runtime {

constexpr std::uint64_t arenaMagic = 0x414e4552'594c4154; ///< "TALYRENA" in memory
constexpr std::uint32_t arenaVersion = 3;
constexpr std::uint32_t arenaSlots = 64;
/// Offset of the byte that slot 0's lock covers; far beyond the end of the file.
constexpr std::uint64_t arenaLockBase = std::uint64_t{1} << 32;

/// The counters of a slot; only the slot's owner writes them. A new counter takes the next free
/// place below the histograms.
enum class ArenaCounter : std::uint32_t {
  Requests,          ///< explicit requests begun
  HighCalls,         ///< launches and copies on high-priority streams; updated a few times a second
  Launches,          ///< finished best-effort launches of user's kernels
  PhysicalLaunches,  ///< launches sent to the device for Launches
  Yields,            ///< physical launches that left thread blocks to run
  RequestsToYield,   ///< times the process's control word advanced
  Activations,       ///< times the claim rose from 0
  ActiveNanoseconds, ///< time with a claim, up to when the claim last fell to 0
  HasWork,           ///< 1: best-effort work is waiting or under way; else 0
  TurnaroundSum,     ///< nanoseconds: sum of the durations in Turnaround
  RequestSum,        ///< nanoseconds: sum of the durations in RequestTime
  MemoryUsed,        ///< bytes of device memory that the process has allocated
  MemoryPeak,        ///< largest MemoryUsed
  MemoryQuota,       ///< bytes that the process may allocate; 0: no limit
  MemoryReserve,     ///< bytes of device memory that the process leaves free
  MemoryRefusals,    ///< allocations refused because of quota or reserve
  SavedBlocks,       ///< thread blocks that launches left saved inside a loop
  LaunchesByKind,    ///< Launches through variants, a counter for each kind
  BehindKinds = LaunchesByKind + allKinds.size(),
  MissedDeadlines = BehindKinds, ///< explicit requests that ended after their deadlines
  OwnStreams,                    ///< streams that best-effort lanes have on the device
  OwnBytes,                      ///< bytes of device memory that best-effort lanes have
  HighWaits,                     ///< waits after which high-priority work was known to be over
  ConfinedLaunches,              ///< physical launches on a part of the SMs
  ConfinedSms,                   ///< SMs of a lane's newest of ConfinedLaunches, the most of any
  BehindAll,
  Turnaround = 32,  ///< a Histogram: from a request to yield until best-effort work was gone
  RequestTime = 208 ///< a RequestHistogram: explicit requests, from their begin to their end
};
constexpr std::uint32_t arenaCounters = 1008;
static_assert(static_cast<std::uint32_t>(ArenaCounter::Turnaround) + Histogram::buckets ==
                  static_cast<std::uint32_t>(ArenaCounter::RequestTime) &&
              static_cast<std::uint32_t>(ArenaCounter::RequestTime) + RequestHistogram::buckets <=
                  arenaCounters &&
              ArenaCounter::BehindAll <= ArenaCounter::Turnaround);

struct alignas(64) ArenaIdentification {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t slots;
  std::uint64_t bytes;
  std::array<char, 40> uuid; ///< the GPU's UUID, zero-padded, cut where it is longer
};

struct alignas(64) ArenaSleepers {
  std::atomic<std::uint32_t> sequence; ///< the futex; changed by every wake
  std::atomic<std::uint64_t> slept; ///< number of the last ticket taken by a thread about to sleep
  std::atomic<std::uint64_t> woken; ///< the last ticket that a wake is known to have covered
};

/// Bits of slots. Only the holder of a slot's lock sets and clears its bit, and sets it before it
/// uses the slot. After a death the bit stays, so each mask has all living slots and maybe more.
struct alignas(64) ArenaMasks {
  std::atomic<std::uint64_t> occupied;
  std::atomic<std::uint64_t> bestEffort; ///< slots of a class below the highest
};

struct alignas(4096) ArenaHeader {
  ArenaIdentification identification;
  ArenaSleepers sleepers;
  ArenaMasks masks;
};

struct alignas(4096) ArenaSlotData {
  // The cache line that watchers read.
  /// The claim: the number of open high-priority scopes; in a best-effort slot 1 while it blocks
  /// lower classes.
  alignas(64) std::atomic<std::uint64_t> active;
  std::atomic<std::uint32_t> slotClass;  ///< 0 is the highest
  std::atomic<std::uint32_t> pid;        ///< in its own PID namespace; only shown
  std::atomic<std::uint64_t> generation; ///< grows with each owner
  std::atomic<std::uint64_t> changedAt;  ///< CLOCK_MONOTONIC, ns: last change to or from 0
  alignas(64) std::array<std::atomic<std::uint64_t>, 4> name; ///< 32 characters, zero-padded
  alignas(64) std::array<std::atomic<std::uint64_t>, arenaCounters> statistics;
};

struct ArenaData {
  ArenaHeader header;
  std::array<ArenaSlotData, arenaSlots> slots;
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              sizeof(std::atomic<std::uint64_t>) == 8 && sizeof(std::atomic<std::uint32_t>) == 4);
static_assert(std::is_standard_layout_v<ArenaData>);
static_assert(sizeof(ArenaHeader) == 4096 && sizeof(ArenaSlotData) == 8192);
static_assert(offsetof(ArenaHeader, sleepers) == 64 && offsetof(ArenaHeader, masks) == 128);
static_assert(offsetof(ArenaSlotData, name) == 64 && offsetof(ArenaSlotData, statistics) == 128);
static_assert(sizeof(ArenaData) == 4096 + 64 * 8192);

} // namespace tally::runtime

#endif
