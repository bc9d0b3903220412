#include "tally/runtime/arena_status.h"

#include "arena/arena.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace tally::runtime {

namespace {

/// An arena, mapped to be read.
class ReadArena {
public:
  static Result<ReadArena> open(const std::string &path) {
    Result<int> file = openArenaFileToRead(path);
    if (!file)
      return file.error();
    void *mapped = mmap(nullptr, sizeof(ArenaData), PROT_READ, MAP_SHARED, *file, 0);
    int code = errno;
    if (mapped != MAP_FAILED)
      return ReadArena(*file, static_cast<const ArenaData *>(mapped));
    close(*file);
    return arenaFailure(path, "cannot be mapped", code);
  }
  ReadArena(ReadArena &&other) noexcept
      : file(std::exchange(other.file, -1)), data(std::exchange(other.data, nullptr)) {}
  ReadArena &operator=(ReadArena &&) = delete;
  ~ReadArena() {
    if (!data)
      return;
    munmap(const_cast<ArenaData *>(data), sizeof(ArenaData));
    close(file);
  }

  const ArenaData &contents() const { return *data; }
  bool isHeld(std::uint32_t slot) const { return isArenaSlotHeld(file, slot); }

private:
  ReadArena(int file, const ArenaData *data) : file(file), data(data) {}
  int file;
  const ArenaData *data;
};

template <class Times> Times histogramAt(const ArenaSlotView &slot, ArenaCounter first) {
  Times histogram;
  std::copy_n(slot.statistics.begin() + static_cast<std::ptrdiff_t>(first), Times::buckets,
              histogram.counts.begin());
  return histogram;
}

ClientStatus statusOf(const ArenaSlotView &slot, Nanoseconds now, bool higherActive) {
  auto value = [&](ArenaCounter which) { return slot.statistics[static_cast<std::size_t>(which)]; };
  auto duration = [&](ArenaCounter which) {
    return Nanoseconds(static_cast<std::int64_t>(value(which)));
  };
  ClientStatus client;
  client.slot = slot.index;
  client.generation = slot.generation;
  client.pid = slot.pid;
  client.name = slot.name;
  std::replace_if(
      client.name.begin(), client.name.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  bool isHigh = slot.slotClass == 0;
  client.clientClass = isHigh ? Class::High : Class::BestEffort;
  client.bestEffortClass = slot.slotClass;
  bool hasWork = isHigh ? slot.active != 0 : value(ArenaCounter::HasWork) != 0;
  client.state = !hasWork                  ? ClientStatus::State::Idle
                 : isHigh || !higherActive ? ClientStatus::State::Active
                                           : ClientStatus::State::Waiting;
  client.requests = value(ArenaCounter::Requests);
  if (isHigh) { // a claim of best effort is no request
    client.openScopes = slot.active;
    client.activations = value(ArenaCounter::Activations);
    client.active = duration(ArenaCounter::ActiveNanoseconds);
    if (slot.active != 0 && now > slot.changedAt)
      client.active += now - slot.changedAt;
  }
  client.launches = value(isHigh ? ArenaCounter::HighCalls : ArenaCounter::Launches);
  client.physicalLaunches = value(ArenaCounter::PhysicalLaunches);
  client.yields = value(ArenaCounter::Yields);
  client.savedBlocks = value(ArenaCounter::SavedBlocks);
  client.confinedLaunches = value(ArenaCounter::ConfinedLaunches);
  client.confinedSms = value(ArenaCounter::ConfinedSms);
  constexpr auto firstKind = static_cast<std::size_t>(ArenaCounter::LaunchesByKind);
  for (std::size_t i = 0; i < allKinds.size(); ++i)
    client.launchesByKind[i] = slot.statistics[firstKind + i];
  client.requestsToYield = value(ArenaCounter::RequestsToYield);
  client.turnaround = histogramAt<Histogram>(slot, ArenaCounter::Turnaround);
  client.turnaroundSum = duration(ArenaCounter::TurnaroundSum);
  client.requestTime = histogramAt<RequestHistogram>(slot, ArenaCounter::RequestTime);
  client.requestSum = duration(ArenaCounter::RequestSum);
  client.missedDeadlines = value(ArenaCounter::MissedDeadlines);
  client.ownStreams = value(ArenaCounter::OwnStreams);
  client.ownBytes = value(ArenaCounter::OwnBytes);
  client.memoryUsed = value(ArenaCounter::MemoryUsed);
  client.memoryPeak = value(ArenaCounter::MemoryPeak);
  client.memoryQuota = value(ArenaCounter::MemoryQuota);
  client.memoryReserve = value(ArenaCounter::MemoryReserve);
  client.memoryRefusals = value(ArenaCounter::MemoryRefusals);
  return client;
}

} // namespace

std::string classText(const ClientStatus &client) {
  if (client.clientClass == Class::High)
    return "high";
  std::string text = "best-effort";
  return client.bestEffortClass > 1 ? text + "-" + std::to_string(client.bestEffortClass) : text;
}

Result<std::vector<std::string>> findArenas(const ArenaOptions &options) {
  Result<ArenaGlob> where = findArenaGlob(options);
  if (!where)
    return where.error();
  std::vector<std::string> found;
  if (where->folder.empty()) {
    if (!where->name.empty())
      found.push_back(where->name);
    return found;
  }
  std::error_code failed;
  for (const auto &entry : std::filesystem::directory_iterator(where->folder, failed)) {
    std::string name = entry.path().filename();
    // A maker that died leaves "<name>.new-…".
    if (name.starts_with(where->name) && name.find('.') == std::string::npos)
      found.push_back(entry.path());
  }
  if (failed)
    return Error{where->folder + ": " + failed.message()};
  std::sort(found.begin(), found.end());
  return found;
}

Result<ArenaStatus> readArenaStatus(const std::string &path) {
  Result<ReadArena> arena = ReadArena::open(path);
  if (!arena)
    return arena.error();
  const ArenaData &data = arena->contents();
  ArenaStatus status;
  status.path = path;
  const auto &uuid = data.header.identification.uuid;
  status.uuid.assign(uuid.data(), strnlen(uuid.data(), uuid.size()));
  status.takenAt = SteadyClock{}();
  std::vector<ArenaSlotView> held;
  for (std::uint32_t i = 0; i < arenaSlots; ++i)
    if (arena->isHeld(i))
      held.push_back(viewOf(data.slots[i], i, true));
  for (const ArenaSlotView &slot : held) {
    bool higherActive = std::any_of(held.begin(), held.end(), [&](const ArenaSlotView &each) {
      return each.slotClass < slot.slotClass && each.active != 0;
    });
    status.clients.push_back(statusOf(slot, status.takenAt, higherActive));
  }
  return status;
}

} // namespace tally::runtime
