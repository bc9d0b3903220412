// The C interface for observers: snapshots of arenas.
#include "tally/report.h"

#include "api/c_api_values.h"

#include "tally/runtime/arena_status.h"

#include <span>
#include <vector>

using namespace tally;
using namespace tally::runtime;
using namespace tally::runtime::c_api;

struct tally_report {
  std::vector<ArenaStatus> arenas;
  std::string prometheus;
};

namespace {

std::uint64_t count(std::chrono::nanoseconds duration) {
  return static_cast<std::uint64_t>(duration.count());
}

template <class Counts>
tally_durations durationsOf(const Counts &histogram, std::chrono::nanoseconds sum) {
  auto quantile = [&](double fraction) {
    return count(histogram.quantile(fraction).value_or(std::chrono::nanoseconds(0)));
  };
  return {histogram.count(), count(sum), quantile(0.5), quantile(0.9), quantile(0.99)};
}

tally_client_report reportOf(const ClientStatus &client) {
  tally_client_report report = tally_default_client_report();
  client.name.copy(report.name, sizeof report.name - 1);
  report.pid = client.pid;
  report.client_class =
      client.clientClass == Class::High ? TALLY_CLASS_HIGH : TALLY_CLASS_BEST_EFFORT;
  report.best_effort_class = client.bestEffortClass;
  report.state = static_cast<tally_client_state>(client.state);
  report.slot = client.slot;
  report.generation = client.generation;
  report.open_requests = client.openScopes;
  report.requests = client.requests;
  report.activations = client.activations;
  report.active_nanoseconds = count(client.active);
  report.request_time = durationsOf(client.requestTime, client.requestSum);
  report.launches = client.launches;
  for (std::uint64_t ofKind : client.launchesByKind)
    report.variant_launches += ofKind;
  report.physical_launches = client.physicalLaunches;
  report.yields = client.yields;
  report.saved_blocks = client.savedBlocks;
  report.requests_to_yield = client.requestsToYield;
  report.turnaround = durationsOf(client.turnaround, client.turnaroundSum);
  report.memory_used = client.memoryUsed;
  report.memory_peak = client.memoryPeak;
  report.memory_quota = client.memoryQuota;
  report.memory_reserve = client.memoryReserve;
  report.memory_refusals = client.memoryRefusals;
  report.confined_launches = client.confinedLaunches;
  report.confined_sms = client.confinedSms;
  return report;
}

const ArenaStatus *arenaOf(const tally_report *report, size_t gpu) {
  return report && gpu < report->arenas.size() ? &report->arenas[gpu] : nullptr;
}

Result<std::unique_ptr<tally_report>> readReport(const ArenaOptions &where) {
  Result<std::vector<std::string>> paths = findArenas(where);
  if (!paths)
    return paths.error();
  auto report = std::make_unique<tally_report>();
  for (const std::string &path : *paths) {
    Result<ArenaStatus> arena = readArenaStatus(path);
    if (!arena)
      return arena.error();
    report->arenas.push_back(std::move(*arena));
  }
  report->prometheus = prometheusText(report->arenas);
  return report;
}

} // namespace

tally_status tally_read_report(const char *arena, const char *arena_group, tally_report **report) {
  if (!report)
    return invalid("tally_read_report");
  return give(
      [&] {
        ArenaOptions where;
        where.path = arena ? arena : "";
        where.group = arena_group ? arena_group : "";
        return readReport(where);
      },
      [&](std::unique_ptr<tally_report> made) { *report = made.release(); });
}

void tally_free_report(tally_report *report) { delete report; }

size_t tally_report_gpus(const tally_report *report) { return report ? report->arenas.size() : 0; }

const char *tally_report_uuid(const tally_report *report, size_t gpu) {
  const ArenaStatus *arena = arenaOf(report, gpu);
  return arena ? arena->uuid.c_str() : nullptr;
}

const char *tally_report_path(const tally_report *report, size_t gpu) {
  const ArenaStatus *arena = arenaOf(report, gpu);
  return arena ? arena->path.c_str() : nullptr;
}

size_t tally_report_clients(const tally_report *report, size_t gpu) {
  const ArenaStatus *arena = arenaOf(report, gpu);
  return arena ? arena->clients.size() : 0;
}

tally_status tally_report_client(const tally_report *report, size_t gpu, size_t client,
                                 tally_client_report *out) {
  const ArenaStatus *arena = arenaOf(report, gpu);
  if (!arena || client >= arena->clients.size() || !out)
    return invalid("tally_report_client");
  return toCaller(reportOf(arena->clients[client]), *out)
             ? TALLY_OK
             : invalid("tally_report_client", wrongSize);
}

const char *tally_report_prometheus(const tally_report *report) {
  return report ? report->prometheus.c_str() : "";
}
