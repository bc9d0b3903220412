// What lies in the file in which processes on one GPU meet: a header, then 64 slots, each a process
// (more exactly: one runtime's work of one class). Fixed for a version; all numbers are the host's.
//
//   0      identification: written before the file gets its name, never changed
//   64     who sleeps: the futex and its tickets
//   128    masks of slots, as hints
//   4096   slot 0: the claim's line, the description, statistics
//   12288  slot 1 …
//
// Whoever may open the file may write anything into it. So nothing in it is an index, a length or a
// pointer for anybody: masks have a bit per slot, and every other number is only compared, added or
// shown. Atomics are in the file as they are in memory, which their being lock-free and of the size
// of their integer makes good between processes.
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
/// The byte of the file whose lock is slot 0's; far behind the file's end, where nothing is read.
constexpr std::uint64_t arenaLockBase = std::uint64_t{1} << 32;

/// The counters of a slot, which only its owner writes. A new one takes the next free place below
/// the histograms.
enum class ArenaCounter : std::uint32_t {
  Requests,          ///< explicit requests begun
  HighCalls,         ///< launches and copies on high-priority streams; renewed a few times a second
  Launches,          ///< best-effort launches of user's kernels that were finished
  PhysicalLaunches,  ///< launches given to the device for them
  Yields,            ///< physical launches that left blocks to run
  RequestsToYield,   ///< times the process's control word was advanced
  Activations,       ///< times the claim came
  ActiveNanoseconds, ///< the time for which it was there, up to when it last went
  HasWork,           ///< best-effort work is waiting or under way: 1, else 0
  TurnaroundSum,     ///< nanoseconds, of all that the histogram counts
  RequestSum,        ///< likewise
  MemoryUsed,        ///< bytes of the device's memory that the process has allocated
  MemoryPeak,        ///< the most of them at a time
  MemoryQuota,       ///< bytes that it may; 0: no limit
  MemoryReserve,     ///< bytes of the device's that it leaves free
  MemoryRefusals,    ///< allocations that were refused for one of the two
  SavedBlocks,       ///< that physical launches left saved inside of a loop
  LaunchesByKind,    ///< of Launches through variants, a counter for each kind
  BehindKinds = LaunchesByKind + allKinds.size(),
  MissedDeadlines = BehindKinds, ///< explicit requests that ended behind their deadlines
  OwnStreams,                    ///< that best-effort lanes have on the device
  OwnBytes,                      ///< of the device's memory that they have
  BehindAll,
  Turnaround = 32,  ///< a Histogram: from a request to yield until best-effort work had left
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
  std::array<char, 40> uuid; ///< the GPU's; zeros behind it, cut where it is longer
};

struct alignas(64) ArenaSleepers {
  std::atomic<std::uint32_t> sequence; ///< the futex; changed by every wake
  std::atomic<std::uint64_t> slept;    ///< tickets taken by those about to sleep
  std::atomic<std::uint64_t> woken;    ///< the last ticket that a wake is known to have covered
};

/// Bits of slots. A bit is set and cleared by who holds the slot's lock only, and set before the
/// slot is used; after a death it stays, so each mask holds all that live and perhaps more.
struct alignas(64) ArenaMasks {
  std::atomic<std::uint64_t> occupied;
  std::atomic<std::uint64_t> bestEffort; ///< those of a class below the highest
};

struct alignas(4096) ArenaHeader {
  ArenaIdentification identification;
  ArenaSleepers sleepers;
  ArenaMasks masks;
};

struct alignas(4096) ArenaSlotData {
  // The line that watchers read.
  /// The claim: open high-priority scopes; or best-effort work of a class above others', 1.
  alignas(64) std::atomic<std::uint64_t> active;
  std::atomic<std::uint32_t> slotClass;  ///< 0 is the highest
  std::atomic<std::uint32_t> pid;        ///< in its own namespace: to be shown, no more
  std::atomic<std::uint64_t> generation; ///< grows with each owner
  std::atomic<std::uint64_t> changedAt;  ///< CLOCK_MONOTONIC, ns: when the claim came or went
  alignas(64) std::array<std::atomic<std::uint64_t>, 4> name; ///< 32 characters, zeros behind
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
