#include "frame.h"

#include <algorithm>

namespace tally::top {

namespace {

using runtime::ArenaStatus;
using runtime::ClientStatus;

const ArenaStatus *find(const Look &look, const std::string &path) {
  auto found = std::find_if(look.begin(), look.end(),
                            [&](const ArenaStatus &each) { return each.path == path; });
  return found == look.end() ? nullptr : &*found;
}

/// Returns the same client in an earlier look; an idle client where it was not there yet.
ClientStatus earlier(const ArenaStatus *arena, const ClientStatus &client) {
  if (arena)
    for (const ClientStatus &each : arena->clients)
      if (each.slot == client.slot && each.generation == client.generation)
        return each;
  return {};
}

ClientRow rowOf(const ClientStatus &now, const ClientStatus &before, const ClientStatus &longBefore,
                double seconds) {
  auto rate = [&](std::uint64_t ClientStatus::*counter) {
    std::uint64_t grown = now.*counter - std::min(now.*counter, before.*counter);
    return seconds > 0 ? static_cast<double>(grown) / seconds : 0;
  };
  ClientRow row;
  row.now = now;
  row.launchesPerSecond = rate(&ClientStatus::launches);
  row.yieldsPerSecond = rate(&ClientStatus::yields);
  row.requestsPerSecond = rate(&ClientStatus::requests);
  row.missedPerSecond = rate(&ClientStatus::missedDeadlines);
  double active = std::chrono::duration<double>(now.active - before.active).count();
  row.activeFraction = seconds > 0 ? std::clamp(active / seconds, 0.0, 1.0) : 0;
  row.turnaround = now.turnaround.since(longBefore.turnaround);
  row.requests = now.requestTime.since(longBefore.requestTime);
  return row;
}

} // namespace

std::vector<ArenaFrame> compare(const Look &longBefore, const Look &before, const Look &now) {
  std::vector<ArenaFrame> frames;
  for (const ArenaStatus &arena : now) {
    const ArenaStatus *last = find(before, arena.path), *first = find(longBefore, arena.path);
    ArenaFrame frame;
    frame.path = arena.path;
    frame.uuid = arena.uuid;
    if (last)
      frame.seconds = std::chrono::duration<double>(arena.takenAt - last->takenAt).count();
    for (const ClientStatus &client : arena.clients)
      frame.clients.push_back(
          rowOf(client, earlier(last, client), earlier(first, client), frame.seconds));
    frames.push_back(std::move(frame));
  }
  return frames;
}

} // namespace tally::top
