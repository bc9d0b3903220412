// The policies' rules, on snapshots that the tests write.
#include "tally/policy/partition_policy.h"
#include "tally/policy/rate_policy.h"
#include "tally/policy/share_policy.h"
#include "tally/policy/slo_policy.h"
#include "tally/runtime/policy_text.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <utility>

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

Snapshot idleFor(std::chrono::nanoseconds time) {
  Snapshot now;
  now.now = 1s;
  now.sinceHighPriorityEnded = time;
  now.smCount = 100;
  return now;
}

Snapshot activeFor(std::chrono::nanoseconds time) {
  Snapshot now = idleFor(0ns);
  now.highPriorityActive = 1;
  now.activeFor = time;
  return now;
}

} // namespace

TEST_CASE("priority: only while nothing of high priority is active, and hysteresis later") {
  PriorityPolicy policy{.hysteresis = 50us};
  CHECK(!policy.decide(activeFor(1s)).runBestEffort);
  CHECK(!policy.decide(idleFor(49us)).runBestEffort);
  CHECK(policy.decide(idleFor(50us)).runBestEffort);
  CHECK(policy.decide(idleFor(50us)).longestNonPreemptible == anyKnownDuration);
  CHECK(policy.decide(idleFor(500us)).longestNonPreemptible == anyDuration);
  Snapshot waiting = idleFor(50us);
  waiting.heldBack = 20ms;
  CHECK(policy.decide(waiting).longestNonPreemptible == anyDuration);
}

TEST_CASE("slo: without a busy time seen it is priority") {
  SloPolicy policy;
  CHECK(!policy.decide(activeFor(1us)).runBestEffort);
  CHECK(policy.decide(idleFor(1us)).runBestEffort);
  CHECK(policy.decide(idleFor(1us)).longestNonPreemptible == anyKnownDuration);
}

namespace {

/// A policy for a target of 2 ms, and requests that do not queue.
SloPolicy generation() {
  SloPolicy policy;
  policy.target = 2ms;
  policy.queues = false;
  return policy;
}

/// A snapshot inside of a request; requests take 1 ms, and up to 1.2 ms.
Snapshot inRequest() {
  Snapshot now = activeFor(100us);
  now.busyHigh = 1200us;
  now.busyMean = 1ms;
  return now;
}

/// Shows the policy intervals with a busy time in each until its factor is 1 or 0.
void show(SloPolicy &policy, Snapshot &now) {
  for (int i = 0; i < 30; ++i) {
    now.now += policy.sharing.interval;
    ++now.busyPeriods;
    static_cast<void>(policy.decide(now));
  }
}

} // namespace

TEST_CASE("slo: light kernels go beside a request while there is slack") {
  SloPolicy policy = generation();
  Snapshot now = inRequest();
  show(policy, now);
  Decision decision = policy.decide(now); // 800 us of slack
  CHECK(decision.runBestEffort);
  CHECK(decision.longest == 200us);
  CHECK(decision.longestNonPreemptible == 200us);
  CHECK(decision.sms == allSms);
  now.activeFor = 1900us; // longer than usual: 100 us of the target are left
  CHECK(policy.decide(now).longest == 25us);
  now.activeFor = 1960us;
  CHECK(!policy.decide(now).runBestEffort);
  now.activeFor = 5ms;
  CHECK(!policy.decide(now).runBestEffort);
  now.activeFor = 0us;
  now.busyHigh = 1960us;
  CHECK(!policy.decide(now).runBestEffort);
}

TEST_CASE("slo: sharing begins slowly, and stops where the target is not kept") {
  SloPolicy policy = generation();
  Snapshot now = inRequest();
  now.busyPeriods = 1;
  CHECK(!policy.decide(now).runBestEffort);
  now.now += policy.sharing.interval;
  ++now.busyPeriods;
  CHECK(policy.decide(now).longest == 10us); // a twentieth
  show(policy, now);
  CHECK(policy.decide(now).longest == 200us);
  now.busyHigh = 2100us;
  now.now += policy.sharing.interval;
  ++now.busyPeriods;
  CHECK(!policy.decide(now).runBestEffort);
  now.busyHigh = 1200us;
  CHECK(policy.decide(now).longest == 100us); // half of it
}

TEST_CASE("slo: where requests queue, sharing shrinks with the idle part of the time") {
  for (auto [mean, longest] :
       {std::pair(5ms, 180us), std::pair(25ms, 100us), std::pair(45ms, 20us)}) {
    SloPolicy policy;
    policy.target = 46ms;
    policy.lightShare = 0.2;
    Snapshot now = activeFor(0us);
    now.busyHigh = 45ms;
    now.busyMean = mean; // one in each 50 ms
    show(policy, now);
    CHECK(std::abs((policy.decide(now).longest - longest).count()) < 2000);
  }
}

TEST_CASE(
    "slo: while idle, what cannot yield has to fit the slack, for as long as patience lasts") {
  SloPolicy policy;
  policy.target = 2ms;
  policy.patience = 20ms;
  Snapshot now = idleFor(10us);
  now.busyPeriods = 1;
  now.busyHigh = 1200us;
  Decision decision = policy.decide(now);
  CHECK(decision.runBestEffort);
  CHECK(decision.longest == anyDuration);
  CHECK(decision.longestNonPreemptible == 800us);
  now.heldBack = 20ms;
  CHECK(policy.decide(now).longestNonPreemptible == anyDuration);
}

TEST_CASE("slo: best-effort work below its floor runs beside requests until it has caught up") {
  SloPolicy policy;
  policy.target = 2ms;
  policy.floor = 0.25;
  Snapshot now = activeFor(1ms);
  now.busyPeriods = 10;
  now.busyHigh = 3ms;
  CHECK(!policy.decide(now).runBestEffort); // nothing is owed yet
  now.now += 8ms;
  Decision decision = policy.decide(now); // 2 ms are owed
  CHECK(decision.runBestEffort);
  CHECK(decision.longest == anyDuration);
  now.now += 1ms;
  now.bestEffortRan += 1ms;
  CHECK(policy.decide(now).runBestEffort);
  now.now += 2ms;
  now.bestEffortRan += 2ms;
  CHECK(!policy.decide(now).runBestEffort);
  now.now += 10s; // the policy keeps at most the debt
  CHECK(policy.decide(now).runBestEffort);
  now.now += 27ms;
  now.bestEffortRan += 27ms;
  CHECK(!policy.decide(now).runBestEffort);
}

TEST_CASE("slo: without slack it is priority") {
  SloPolicy policy;
  policy.target = 2ms;
  for (std::chrono::nanoseconds high : {1960us, 2100us, 9000us}) {
    Snapshot now = idleFor(10us);
    now.busyPeriods = 10;
    now.busyHigh = high;
    CHECK(policy.decide(now).runBestEffort);
    CHECK(policy.decide(now).longestNonPreemptible == anyKnownDuration);
    now.sinceHighPriorityEnded = 1ms;
    CHECK(policy.decide(now).longestNonPreemptible == anyDuration);
    now = activeFor(10us);
    now.busyPeriods = 10;
    now.busyHigh = high;
    CHECK(!policy.decide(now).runBestEffort);
  }
}

TEST_CASE("steering: up by steps, down by a factor, and only where a busy time was seen") {
  AdditiveControl control;
  control.least = control.value = 0.1;
  control.most = 0.3;
  control.step = 0.05;
  control.factor = 0.5;
  control.tolerance = 1.1;
  control.interval = 10ms;
  Snapshot now = idleFor(0ns);
  now.busyMean = 1ms;
  auto next = [&](std::chrono::nanoseconds mean, bool seen = true) {
    now.now += 10ms;
    now.busyPeriods += seen;
    now.busyMean = mean;
    return control.update(now);
  };
  CHECK(control.update(now) == 0.1);
  CHECK(next(1ms) == doctest::Approx(0.15));
  CHECK(next(1ms, false) == doctest::Approx(0.15));
  CHECK(next(1ms) == doctest::Approx(0.2));
  CHECK(next(1050us) == doctest::Approx(0.25));
  CHECK(next(1ms) == doctest::Approx(0.3));
  CHECK(next(1ms) == doctest::Approx(0.3));
  CHECK(next(1200us) == doctest::Approx(0.15));
  CHECK(next(1200us) == doctest::Approx(0.1));
  // The policy does not take a load that has become heavier for an overload for ever.
  double value = 0;
  for (int i = 0; i < 20; ++i)
    value = next(1200us);
  CHECK(value > 0.1);
  now.now += 9ms;
  ++now.busyPeriods;
  CHECK(control.update(now) == value); // within the interval
}

TEST_CASE("partition: a share of the SMs beside a request, all of them without") {
  PartitionPolicy policy(0.25, 0.25);
  Decision beside = policy.decide(activeFor(1us));
  CHECK(beside.runBestEffort);
  CHECK(beside.sms == 25);
  CHECK(policy.decide(idleFor(0us)).sms == allSms);
  PartitionPolicy none(0, 0);
  CHECK(!none.decide(activeFor(1us)).runBestEffort);
  CHECK(none.decide(idleFor(0us)).runBestEffort);
}

TEST_CASE("rate: best effort pays for its time, whether a request is there or not") {
  RatePolicy policy;
  policy.rate.least = policy.rate.most = policy.rate.value = 0.5;
  policy.burst = 2ms;
  Snapshot now = activeFor(1us);
  CHECK(policy.decide(now).runBestEffort);
  now.now += 1ms;
  now.bestEffortRan += 1ms; // 0.5 ms earned, 1 ms spent: 1.5 ms are left
  CHECK(policy.decide(now).runBestEffort);
  now.now += 4ms;
  now.bestEffortRan += 4ms; // 2 earned, 4 spent
  CHECK(!policy.decide(now).runBestEffort);
  now.now += 900us;
  CHECK(!policy.decide(now).runBestEffort);
  now.now += 200us;
  CHECK(policy.decide(now).runBestEffort);
  now.now += 10s; // the policy saves at most the burst
  CHECK(policy.decide(now).runBestEffort);
  now.bestEffortRan += 2ms + 1us;
  CHECK(!policy.decide(now).runBestEffort);
}

TEST_CASE("share: time in proportion to the weights") {
  SharePolicy policy;
  policy.weights[0] = 3;
  std::array<ClientProgress, 2> clients;
  Snapshot now = idleFor(1s);
  clients[0].ready = clients[1].ready = true;
  // Clients that are ready get the device for 100 us each, in turns.
  for (int i = 0; i < 40000; ++i) {
    now.clients = {clients.data(), clients.size()};
    Decision decision = policy.decide(now);
    REQUIRE(decision.clients != 0);
    std::size_t pick = i % 2;
    if ((decision.clients >> pick & 1) == 0)
      pick = 1 - pick;
    REQUIRE((decision.clients >> pick & 1) == 1);
    clients[pick].ran += 100us;
    now.now += 100us;
  }
  double ratio =
      static_cast<double>(clients[0].ran.count()) / static_cast<double>(clients[1].ran.count());
  CHECK(ratio == doctest::Approx(3).epsilon(0.01));
}

TEST_CASE("share: a client that comes back is not owed the time that it did not use") {
  SharePolicy policy;
  std::array<ClientProgress, 2> clients;
  Snapshot now = idleFor(1s);
  clients[0] = {5s, true};
  now.clients = {clients.data(), clients.size()};
  CHECK((policy.decide(now).clients & 3) == 3); // alone it may
  clients[1].ready = true;
  now.now += 1ms;
  now.clients = {clients.data(), clients.size()};
  CHECK((policy.decide(now).clients & 3) == 3);
  clients[0].ran += 2ms; // now it is ahead of the other by more than the quantum
  CHECK((policy.decide(now).clients & 3) == 2);
  // The other client is away for a moment only, and keeps its claim to the time that it is behind.
  clients[1].ready = false;
  now.now += 5ms;
  CHECK((policy.decide(now).clients & 3) == 3);
  clients[1].ready = true;
  CHECK((policy.decide(now).clients & 3) == 2);
  clients[1].ran += 2ms; // of the time that it is behind since it came, not of the 5 s
  CHECK((policy.decide(now).clients & 3) == 3);
  CHECK(!policy.decide(activeFor(1us)).runBestEffort);
}

TEST_CASE("share: nothing is kept of a number that has gone to a new client") {
  SharePolicy policy;
  std::array<ClientProgress, 2> clients;
  Snapshot now = idleFor(1s);
  auto allowed = [&] {
    now.now += 1ms;
    now.clients = {clients.data(), clients.size()};
    return policy.decide(now).clients & 3;
  };
  // Client 1 comes when the other one has had 5 s, which do not count against it.
  clients[0] = {5s, true};
  CHECK(allowed() == 3);
  clients[1].ready = true;
  CHECK(allowed() == 3);
  // That was the old client's.
  clients[0] = {0s, true, 1};
  clients[1] = {0s, true, 1};
  CHECK(allowed() == 3);
  clients[1].ran = 2ms;
  CHECK(allowed() == 1);
  clients[0].ran = 3ms;
  CHECK(allowed() == 3);
  // A new client was not there when its number was last ready, so it has no claim.
  clients[0] = {0s, true, 2};
  CHECK(allowed() == 3);
  clients[0].ran = 2ms;
  CHECK(allowed() == 2);
}

TEST_CASE("any policy keeps its state, and whether it reads clients") {
  AnyPolicy rate = RatePolicy();
  AnyPolicy copy = rate; // NOLINT(performance-unnecessary-copy-initialization)
  Snapshot now = idleFor(1s);
  CHECK(copy.decide(now).runBestEffort);
  now.bestEffortRan += 1s;
  CHECK(!copy.decide(now).runBestEffort);
  CHECK(!copy.usesClients());
  CHECK(AnyPolicy(SharePolicy()).usesClients());
}

TEST_CASE("policies as text") {
  Result<AnyPolicy> strict = policyFromText("");
  REQUIRE(strict);
  CHECK(strict->decide(idleFor(0us)).runBestEffort);
  Result<AnyPolicy> patient = policyFromText("priority:hysteresis-us=100");
  REQUIRE(patient);
  CHECK(!patient->decide(idleFor(99us)).runBestEffort);
  CHECK(patient->decide(idleFor(100us)).runBestEffort);
  Result<AnyPolicy> half = policyFromText("partition:least=0.5,most=0.5");
  REQUIRE(half);
  CHECK(half->decide(activeFor(1us)).sms == 50);
  CHECK(policyFromText("share:weights=3/1/0.5"));
  CHECK(policyFromText("slo:target-us=2000,light-share=0.1"));
  CHECK(policyFromText("rate:burst-us=1000.5"));

  auto error = [](std::string_view text) {
    Result<AnyPolicy> read = policyFromText(text);
    return read ? std::string() : read.error().message;
  };
  CHECK(error("sloth") ==
        "unknown policy 'sloth'; there are priority, slo, partition, rate, share");
  CHECK(error("slo:") == "");
  CHECK(error("slo:goal=2") == "policy 'slo' does not take 'goal=2'; it takes target-us=, factor=, "
                               "light-share=, least-us=, patience-us=, queues=, floor=, most=");
  CHECK(error("slo:target-us") ==
        "policy 'slo' does not take 'target-us'; it takes target-us=, factor=, "
        "light-share=, least-us=, patience-us=, queues=, floor=, most=");
  CHECK(error("slo:target-us=2ms") ==
        "policy 'slo': target-us=2ms is no number from 0 to 1000000000");
  CHECK(error("slo:light-share=2") == "policy 'slo': light-share=2 is no number from 0 to 1");
  CHECK(error("slo:target-us=nan") ==
        "policy 'slo': target-us=nan is no number from 0 to 1000000000");
  CHECK(error("slo:target-us=1,target-us=2") == "policy 'slo': target-us is given twice");
  CHECK(error("partition:least=0.5,most=0.2") == "policy 'partition': least=0.5 is above most=0.2");
  CHECK(error("share:weights=1/0") == "policy 'share': weights=1/0 is no number from 0.001 to "
                                      "1000, or several with '/' between them");
}
