// Events that queued operations name.
#ifndef TALLY_LIB_HOOKS_STATE_EVENTS_H
#define TALLY_LIB_HOOKS_STATE_EVENTS_H

#include "tables/cuda_api.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace tally::hooks {

/// The tickets of queued operations, by event. Thread-safe.
class Events {
public:
  struct Tickets {
    std::uint64_t record = 0; ///< 0 where none was queued
    std::uint64_t use = 0;    ///< ticket of the last record or wait; 0 where none was queued
    bool onLane = false;      ///< once the record is over, so is the recorded work
    /// Number of times that best-effort work had been asked to yield when the record was queued.
    std::uint64_t requests = 0;
  };
  /// A record was queued.
  void recorded(cudaEvent_t event, std::uint64_t ticket, bool onLane, std::uint64_t requests) {
    std::unique_lock lock(mutex);
    tickets[event] = {ticket, ticket, onLane, requests};
    count.store(tickets.size());
  }
  /// A wait for the event's current record was queued.
  void awaited(cudaEvent_t event, std::uint64_t ticket) {
    std::unique_lock lock(mutex);
    tickets[event].use = ticket;
    count.store(tickets.size());
  }
  /// The event was recorded at once, without the queue.
  void recordedNow(cudaEvent_t event) { forget(event); }
  Tickets find(cudaEvent_t event) {
    if (count.load() == 0)
      return {};
    std::unique_lock lock(mutex);
    auto found = tickets.find(event);
    return found == tickets.end() ? Tickets{} : found->second;
  }
  std::uint64_t recordOf(cudaEvent_t event) { return find(event).record; }
  std::uint64_t useOf(cudaEvent_t event) { return find(event).use; }
  void forget(cudaEvent_t event) {
    if (count.load() == 0)
      return;
    std::unique_lock lock(mutex);
    tickets.erase(event);
    count.store(tickets.size());
  }

  /// The program has destroyed an event that a queued operation names.
  void destroyLater(const CudaApi &api, cudaEvent_t event, std::uint64_t ticket) {
    std::unique_lock lock(mutex);
    destroyed.push_back({&api, event, ticket});
  }
  /// Destroys the events whose last use is over.
  template <class IsOver> void sweep(IsOver isOver) {
    std::unique_lock lock(mutex);
    std::erase_if(destroyed, [&](const Destroyed &each) {
      bool over = isOver(each.ticket);
      if (over)
        each.api->cudaEventDestroy(each.event);
      return over;
    });
  }

private:
  struct Destroyed {
    const CudaApi *api;
    cudaEvent_t event;
    std::uint64_t ticket;
  };
  std::atomic<std::size_t> count{0};
  std::mutex mutex;
  std::unordered_map<cudaEvent_t, Tickets> tickets;
  std::vector<Destroyed> destroyed;
};

} // namespace tally::hooks

#endif
