// Policies that let best-effort work run beside requests, in the dispatcher.
#include "harness.h"

#include "tally/policy/partition_policy.h"
#include "tally/policy/share_policy.h"
#include "tally/policy/slo_policy.h"

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

void stepAll(Harness &harness) {
  while (harness.dispatcher->step()) {
  }
}

void finish(Harness &harness) {
  for (int i = 0; i < 1000000 && !harness.allFinished(); ++i) {
    harness.now += 1us;
    harness.dispatcher->step();
    harness.device.advance();
  }
}

/// Runs random programs under a policy, with requests that come and go.
void checkRandomly(const AnyPolicy &policy, std::uint64_t seeds, std::uint64_t &yields,
                   const ConfinedSizes &sizes = {}, std::uint64_t *confined = nullptr) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    Harness harness(seed, {Kind::Persistent, Kind::Guard, Kind::Slice, Kind::Checkpoint}, policy, 0,
                    nullptr, nullptr, 4, 65536, 25, sizes);
    Program program = Program::make(harness.random, 1 + seed % 4, 60, 5);
    harness.addStreams(program);
    std::size_t next = 0;
    bool open = false;
    for (int turn = 0; next < program.steps.size() || !harness.allFinished(); ++turn) {
      REQUIRE(turn < 3000000);
      harness.now += Nanoseconds(harness.random() % 3000);
      std::uint64_t pick = harness.random() % 200;
      if (pick < 20 && next < program.steps.size())
        REQUIRE(harness.submit(program, next++));
      else if (pick < 60)
        harness.dispatcher->step();
      else if (pick == 199) {
        if (open)
          REQUIRE(harness.high->endRequest());
        else
          REQUIRE(harness.high->beginRequest());
        open = !open;
      } else
        harness.device.advance();
    }
    if (open)
      REQUIRE(harness.high->endRequest());
    CAPTURE(seed);
    CHECK((harness.outcome() == runInOrder(program)));
    yields += harness.statistics().yields;
    if (confined)
      *confined += harness.device.confinedLaunches;
  }
}

/// Permits work while a switch is on, also during requests.
struct SwitchedPolicy {
  const bool *on;
  Decision decide(const Snapshot &) const { return {.runBestEffort = *on}; }
};

/// Permits kernels up to a duration beside requests.
struct LightPolicy {
  Nanoseconds longest;
  Decision decide(const Snapshot &now) const {
    Decision decision;
    decision.runBestEffort = true;
    if (now.highPriorityActive != 0)
      decision.longest = decision.longestNonPreemptible = longest;
    return decision;
  }
};

} // namespace

TEST_CASE("whatever a policy lets run beside requests, results are the sequential ones") {
  std::uint64_t yields = 0;
  checkRandomly(PartitionPolicy(0.5, 1), 40, yields);
  checkRandomly(LightPolicy{200us}, 40, yields);
  SloPolicy slo;
  slo.target = 3ms;
  slo.lightShare = 0.9;
  slo.least = 1us;
  slo.sharing.step = 1;
  slo.sharing.interval = 1us;
  checkRandomly(slo, 40, yields);
  checkRandomly(*std::make_unique<SharePolicy>(), 20, yields);
  CHECK(yields > 500);
}

TEST_CASE("on streams confined to a part of the SMs results are the sequential ones") {
  std::uint64_t yields = 0, confined = 0;
  checkRandomly(PartitionPolicy(0.5, 0.5), 120, yields, {1}, &confined);
  CHECK(yields > 500);
  CHECK(confined > 1000);
}

TEST_CASE("the SMs that a policy gives are those of a stream") {
  std::vector<std::uint32_t> sizes = {8, 16, 32};
  for (auto [wanted, granted] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {0, 0}, {7, 7}, {8, 8}, {15, 8}, {16, 16}, {31, 16}, {131, 32}, {132, 132}})
    CHECK(grantedSms(sizes, wanted, 132) == granted);
  CHECK(grantedSms({}, 15, 132) == 15);
}

TEST_CASE("beside a request every variant runs on a stream confined to its SMs") {
  for (std::size_t kernel : {0, 1, 3}) { // persistent, guard, slice
    CAPTURE(kernel);
    Harness harness(3, {Kind::Persistent, Kind::Guard, Kind::Slice}, PartitionPolicy(0.5, 0.5), 0,
                    nullptr, nullptr, 4, 65536, 25, {1});
    Program program = Program::launches(1, kernel, {24, 1, 1});
    harness.addStreams(program);
    REQUIRE(harness.high->beginRequest());
    REQUIRE(harness.submit(program, 0));
    stepAll(harness);
    CHECK(harness.device.confinedLaunches > 0);
    CHECK(harness.device.confinedLaunches == harness.statistics().physicalLaunches);
    CHECK(harness.statistics().confinedLaunches == harness.device.confinedLaunches);
    CHECK(harness.statistics().confinedSms == 1);
    REQUIRE(harness.high->endRequest());
    std::uint64_t beside = harness.device.confinedLaunches;
    finish(harness);
    // Without a request the rest of a launch that yielded uses all SMs.
    CHECK(harness.device.confinedLaunches == beside);
    CHECK(harness.statistics().confinedLaunches == beside);
    CHECK((harness.statistics().physicalLaunches > beside) == (kernel != 3));
    CHECK((harness.outcome() == runInOrder(program)));
  }
}

namespace {

/// Best effort gets one of the two SMs, with and without requests; short kernels may use both.
struct UnconfinedPolicy {
  Nanoseconds longest;
  Decision decide(const Snapshot &) const {
    Decision decision;
    decision.runBestEffort = true;
    decision.sms = 1;
    decision.longestUnconfined = longest;
    return decision;
  }
};

} // namespace

TEST_CASE("a kernel that cannot be confined runs on all SMs if it is short") {
  for (bool isShort : {false, true}) {
    CAPTURE(isShort);
    Harness harness(3, {Kind::Persistent, Kind::Guard, Kind::Slice},
                    UnconfinedPolicy{isShort ? anyDuration : 1us}, 0, nullptr, nullptr, 4, 65536,
                    25, {1});
    Program program = Program::launches(1, 4, {24, 1, 1}); // non-preemptible, twelve blocks an SM
    harness.addStreams(program);
    REQUIRE(harness.submit(program, 0));
    stepAll(harness);
    CHECK(harness.statistics().physicalLaunches == (isShort ? 1 : 0));
    CHECK(harness.device.confinedLaunches == 0);
    CHECK(harness.statistics().confinedSms == 0);
  }
}

TEST_CASE("on a part of the SMs batches are smaller in proportion") {
  auto sent = [](const ConfinedSizes &sizes, Dim3 grid) {
    Harness harness(12, {Kind::Guard},
                    sizes.empty() ? AnyPolicy() : AnyPolicy(UnconfinedPolicy{0us}), 0, nullptr,
                    nullptr, 4, 65536, 25, sizes);
    Program program = Program::launches(40, 1, grid);
    harness.addStreams(program);
    for (std::size_t n = 0; n < program.steps.size(); ++n)
      REQUIRE(harness.submit(program, n));
    while (harness.statistics().physicalLaunches == 0)
      harness.dispatcher->step();
    REQUIRE(harness.high->beginRequest()); // no block of these launches runs: memory is too small
    return harness.statistics().physicalLaunches;
  };
  // Ten launches of an assumed 50 us each, or four of 8,192 blocks.
  CHECK(sent({}, {24, 1, 1}) == 10);
  CHECK(sent({}, {8192, 1, 1}) == 4);
  // Half of the SMs, half of that.
  CHECK(sent({1}, {24, 1, 1}) == 5);
  CHECK(sent({1}, {8192, 1, 1}) == 2);
}

TEST_CASE("a guard whose blocks would leave slowly on a part of the SMs goes as persistent there") {
  Harness harness(3, {Kind::Persistent, Kind::Guard}, PartitionPolicy(0.5, 0.5), 0, nullptr,
                  nullptr, 4, 65536, 25, {1});
  // Four waves on two SMs, eight on one; the harness allows four.
  Program program = Program::launches(3, 0, {16, 1, 1});
  harness.addStreams(program);
  auto launched = [&](Kind kind) {
    return harness.statistics().launchesByKind[static_cast<std::size_t>(kind)];
  };
  REQUIRE(harness.submit(program, 0));
  finish(harness);
  CHECK(launched(Kind::Guard) == 1);
  REQUIRE(harness.high->beginRequest());
  REQUIRE(harness.submit(program, 1));
  finish(harness);
  CHECK(launched(Kind::Persistent) == 1);
  REQUIRE(harness.high->endRequest());
  REQUIRE(harness.submit(program, 2));
  finish(harness);
  CHECK(launched(Kind::Guard) == 2);
  CHECK(launched(Kind::Persistent) == 1);
  CHECK((harness.outcome() == runInOrder(program)));
}

TEST_CASE("beside a request a persistent launch has the partition's workers") {
  // Two SMs with two blocks each: four workers.
  Harness harness(3, {Kind::Persistent}, PartitionPolicy(0.5, 0.5));
  Program program = Program::launches(1, 0, {24, 1, 1});
  harness.addStreams(program);
  REQUIRE(harness.submit(program, 0));
  std::uint64_t grid = 0;
  harness.device.onLaunchShape = [&](const LaunchShape &shape) { grid = shape.grid.count(); };
  stepAll(harness);
  CHECK(grid == 4);
  while (harness.device.blocksRun() < 5)
    harness.device.advance();
  REQUIRE(harness.high->beginRequest());
  while (harness.device.advance()) {
  }
  stepAll(harness);
  while (harness.device.advance()) {
  }
  stepAll(harness);
  CHECK(grid == 2);
  while (harness.device.blocksRun() < 12)
    harness.device.advance();
  // The request ends: the launch is asked to leave, and runs with all workers again.
  REQUIRE(harness.high->endRequest());
  stepAll(harness);
  while (harness.device.advance()) {
  }
  stepAll(harness);
  CHECK(grid == 4);
  finish(harness);
  CHECK((harness.outcome() == runInOrder(program)));
}

TEST_CASE("what cannot be kept to a part of the SMs waits") {
  for (std::size_t kernel : {1, 3, 4}) { // guard, slice, non-preemptible
    Harness harness(3, {Kind::Persistent, Kind::Guard, Kind::Slice}, PartitionPolicy(0.5, 0.5));
    Program program = Program::launches(1, kernel, {24, 1, 1});
    harness.addStreams(program);
    REQUIRE(harness.high->beginRequest());
    REQUIRE(harness.submit(program, 0));
    stepAll(harness);
    CHECK(harness.statistics().physicalLaunches == 0);
    REQUIRE(harness.high->endRequest());
    finish(harness);
    CHECK((harness.outcome() == runInOrder(program)));
  }
  // One block occupies one SM.
  Harness harness(3, {Kind::Guard}, PartitionPolicy(0.5, 0.5));
  Program program = Program::launches(1, 1, {1, 1, 1});
  harness.addStreams(program);
  REQUIRE(harness.high->beginRequest());
  REQUIRE(harness.submit(program, 0));
  stepAll(harness);
  CHECK(harness.statistics().physicalLaunches == 1);
  REQUIRE(harness.high->endRequest());
  finish(harness);
}

TEST_CASE("what was let run beside a request is told to leave when the policy changes its mind") {
  bool on = true;
  Harness harness(4, {Kind::Guard}, SwitchedPolicy{&on});
  Program program = Program::launches(1, 1, {24, 1, 1});
  harness.addStreams(program);
  REQUIRE(harness.high->beginRequest());
  REQUIRE(harness.submit(program, 0));
  stepAll(harness);
  while (harness.device.blocksRun() < 5)
    harness.device.advance();
  on = false;
  stepAll(harness);
  while (harness.device.advance()) {
  }
  stepAll(harness);
  CHECK(harness.device.blocksRun() < 24);
  CHECK(harness.statistics().yields == 1);
  on = true;
  finish(harness); // the request is still open
  CHECK(harness.device.blocksRun() == 24);
  CHECK((harness.outcome() == runInOrder(program)));
  REQUIRE(harness.high->endRequest());
}

TEST_CASE("beside a request only kernels of a short duration go") {
  Harness harness(5, {Kind::Guard}, LightPolicy{90us});
  Program program = Program::launches(5, 1, {24, 1, 1});
  harness.addStreams(program);
  auto run = [&](std::size_t n, Nanoseconds takes) {
    REQUIRE(harness.submit(program, n));
    stepAll(harness);
    std::uint64_t before = harness.statistics().physicalLaunches;
    while (harness.device.advance()) {
    }
    harness.now += takes;
    stepAll(harness);
    return before;
  };
  REQUIRE(harness.high->beginRequest());
  CHECK(run(0, 0us) == 0); // the kernel's duration is not known yet
  REQUIRE(harness.high->endRequest());
  stepAll(harness);
  while (harness.device.advance()) {
  }
  harness.now += 50us;
  stepAll(harness);
  REQUIRE(harness.allFinished());
  REQUIRE(harness.high->beginRequest());
  CHECK(run(1, 500us) == 2);
  CHECK(harness.allFinished());
  CHECK(run(2, 0us) == 3); // the 500 us were measured beside a request
  CHECK(harness.allFinished());
  REQUIRE(harness.high->endRequest());
  stepAll(harness);
  run(3, 500us);
  CHECK(harness.allFinished());
  REQUIRE(harness.high->beginRequest());
  run(4, 0us); // it took 500 us when it last had the device alone
  CHECK(!harness.allFinished());
  REQUIRE(harness.high->endRequest());
  finish(harness);
  CHECK((harness.outcome() == runInOrder(program)));
}

TEST_CASE("clients of different weights get the device accordingly") {
  SharePolicy policy;
  policy.weights[0] = 2;
  policy.quantum = 10us;
  // In a single run the result varies by chance: 1.0 to 2.9.
  double first = 0, second = 0;
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    Harness harness(seed, {Kind::Guard}, policy);
    CHECK(*harness.dispatcher->assignLane(0) != *harness.dispatcher->assignLane(1));
    Program program = Program::launches(600, 1, {1, 1, 1});
    program.streams = 2;
    for (std::size_t n = 0; n < 600; ++n)
      program.steps[n].stream = n % 2;
    harness.addStreams(program); // client 0 on lane 0 ...
    harness.streams[0] = std::make_unique<LaneStream>(**harness.dispatcher->assignLane(0), 0);
    harness.streams[1] = std::make_unique<LaneStream>(**harness.dispatcher->assignLane(1), 1);
    for (std::size_t n = 0; n < 600; ++n)
      REQUIRE(harness.submit(program, n));
    while (harness.streams[0]->finished + harness.streams[1]->finished < 300) {
      harness.dispatcher->step();
      if (harness.device.advance())
        harness.now += 3us;
    }
    first += static_cast<double>(harness.streams[0]->finished);
    second += static_cast<double>(harness.streams[1]->finished);
    finish(harness);
    CHECK((harness.outcome() == runInOrder(program)));
  }
  CHECK(first / second > 1.5);
  CHECK(first / second < 2.5);
}
