// What is counted of a high-priority stream.
#ifndef TALLY_LIB_RUNTIME_REQUESTS_HIGH_STREAM_H
#define TALLY_LIB_RUNTIME_REQUESTS_HIGH_STREAM_H

#include "tally/runtime/device.h"

#include <atomic>
#include <cstdint>

namespace tally::runtime {

/// A stream whose calls pass through. Its owner is a thread that has launched on it, the first: the
/// end of its launches takes a plain store, since nobody else makes that.
struct HighStream {
  static constexpr std::uint64_t openBit = 1, oneCall = 2, oneMade = 1u << 16;
  /// What was seen of the calls at one instant.
  struct Calls {
    std::uint64_t word; ///< then; another one where a call has begun or ended since
    bool isBeingMade;   ///< one at least
    std::uint64_t made;
  };

  StreamId id{};
  /// From bit 0: whether its implicit scope is open; 15 bits of calls being made, but the owner's;
  /// 48 bits of calls made and launches that the owner has begun.
  std::atomic<std::uint64_t> word{0};
  std::atomic<const void *> owner{nullptr};           ///< whatever tells threads apart
  std::atomic<std::uint64_t> ownBegun{0}, ownMade{0}; ///< its launches; written by it alone
  std::atomic<std::uint64_t> synchronised{0};         ///< calls made that are known to be over
  std::atomic<std::int64_t> synchronisedAt{0};        ///< since when, about
  std::atomic<std::uint32_t> waiting{0}; ///< threads that wait for it by a call of their own
  std::atomic<bool> launches{false};     ///< kernels: Headroom knows
  std::atomic<bool> isNamed{false};      ///< by a request: no time to rest

  Calls calls() const;
  /// Whether all calls so far are known to be over.
  bool isOver() const {
    Calls seen = calls();
    return !seen.isBeingMade && seen.made == synchronised.load();
  }
  /// Whether the thread is the owner, from now on where there was none.
  bool isOwnedBy(const void *thread) {
    const void *known = nullptr;
    return owner.compare_exchange_strong(known, thread) || known == thread;
  }
  /// Whether nothing of it is counted, as far as the monitor has seen.
  bool isClosed() const {
    Calls seen = calls();
    return (seen.word & openBit) == 0 && !seen.isBeingMade;
  }

  // The monitor's own, apart from what launches count in.
  alignas(64) std::uint64_t lastSeen = 0;
  std::int64_t watched = 0; ///< synchronisedAt of which it is known when the next call came
  /// Who asks the device about the stream counts itself in, then looks at `isReleased`; who
  /// releases it sets that, then waits until nobody asks.
  std::atomic<std::uint32_t> asking{0};
  std::atomic<bool> isReleased{false};
  HighStream *nextReleased = nullptr; ///< guarded by RequestScopeTracker's mutex
};

} // namespace tally::runtime

#endif
