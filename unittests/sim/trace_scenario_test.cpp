// Scenarios out of traces.
#include "simulation.h"
#include "trace_scenario.h"

#include <doctest/doctest.h>

using namespace tally;
using namespace tally::sim;
using namespace std::chrono_literals;

namespace {

/// 40 requests of 2 ms, one in each 5 ms; turnarounds of 50 us; kernels of 100 us between them.
launcher::ProcessTrace traced() {
  launcher::ProcessTrace trace;
  for (int i = 0; i < 40; ++i) {
    double at = 7e6 + i * 5000.0;
    trace.active.push_back({at, 2050});
    trace.turnarounds.push_back({at, 50});
    for (int k = 0; k < 25; ++k) {
      launcher::TracedWork work;
      work.start = at + 2100 + k * 110.0;
      work.duration = 100;
      work.name = k % 5 == 0 ? "product" : "step";
      work.kind = k % 5 == 0 ? "non-preemptible" : "persistent";
      trace.work.push_back(work);
    }
  }
  return trace;
}

} // namespace

TEST_CASE("requests and kernels of a trace") {
  auto scenario = scenarioOf(traced());
  REQUIRE(scenario);
  REQUIRE(scenario->requests.services.size() == 40);
  CHECK(scenario->requests.services[3] == 2ms);
  CHECK(scenario->requests.arrivals[3] == 15ms);
  CHECK(scenario->requests.load == doctest::Approx(0.4).epsilon(0.02));
  REQUIRE(scenario->training.size() == 1000);
  CHECK(scenario->training[0].name == "product");
  CHECK(!scenario->training[0].hasVariants);
  CHECK(scenario->training[1].hasVariants);
  CHECK(scenario->training[1].duration == 100us);
  CHECK(scenario->training[1].block == 10us);
  CHECK(scenario->step == 100ms);
  auto outcome = simulate(*scenario);
  REQUIRE(outcome);
  CHECK(outcome->latencies.size() >= 39);
  CHECK(outcome->bestEffortOverRest() > 0.8);
}

TEST_CASE("a trace without one of the two is an error") {
  launcher::ProcessTrace trace = traced();
  trace.work.clear();
  CHECK(scenarioOf(trace).error().message == "the trace has no best-effort work");
  trace = traced();
  trace.active.clear();
  CHECK(scenarioOf(trace).error().message == "the trace has no time with high-priority work");
}
