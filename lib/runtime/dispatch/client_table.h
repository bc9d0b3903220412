// The progress of best-effort clients, as policies see it.
#ifndef TALLY_LIB_RUNTIME_DISPATCH_CLIENT_TABLE_H
#define TALLY_LIB_RUNTIME_DISPATCH_CLIENT_TABLE_H

#include "base/stable_table.h"
#include "dispatch/lane_table.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tally::runtime {

class ClientTable {
public:
  /// Sets ClientProgress::generation of a client's number. Call it before the client has work. The
  /// generation of other numbers is 0. Thread-safe.
  void note(std::uint32_t client, std::uint32_t generation);
  /// Puts the clients' progress into the snapshot, where it is valid until the next call. For the
  /// dispatcher's thread.
  void read(const LaneTable &lanes, Snapshot &now);

private:
  std::uint32_t generationOf(std::uint32_t client) const {
    const std::atomic<std::uint32_t> *known = generations.find(client + std::uint64_t{1});
    return known ? known->load() : 0;
  }

  std::mutex mutex;                                    // held while a number is added
  StableTable<std::atomic<std::uint32_t>> generations; // generation of client n is entry n + 1
  std::vector<ClientProgress> clients;                 // the clients of the newest snapshot
};

} // namespace tally::runtime

#endif
