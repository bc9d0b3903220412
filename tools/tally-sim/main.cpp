// tally-sim: a policy on a load, in virtual time (docs/reference/tally-sim.md).
#include "scenario_file.h"
#include "simulation.h"
#include "trace_scenario.h"

#include <llvm/Support/CommandLine.h>

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

using namespace tally;
using namespace tally::sim;

namespace {

namespace cl = llvm::cl;

cl::OptionCategory ours("Options");
cl::opt<std::string> file(cl::Positional, cl::Required, cl::desc("SCENARIO.json or TRACE.json"),
                          cl::cat(ours));
cl::opt<bool> isTrace("trace",
                      cl::desc("the file is a trace of a best-effort process (TALLY_TRACE)"),
                      cl::cat(ours));
cl::opt<double> blockUs("block-us", cl::init(10),
                        cl::desc("duration of the thread blocks of a trace's variants"),
                        cl::cat(ours));
cl::list<std::string>
    policies("policy", cl::value_desc("TEXT"),
             cl::desc("a policy as TALLY_POLICY has it; may be given several times"),
             cl::cat(ours));
cl::list<double> loads("load", cl::CommaSeparated, cl::value_desc("PART"),
                       cl::desc("load of the requests, 0 to 0.99; may be a list"), cl::cat(ours));
cl::opt<double> seconds("seconds", cl::desc("virtual time"), cl::init(0), cl::cat(ours));
cl::opt<bool> asJson("json", cl::desc("a line of JSON for each simulation"), cl::cat(ours));

std::string row(const Scenario &scenario, const Outcome &outcome) {
  constexpr double us = 1000;
  std::string policy = scenario.policy.empty() ? "priority" : scenario.policy;
  if (asJson)
    return fmt::format(R"({{"policy":"{}","load":{},"requests":{},"active":{:.4f},"p50_us":{:.1f},)"
                       R"("p99_us":{:.1f},"p99_alone_us":{:.1f},"p50_alone_us":{:.1f},)"
                       R"("best_effort":{:.4f},"yields":{},"longest_pause_us":{:.1f}}})",
                       policy, scenario.requests.load, outcome.latencies.size(), outcome.active,
                       outcome.p50() / us, outcome.p99() / us, outcome.p99Alone() / us,
                       outcome.p50Alone() / us, outcome.bestEffort(), outcome.yields,
                       static_cast<double>(outcome.longestPause.count()) / us);
  // A closed loop and given arrivals have no load to choose.
  bool isChosen = !scenario.requests.think && scenario.requests.arrivals.empty();
  std::string load = isChosen ? fmt::format("{:.2f}", scenario.requests.load) : "-";
  auto over = [](double figure, double alone) {
    return alone > 0 ? fmt::format("{:.3f}", figure / alone) : std::string("-"); // no requests
  };
  return fmt::format("{:30} {:>5} {:8} {:>7} {:>8} {:10.1f} {:8.3f} {:8.3f} {:10.3f} {:8}", policy,
                     load, outcome.latencies.size(), over(outcome.p50(), outcome.p50Alone()),
                     over(outcome.p99(), outcome.p99Alone()), outcome.p99() / us, outcome.active,
                     outcome.bestEffort(), outcome.bestEffortOverRest(), outcome.yields);
}

Result<Scenario> readTrace() {
  Result<launcher::ProcessTrace> trace = launcher::readTrace(file);
  if (!trace)
    return trace.error();
  Result<Scenario> scenario = scenarioOf(*trace, fromMicroseconds(blockUs));
  return scenario ? scenario : Error{file + ": " + scenario.error().message};
}

} // namespace

int main(int argc, char **argv) {
  cl::HideUnrelatedOptions(ours);
  cl::ParseCommandLineOptions(argc, argv, "Simulates a policy on a load, in virtual time.\n");
  Result<Scenario> scenario = isTrace ? readTrace() : readScenario(file);
  if (!scenario) {
    fmt::print(stderr, "tally-sim: error: {}\n", scenario.error().message);
    return 1;
  }
  if (seconds > 0)
    scenario->length = fromMicroseconds(seconds * 1e6);
  std::vector<std::string> texts(policies.begin(), policies.end());
  if (texts.empty())
    texts.push_back(scenario->policy);
  std::vector<double> parts(loads.begin(), loads.end());
  if (parts.empty())
    parts.push_back(scenario->requests.load);
  if (!asJson)
    fmt::print("{:30} {:>5} {:>8} {:>7} {:>8} {:>10} {:>8} {:>8} {:>10} {:>8}\n", "policy", "load",
               "requests", "P50", "P99", "P99 us", "active", "BE", "BE/(1-A)", "yields");
  for (double load : parts)
    for (const std::string &policy : texts) {
      Scenario each = *scenario;
      each.policy = policy;
      each.requests.load = load;
      Result<Outcome> outcome = simulate(each);
      if (!outcome) {
        fmt::print(stderr, "tally-sim: error: {}: {}\n", file.getValue(), outcome.error().message);
        return 1;
      }
      fmt::print("{}\n", row(each, *outcome));
    }
  return 0;
}
