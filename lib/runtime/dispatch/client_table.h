// What best-effort clients have had, as policies see it.
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
  /// The number has gone to a client, before that has any work: ClientProgress::generation. Of
  /// numbers that it is not called for that is 0. Thread-safe.
  void note(std::uint32_t client, std::uint32_t generation);
  /// The clients' progress into the snapshot, which is good until the next call. For the
  /// dispatcher's thread.
  void read(const LaneTable &lanes, Snapshot &now);

private:
  std::uint32_t generationOf(std::uint32_t client) const {
    const std::atomic<std::uint32_t> *known = generations.find(client + std::uint64_t{1});
    return known ? known->load() : 0;
  }

  std::mutex mutex;                                    // of adding
  StableTable<std::atomic<std::uint32_t>> generations; // of numbers, each at its own and 1
  std::vector<ClientProgress> clients;                 // of the newest snapshot
};

} // namespace tally::runtime

#endif
