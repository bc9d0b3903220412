// The requests that the program has open (tally/request.h): a table of records that are used again,
// without a lock and without allocation once there are enough.
//
// A record's state says whose it is: nobody's, open, or held by a thread that changes or ends it.
// Its generation grows with each request, so that a number of one that has ended finds nothing,
// whoever has the record by then.
#ifndef TALLY_LIB_HOOKS_STATE_REQUESTS_H
#define TALLY_LIB_HOOKS_STATE_REQUESTS_H

#include "state/streams.h"

#include "tally/runtime/control_word.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace tally::hooks {

class Activity;

/// Thread-safe. Records are never freed before the table is.
class Requests {
public:
  static constexpr std::uint32_t mostOpen = 65536;

  struct Record {
    runtime::Nanoseconds begun{0};
    runtime::Nanoseconds deadline{0}; ///< from the begin; 0: none
    std::uint64_t range = 0;          ///< a profiler's, or 0
    std::uint32_t name = 0;           ///< the trace's, where there is one
    Activity *countedBy = nullptr;    ///< where best-effort work stands aside for it, if anywhere
    std::vector<StreamState *> streams;
    /// The thread that began it or was the last to give it a stream: what that waits for must not
    /// stand aside.
    std::atomic<const void *> thread{nullptr};

  private:
    friend class Requests;
    std::atomic<std::uint64_t> state{0};
    std::atomic<std::uint32_t> next{0}; ///< in the list of free ones: a number, or 0
    std::uint32_t number = 0;           ///< of the record, from 1
  };

  /// A record to fill in and to open(); nullptr where `mostOpen` are in use.
  Record *take();
  /// Returns the request's number. From here on others may hold() it.
  std::uint64_t open(Record &record);
  /// The open request of that number, for this thread alone until letGo() or close(); nullptr where
  /// there is none. Waits for who holds it, no longer than an end takes.
  Record *hold(std::uint64_t request);
  void letGo(Record &record);
  /// The request is over, and its record free.
  void close(Record &record);

  /// Holds each open request in turn, and calls `each(record)`.
  template <class Each> void forEach(const Each &each) {
    std::uint32_t count = made.load();
    for (std::uint32_t number = 1; number <= count; ++number)
      if (Record *record = holdNumber(number)) {
        each(*record);
        letGo(*record);
      }
  }
  bool any() const { return openNow.load() != 0; }
  /// Whether the thread is an open request's.
  bool isAnyOf(const void *thread) const;

private:
  enum Phase : std::uint64_t { Free, Open, Held };
  static constexpr std::uint64_t phases = 3, oneGeneration = 4;
  static constexpr std::uint32_t chunkSize = 256, numberBits = 20;

  Record &at(std::uint32_t number) const {
    return chunks[(number - 1) / chunkSize].load(
        std::memory_order_acquire)[(number - 1) % chunkSize];
  }
  bool grow();
  void giveBack(std::uint32_t number);
  Record *holdNumber(std::uint32_t number);

  /// The first free record's number; above it a count, so that a head that came back is another.
  alignas(64) std::atomic<std::uint64_t> head{0};
  std::atomic<std::uint32_t> openNow{0};
  std::atomic<std::uint32_t> made{0};
  std::mutex growing;
  std::array<std::atomic<Record *>, mostOpen / chunkSize> chunks{};
  std::array<std::unique_ptr<Record[]>, mostOpen / chunkSize> owned; ///< guarded by `growing`
};

} // namespace tally::hooks

#endif
