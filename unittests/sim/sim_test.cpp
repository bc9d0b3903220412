// Policies on synthetic loads, in virtual time: each policy keeps its promises at 10 to 90 % load,
// under the runtime's own dispatcher.
#include "simulation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>

using namespace tally::sim;
using namespace std::chrono_literals;

namespace {

/// Requests of 1 ms beside a training of long and short kernels, one of them without variants.
Scenario mixed(double load, const std::string &policy = "") {
  Scenario scenario;
  scenario.requests.services = {1ms};
  scenario.requests.load = load;
  scenario.training = {{"long", 500us, 50us, true, 5us},
                       {"short", 20us, 0us, false, 5us},
                       {"middle", 200us, 20us, true, 5us}};
  scenario.step = 720us;
  scenario.policy = policy;
  scenario.length = 5s;
  return scenario;
}

Outcome run(const Scenario &scenario) {
  auto outcome = simulate(scenario);
  REQUIRE_MESSAGE(outcome, outcome.error().message);
  return *outcome;
}

/// Ratio of the 99th percentile to that of the server alone.
double lateness(const Outcome &outcome) { return outcome.p99() / outcome.p99Alone(); }

const double loads[] = {0.1, 0.3, 0.5, 0.7, 0.9};

} // namespace

TEST_CASE("priority: requests hardly notice the training, which gets the time that they leave") {
  for (double load : loads) {
    CAPTURE(load);
    Outcome outcome = run(mixed(load));
    CHECK(lateness(outcome) <= 1.05);
    CHECK(outcome.p50() / outcome.p50Alone() <= 1.08);
    CHECK(outcome.bestEffortOverRest() >= 0.95);
    CHECK(outcome.active == doctest::Approx(load).epsilon(0.1));
  }
}

TEST_CASE("priority: blocks of 500 us hold requests up, and none by more than two of them") {
  Scenario scenario = mixed(0.3);
  scenario.training = {{"blocks", 5ms, 500us, true, 5us}};
  scenario.step = 5ms;
  Outcome outcome = run(scenario);
  CHECK(outcome.p50() - outcome.p50Alone() > 100e3);
  for (std::size_t i = 0; i < outcome.latencies.size(); ++i)
    CHECK(outcome.latencies[i] - outcome.alone[i] < 3ms); // several requests of one busy time
  CHECK(outcome.bestEffortOverRest() >= 0.9);
}

TEST_CASE("a kernel without variants is sent when requests are absent, however long it is") {
  Scenario scenario = mixed(0.3);
  scenario.training = {{"products", 2ms, 0us, false, 5us}};
  scenario.step = 2ms;
  Outcome outcome = run(scenario);
  CHECK(lateness(outcome) > 1.2); // there is no remedy
  CHECK(outcome.bestEffortOverRest() >= 0.9);
}

TEST_CASE("slo: the target is kept, and the training gets no less than under priority") {
  for (double load : loads)
    for (double factor : {1.1, 1.25, 2.0}) {
      CAPTURE(load);
      CAPTURE(factor);
      Scenario scenario = mixed(load);
      scenario.length = 20s;
      Outcome strict = run(scenario);
      scenario.policy = "slo:factor=" + std::to_string(factor);
      Outcome outcome = run(scenario);
      CHECK(lateness(outcome) <= factor * 1.02);
      CHECK(outcome.bestEffort() >= strict.bestEffort() * 0.99);
    }
}

TEST_CASE("slo: requests that leave most of the SMs free are shared with, as far as is allowed") {
  for (double load : {0.3, 0.5, 0.7}) {
    CAPTURE(load);
    Scenario scenario = mixed(load);
    scenario.requests.services = {10ms};
    scenario.requests.fills = {0.3};
    scenario.requests.slowdown = {0.1};
    scenario.length = 30s;
    Outcome strict = run(scenario);
    scenario.policy = "slo:factor=1.15";
    Outcome tight = run(scenario);
    CHECK(lateness(tight) <= 1.15);
    CHECK(tight.bestEffort() >= strict.bestEffort() + 0.1 * load);
    scenario.policy = "slo:factor=1.25";
    Outcome loose = run(scenario);
    CHECK(lateness(loose) <= 1.25);
    CHECK(loose.bestEffort() >= tight.bestEffort());
    // Without green contexts the policy with a factor acts as strict priority.
    scenario.greenContexts = false;
    CHECK(run(scenario).bestEffort() == doctest::Approx(strict.bestEffort()).epsilon(0.01));
  }
}

TEST_CASE("slo: requests that wait for each other are told apart, in one scope or in several") {
  Scenario scenario = mixed(0.5, "slo:factor=1.25");
  scenario.requests.services = {2ms};
  scenario.requests.fills = {0.3};
  scenario.requests.slowdown = {0.1};
  scenario.length = 20s;
  Outcome merged = run(scenario);
  scenario.requests.merged = false;
  Outcome apart = run(scenario);
  CHECK(merged.bestEffort() >= 0.95 * apart.bestEffort());
  CHECK(lateness(merged) <= 1.25);
  CHECK(lateness(apart) <= 1.25);
}

TEST_CASE("slo: beside a generation whose prompts are long steps that fill the device") {
  using Times = std::pair<Nanoseconds, Nanoseconds>;
  for (auto [step, prompt] : {Times(5ms, 100ms), Times(5ms, 40ms), Times(1500us, 8ms)}) {
    // On so many SMs as would pay beside short steps, these are expected to take a tenth longer.
    bool isShort = step < 2ms;
    CAPTURE(step.count());
    CAPTURE(prompt.count());
    Scenario scenario = mixed(0);
    scenario.requests.services.assign(1000, step);
    scenario.requests.fills.assign(1000, 0.5);
    scenario.requests.slowdown.assign(1000, 0.3);
    std::minstd_rand random;
    for (int i = 0; i < 30; ++i) { // so that P99 is of prompts
      std::size_t number = random() % 1000;
      scenario.requests.services[number] = prompt;
      scenario.requests.fills[number] = 1;
      scenario.requests.slowdown[number] = 0.5;
    }
    scenario.requests.think = step / 10;
    scenario.length = 30s;
    Outcome strict = run(scenario);
    for (auto [factor, gain] : {std::pair(1.1, isShort ? 1.0 : 2.0), std::pair(1.25, 3.0)}) {
      CAPTURE(factor);
      scenario.policy = "slo:queues=0,factor=" + std::to_string(factor);
      Outcome outcome = run(scenario);
      CHECK(outcome.p50() / outcome.p50Alone() <= factor);
      CHECK(lateness(outcome) <= factor);
      CHECK(outcome.bestEffort() >= gain * strict.bestEffort());
    }
    // The target is for the steps: the prompts miss it alone.
    double target = 1.4 * static_cast<double>(step.count());
    scenario.policy = "slo:queues=0,target-us=" + std::to_string(target / 1000);
    Outcome outcome = run(scenario);
    CHECK(outcome.p50() <= target);
    CHECK(lateness(outcome) <= 1.25);
    CHECK(outcome.bestEffort() >= 2 * strict.bestEffort());
  }
}

TEST_CASE(
    "slo: the promise is kept where some requests leave SMs free and others fill the device") {
  for (int heavyOfTen : {1, 2, 5})
    for (double factor : {1.1, 1.25}) {
      CAPTURE(heavyOfTen);
      CAPTURE(factor);
      Scenario scenario = mixed(0.4);
      std::minstd_rand random;
      for (int i = 0; i < 1000; ++i) {
        bool isHeavy = random() % 10 < static_cast<unsigned>(heavyOfTen);
        scenario.requests.services.push_back(isHeavy ? 8ms : 2ms);
        scenario.requests.fills.push_back(isHeavy ? 1 : 0.3);
        scenario.requests.slowdown.push_back(isHeavy ? 0.5 : 0.1);
      }
      scenario.requests.services.erase(scenario.requests.services.begin()); // those of mixed()
      scenario.requests.fills.erase(scenario.requests.fills.begin());
      scenario.requests.slowdown.erase(scenario.requests.slowdown.begin());
      scenario.length = 40s;
      Outcome strict = run(scenario);
      scenario.policy = "slo:factor=" + std::to_string(factor);
      Outcome outcome = run(scenario);
      CHECK(lateness(outcome) <= factor * 1.02);
      CHECK(outcome.bestEffort() >= strict.bestEffort() * 0.99);
    }
}

TEST_CASE("slo: a target that the server alone misses does not starve the training") {
  for (double load : loads) {
    CAPTURE(load);
    Outcome strict = run(mixed(load));
    Outcome outcome = run(mixed(load, "slo:target-us=900"));
    CHECK(outcome.bestEffort() >= strict.bestEffort() * 0.99);
    CHECK(lateness(outcome) <= 1.05);
  }
}

TEST_CASE(
    "slo: beside a generation that leaves little time the training gets what the target allows") {
  // Training steps of 10 ms that leave half of the SMs free, each 1 ms after the previous one.
  auto generation = [](const std::string &policy, bool greenContexts = true) {
    Scenario scenario = mixed(0, policy);
    scenario.greenContexts = greenContexts;
    scenario.requests.services = {10ms};
    scenario.requests.think = 1ms;
    scenario.requests.fills = {0.5};
    scenario.requests.slowdown = {0.3};
    scenario.length = 20s;
    return run(scenario);
  };
  Outcome strict = generation("priority");
  CHECK(lateness(strict) <= 1.02);
  CHECK(strict.bestEffort() <= 0.1);
  Outcome tight = generation("slo:target-us=11000,queues=0");
  CHECK(tight.p99() <= 11e6 * 1.02);
  CHECK(tight.bestEffort() >= strict.bestEffort());
  Outcome loose = generation("slo:target-us=15000,queues=0");
  CHECK(loose.p99() <= 15e6);
  CHECK(loose.bestEffort() >= 4 * strict.bestEffort());
  Outcome factor = generation("slo:factor=1.1,queues=0");
  CHECK(lateness(factor) <= 1.1);
  CHECK(factor.bestEffort() >= 2.5 * strict.bestEffort());
  Outcome light = generation("slo:target-us=15000,queues=0", false);
  CHECK(light.p99() <= 15e6);
  CHECK(light.bestEffort() >= 4 * strict.bestEffort());
}

TEST_CASE(
    "slo: best effort gets its floor under a high load, which changes nothing under a low one") {
  Scenario busy = mixed(0.9, "slo:target-us=1100");
  busy.requests.fills = {0.5}; // the floor is a share of the time, not of the SMs
  double without = run(busy).bestEffort();
  busy.policy = "slo:target-us=1100,floor=0.3";
  CHECK(run(busy).bestEffort() >= 1.5 * without);
  Outcome idle = run(mixed(0.3, "slo:target-us=1100,floor=0.3"));
  CHECK(lateness(idle) <= 1.05);
}

TEST_CASE("partition and rate neither starve the training nor make it yield without end") {
  for (const char *policy : {"partition", "partition:least=0.3,most=0.3", "rate"})
    for (double load : loads) {
      CAPTURE(policy);
      CAPTURE(load);
      Outcome outcome = run(mixed(load, policy));
      // Sharing with requests that fill the device costs time.
      CHECK(outcome.bestEffortOverRest() >= (std::string(policy) == "rate" ? 0.65 : 0.75));
      CHECK(static_cast<double>(outcome.yields) / static_cast<double>(outcome.latencies.size()) <
            3);
    }
}

TEST_CASE("the same scenario gives the same outcome, another seed another one") {
  Outcome one = run(mixed(0.5)), other = run(mixed(0.5));
  CHECK(one.latencies == other.latencies);
  CHECK(one.steps == other.steps);
  Scenario scenario = mixed(0.5);
  scenario.requests.seed = 2;
  CHECK(run(scenario).latencies != one.latencies);
}

TEST_CASE("nobody serves: the training runs as fast as it is") {
  Outcome outcome = run(mixed(0));
  CHECK(outcome.latencies.empty());
  CHECK(outcome.bestEffort() >= 0.97);
}

TEST_CASE("what cannot be simulated is an error") {
  Scenario scenario = mixed(0.3, "slo:target-us=none");
  CHECK(!simulate(scenario));
  scenario = mixed(0.3);
  scenario.training.clear();
  CHECK(!simulate(scenario));
  scenario = mixed(0.3);
  scenario.requests.services.clear();
  CHECK(!simulate(scenario));
}
