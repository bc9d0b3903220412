// The record of a high-priority stream: counts of its calls.
#ifndef TALLY_LIB_RUNTIME_REQUESTS_HIGH_STREAM_H
#define TALLY_LIB_RUNTIME_REQUESTS_HIGH_STREAM_H

#include "tally/runtime/device.h"

#include <atomic>
#include <cstdint>

namespace tally::runtime {

/// A stream whose calls pass through. Its owner is the first thread that launched on it. The end of
/// an owner's launch takes only a plain store, since no other thread writes that counter.
struct HighStream {
  static constexpr std::uint64_t openBit = 1, oneCall = 2, oneMade = 1u << 16;
  /// The calls at one instant.
  struct Calls {
    std::uint64_t word; ///< at that instant; changes when a call begins or ends
    bool isBeingMade;   ///< at least one call is being made
    std::uint64_t made;
  };

  StreamId id{};
  /// From bit 0: whether its implicit scope is open; 15 bits: number of calls being made, without
  /// the owner's launches; 48 bits: number of calls made plus launches that the owner has begun.
  std::atomic<std::uint64_t> word{0};
  std::atomic<const void *> owner{nullptr};           ///< a pointer that identifies the thread
  std::atomic<std::uint64_t> ownBegun{0}, ownMade{0}; ///< the owner's launches; it alone writes
  std::atomic<std::uint64_t> synchronised{0};         ///< calls made that are known to be over
  std::atomic<std::int64_t> synchronisedAt{0};        ///< when these were seen to be over, about
  std::atomic<std::uint64_t> waitedFor{0}; ///< of them, those that the program waited for
  std::atomic<std::uint32_t> waiting{0};   ///< threads that wait for the stream with their own call
  std::atomic<bool> launches{false};       ///< kernels were launched; Headroom counts the stream
  std::atomic<bool> isNamed{false};        ///< a request has named it: it needs no time to rest

  Calls calls() const;
  /// Whether all calls so far are known to be over.
  bool isOver() const {
    Calls seen = calls();
    return !seen.isBeingMade && seen.made == synchronised.load();
  }
  /// Whether the thread is the owner; it becomes the owner if there was none.
  bool isOwnedBy(const void *thread) {
    const void *known = nullptr;
    return owner.compare_exchange_strong(known, thread) || known == thread;
  }
  /// Whether its implicit scope is closed and no call is being made.
  bool isClosed() const {
    Calls seen = calls();
    return (seen.word & openBit) == 0 && !seen.isBeingMade;
  }

  // Used by the monitor; on another cache line than the counters of launches.
  alignas(64) std::uint64_t lastSeen = 0;
  std::int64_t watched = 0; ///< synchronisedAt for which the time of the next call is known
  /// Threads that ask the device about the stream. A thread counts itself in, then reads
  /// `isReleased`; release() sets `isReleased`, then waits until no thread asks.
  std::atomic<std::uint32_t> asking{0};
  std::atomic<bool> isReleased{false};
  HighStream *nextReleased = nullptr; ///< guarded by RequestScopeTracker's mutex
};

} // namespace tally::runtime

#endif
