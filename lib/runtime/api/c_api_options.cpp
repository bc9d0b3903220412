// Converts the C interface's options and policies to those of runtime.h.
#include "api/c_api_values.h"
#include "api/environment.h"

#include "tally/runtime/policy_text.h"

#include <chrono>
#include <vector>

namespace tally::runtime::c_api {

using std::chrono::nanoseconds;

namespace {

Result<AnyPolicy> policyOf(const tally_options &given) {
  if (given.policy && given.custom_policy)
    return Error{"policy and custom_policy are both set; there is one policy"};
  if ((given.policy || given.custom_policy) && given.hysteresis_nanoseconds != 0)
    return Error{"hysteresis_nanoseconds is priority's: with " +
                 (given.policy ? "`policy`, which is '" + std::string(given.policy) + "'"
                               : std::string("`custom_policy`")) +
                 ", it says so itself"};
  if (given.policy)
    return policyFromText(given.policy);
  if (given.custom_policy) {
    tally_policy table = *fromCaller(*given.custom_policy); // tally_open() has checked its size
    if (!table.decide)
      return Error{"custom_policy: decide is NULL"};
    return policyFrom(table);
  }
  PriorityPolicy priority;
  priority.hysteresis = nanoseconds(given.hysteresis_nanoseconds);
  return AnyPolicy(priority);
}

std::uint32_t flag(bool set) { return set ? 1 : 0; }

tally_policy_snapshot snapshotFor(const Snapshot &now,
                                  std::vector<tally_client_progress> &clients) {
  clients.clear();
  for (const ClientProgress &each : now.clients)
    clients.push_back({sizeof(tally_client_progress), static_cast<std::uint64_t>(each.ran.count()),
                       flag(each.ready), each.generation});
  tally_policy_snapshot seen{};
  seen.size = sizeof seen;
  seen.high_priority_active = now.highPriorityActive;
  seen.sm_count = now.smCount;
  seen.since_high_priority_ended = now.sinceHighPriorityEnded.count();
  seen.held_back = now.heldBack.count();
  seen.now = now.now.count();
  seen.active_for = now.activeFor.count();
  seen.busy_periods = now.busyPeriods;
  seen.busy_mean = now.busyMean.count();
  seen.busy_high = now.busyHigh.count();
  seen.best_effort_ran = now.bestEffortRan.count();
  seen.clients = clients.data();
  seen.client_count = clients.size();
  seen.client_size = sizeof(tally_client_progress);
  seen.least_sms = now.leastSms;
  seen.busy_last = now.busyLast.count();
  return seen;
}

} // namespace

AnyPolicy policyFrom(const tally_policy &table) {
  return {[table, clients = std::vector<tally_client_progress>()](const Snapshot &now) mutable {
            tally_policy_snapshot seen = snapshotFor(now, clients);
            Decision decision;
            tally_policy_decision said{};
            said.size = sizeof said;
            said.run_best_effort = flag(decision.runBestEffort);
            said.sms = decision.sms;
            said.longest_non_preemptible = decision.longestNonPreemptible.count();
            said.longest = decision.longest.count();
            said.clients = decision.clients;
            said.longest_unconfined = decision.longestUnconfined.count();
            table.decide(table.state, &seen, &said);
            decision.runBestEffort = said.run_best_effort != 0;
            decision.sms = said.sms;
            decision.longestNonPreemptible = nanoseconds(said.longest_non_preemptible);
            decision.longest = nanoseconds(said.longest);
            decision.clients = said.clients;
            decision.longestUnconfined = nanoseconds(said.longest_unconfined);
            return decision;
          },
          table.uses_clients != 0, table.limits_sms != 0};
}

Result<RuntimeOptions> optionsFrom(const tally_options &given) {
  RuntimeOptions options;
  if (const char *withArena = given.arena_group              ? "arena_group"
                              : given.best_effort_only != 0  ? "best_effort_only"
                              : given.best_effort_class != 0 ? "best_effort_class"
                                                             : nullptr;
      withArena && !given.arena)
    return Error{std::string(withArena) + " means nothing without `arena`"};
  if (given.device)
    options.device = given.device;
  options.sharing = static_cast<Sharing>(given.sharing);
  Result<AnyPolicy> policy = policyOf(given);
  if (!policy)
    return policy.error();
  options.policy = *policy;
  if (given.bound_nanoseconds != 0)
    options.bound = nanoseconds(given.bound_nanoseconds);
  if (given.kinds) {
    std::optional<std::vector<Kind>> kinds = kindsFromText(given.kinds);
    if (!kinds)
      return Error{"kinds is '" + std::string(given.kinds) + "'; allowed are " +
                   std::string(allowedIn("TALLY_KINDS"))};
    options.kinds = std::move(*kinds);
  }
  options.smsOfNonPreemptible = given.sms_of_non_preemptible;
  if (given.pause_reserve_percent != 0)
    options.pauseReserve = given.pause_reserve_percent;
  if (given.pause_deadline_nanoseconds != 0)
    options.pauseDeadline = nanoseconds(given.pause_deadline_nanoseconds);
  if (given.profiling > static_cast<std::uint32_t>(Profiling::On))
    return Error{"profiling is " + std::to_string(given.profiling) + "; there are 0 off, 1 on"};
  options.profiling = static_cast<Profiling>(given.profiling);
  if (given.profile_path)
    options.profilePath = given.profile_path;
  if (given.emulator_sms != 0)
    options.emulator.smCount = given.emulator_sms;
  if (given.emulator_resident_per_sm != 0)
    options.emulator.residentBlocksPerSm = given.emulator_resident_per_sm;
  if (given.emulator_uuid)
    options.emulator.uuid = given.emulator_uuid;
  if (given.arena)
    options.arena = ArenaOptions{given.arena, given.arena_group ? given.arena_group : "",
                                 given.best_effort_only != 0,
                                 given.best_effort_class != 0 ? given.best_effort_class : 1};
  if (given.trace)
    options.trace = given.trace;
  options.drainOnTermination = std::chrono::milliseconds(given.drain_milliseconds);
  if (given.trace_events != 0)
    options.traceEvents = given.trace_events;
  return options;
}

} // namespace tally::runtime::c_api
