// Events whose record is still queued.
#ifndef TALLY_LIB_HOOKS_EVENTS_H
#define TALLY_LIB_HOOKS_EVENTS_H

#include <driver_types.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace tally::hooks {

/// The tickets of queued records, by event. Thread-safe.
class Events {
public:
  void queued(cudaEvent_t event, std::uint64_t ticket) {
    std::unique_lock lock(mutex);
    tickets[event] = ticket;
    count.store(tickets.size());
  }
  /// 0 where no record was queued.
  std::uint64_t ticketOf(cudaEvent_t event) {
    if (count.load() == 0)
      return 0;
    std::unique_lock lock(mutex);
    auto found = tickets.find(event);
    return found == tickets.end() ? 0 : found->second;
  }
  void forget(cudaEvent_t event) {
    if (count.load() == 0)
      return;
    std::unique_lock lock(mutex);
    tickets.erase(event);
    count.store(tickets.size());
  }

private:
  std::atomic<std::size_t> count{0};
  std::mutex mutex;
  std::unordered_map<cudaEvent_t, std::uint64_t> tickets;
};

} // namespace tally::hooks

#endif
