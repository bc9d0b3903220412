#include "dispatch/client_table.h"

namespace tally::runtime {

void ClientTable::note(std::uint32_t client, std::uint32_t generation) {
  std::unique_lock lock(mutex);
  while (generations.size() <= client)
    if (!generations.add(std::make_unique<std::atomic<std::uint32_t>>(0)))
      return; // the table is full; no policy steers so many clients
  generations.find(client + std::uint64_t{1})->store(generation);
}

void ClientTable::read(const LaneTable &lanes, Snapshot &now) {
  clients.assign(clients.size(), {});
  auto progressOf = [&](std::uint32_t client) -> ClientProgress & {
    if (client >= clients.size())
      clients.resize(client + 1);
    return clients[client];
  };
  for (const std::unique_ptr<Lane> &lane : lanes.all()) {
    // Clients held back by a higher class do not count as ready.
    if (lane->currentClass() <= lanes.leadingClass())
      lane->forReadyClients([&](std::uint32_t client) { progressOf(client).ready = true; });
  }
  for (std::uint32_t client = 0; client < clients.size(); ++client) {
    ClientProgress &progress = clients[client];
    progress.generation = generationOf(client);
    for (const std::unique_ptr<Lane> &lane : lanes.all())
      progress.ran += lane->times().ranOf(client, progress.generation);
  }
  now.clients = {clients.data(), clients.size()};
}

} // namespace tally::runtime
