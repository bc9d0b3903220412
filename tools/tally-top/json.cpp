#include "json.h"

#include "json_text.h"
#include "words.h"

#include <cstdio>

namespace tally::top {

namespace {

template <class Times> std::string distribution(const Times &times) {
  auto quantile = [&](double fraction) {
    auto value = times.quantile(fraction);
    return value ? number(static_cast<double>(value->count()) * 1e-3) : std::string("null");
  };
  return "{\"count\":" + std::to_string(times.count()) + ",\"p50\":" + quantile(0.5) +
         ",\"p99\":" + quantile(0.99) + "}";
}

/// Returns the counts that are not 0, by kind.
std::string byKind(const KindCounts &counts) {
  Object object;
  for (std::size_t i = 0; i < allKinds.size(); ++i)
    if (counts[i] != 0)
      object.count(std::string(name(allKinds[i])).c_str(), counts[i]);
  return object.close();
}

std::string clientText(const ClientRow &row) {
  const runtime::ClientStatus &now = row.now;
  bool isHigh = now.clientClass == runtime::Class::High;
  Object object;
  object.count("pid", now.pid)
      .add("name", quoted(now.name))
      .add("class", quoted(runtime::classText(now)))
      .add("state", quoted(stateWord(now)))
      .count("slot", now.slot)
      .count("launches", now.launches)
      .rate("launches_per_s", row.launchesPerSecond);
  if (isHigh)
    object.count("open_scopes", now.openScopes)
        .count("requests", now.requests)
        .rate("requests_per_s", row.requestsPerSecond)
        .rate("active_fraction", row.activeFraction)
        .add("request_us", distribution(row.requests))
        .count("missed_deadlines", now.missedDeadlines)
        .rate("missed_deadlines_per_s", row.missedPerSecond);
  else
    object.add("launches_by_kind", byKind(now.launchesByKind))
        .count("physical_launches", now.physicalLaunches)
        .count("saved_blocks", now.savedBlocks)
        .count("confined_launches", now.confinedLaunches)
        .count("confined_sms", now.confinedSms)
        .count("yields", now.yields)
        .rate("yields_per_s", row.yieldsPerSecond)
        .count("requests_to_yield", now.requestsToYield)
        .add("turnaround_us", distribution(row.turnaround))
        .count("own_streams", now.ownStreams)
        .count("own_memory_bytes", now.ownBytes)
        .count("memory_quota_bytes", now.memoryQuota)
        .count("memory_reserve_bytes", now.memoryReserve)
        .count("memory_refused", now.memoryRefusals);
  object.count("memory_bytes", now.memoryUsed).count("memory_peak_bytes", now.memoryPeak);
  return object.close();
}

} // namespace

std::string toJson(std::span<const ArenaFrame> frames, double time) {
  char stamp[32];
  std::snprintf(stamp, sizeof stamp, "%.3f", time);
  auto arena = [](const ArenaFrame &frame) {
    return Object()
        .add("gpu", quoted(frame.uuid))
        .add("path", quoted(frame.path))
        .rate("seconds", frame.seconds)
        .add("clients", array(frame.clients, clientText))
        .close();
  };
  return Object().add("time", stamp).add("arenas", array(frames, arena)).close() + "\n";
}

} // namespace tally::top
