// The requests that the program has open (tally/request.h): a table of records that are used again,
// without a lock, and without allocation once there are enough.
//
// A record's state says whether it is free, open, or held by a thread that changes or ends it. Its
// generation grows with each request, so the number of a request that has ended finds no record,
// even when another request uses the record.
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
    std::uint64_t range = 0;          ///< of a profiler, or 0
    std::uint32_t name = 0;           ///< the name's number in the trace, where there is one
    Activity *countedBy = nullptr;    ///< the Activity that counts the request, if any
    std::vector<StreamState *> streams;
    /// The thread that began the request or was the last to give it a stream: work that this thread
    /// waits for must not yield.
    std::atomic<const void *> thread{nullptr};

  private:
    friend class Requests;
    std::atomic<std::uint64_t> state{0};
    std::atomic<std::uint32_t> next{0}; ///< in the list of free records: a number, or 0
    std::uint32_t number = 0;           ///< of the record, from 1
  };

  /// Returns a record to fill in and to open(); nullptr where `mostOpen` are in use.
  Record *take();
  /// Returns the request's number. From now on other threads may hold() it.
  std::uint64_t open(Record &record);
  /// The open request of that number, for this thread alone until letGo() or close(); nullptr where
  /// there is none. Waits for a thread that holds it, no longer than an end takes.
  Record *hold(std::uint64_t request);
  void letGo(Record &record);
  /// Ends the request, and frees its record.
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
  /// Whether an open request belongs to the thread.
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

  /// The number of the first free record. The upper bits hold a count, so that a head which came
  /// back differs (ABA).
  alignas(64) std::atomic<std::uint64_t> head{0};
  std::atomic<std::uint32_t> openNow{0};
  std::atomic<std::uint32_t> made{0};
  std::mutex growing;
  std::array<std::atomic<Record *>, mostOpen / chunkSize> chunks{};
  std::array<std::unique_ptr<Record[]>, mostOpen / chunkSize> owned; ///< guarded by `growing`
};

} // namespace tally::hooks

#endif
