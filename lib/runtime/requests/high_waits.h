// Waits after which the program knows that high-priority work is over.
#ifndef TALLY_LIB_RUNTIME_REQUESTS_HIGH_WAITS_H
#define TALLY_LIB_RUNTIME_REQUESTS_HIGH_WAITS_H

#include "arena/arena.h"

#include "tally/runtime/control_word.h"

#include <atomic>
#include <cstdint>

namespace tally::runtime {

/// Counts the waits of this process, also in its slot of the arena. Thread-safe.
class HighWaits {
public:
  /// Sets the slot; nullptr: none.
  void publishTo(ArenaSlot *slot) { published = slot; }
  /// A wait for all of a stream's calls has ended.
  void note(Nanoseconds at) {
    newest.store(at.count(), std::memory_order_relaxed);
    ended.fetch_add(1, std::memory_order_release);
    if (ArenaSlot *slot = published)
      slot->add(ArenaCounter::HighWaits);
  }
  std::uint64_t count() const { return ended.load(std::memory_order_acquire); }
  /// When the newest wait ended; read count() before it.
  Nanoseconds last() const { return Nanoseconds(newest.load(std::memory_order_relaxed)); }

private:
  std::atomic<ArenaSlot *> published{nullptr};
  std::atomic<std::uint64_t> ended{0};
  std::atomic<std::int64_t> newest{0};
};

} // namespace tally::runtime

#endif
