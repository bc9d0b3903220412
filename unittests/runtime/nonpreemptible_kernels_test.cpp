// Non-preemptible kernels: the number of them that a request may have to wait for.
#include "harness.h"

#include <optional>

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

/// A harness for one-block launches of the kernel without variants. Each launch advances the clock.
struct Timed {
  explicit Timed(std::size_t launches, Nanoseconds each, PriorityPolicy policy = {})
      : program(Program::launches(launches, 4, {1, 1, 1})), harness(1, {Kind::Guard}, policy),
        each(each) {
    harness.addStreams(program);
  }
  void submit(std::size_t count) {
    for (; count > 0; --count)
      REQUIRE(harness.submit(program, next++));
  }
  /// Without the device doing anything.
  std::uint64_t sendAll() {
    while (harness.dispatcher->step()) {
    }
    return harness.statistics().physicalLaunches;
  }
  /// Runs one kernel to its end, and the operations behind it that take no time.
  void runOne() {
    std::uint64_t before = harness.device.blocksRun();
    while (harness.device.blocksRun() == before)
      REQUIRE(harness.device.advance());
    harness.now += each;
  }
  /// Makes one launch alone, from the call to its end.
  void learnOne() {
    submit(1);
    sendAll();
    runOne();
    while (harness.device.advance()) {
    }
    sendAll();
    REQUIRE(harness.allFinished());
  }
  Program program;
  Harness harness;
  Nanoseconds each;
  std::size_t next = 0;
};

} // namespace

TEST_CASE("of unknown duration: one at a time") {
  Timed timed(4, 3us);
  timed.submit(4);
  CHECK(timed.sendAll() == 1);
  CHECK(timed.sendAll() == 1);
}

TEST_CASE("short ones are sent ahead up to twice the bound, and on as they end") {
  Timed timed(20, 3us);
  timed.learnOne();
  timed.submit(19);
  // 40 us hold 13 launches of 3 us.
  CHECK(timed.sendAll() == 1 + 13);
  // A launch that is over by the clock frees its time before its marker is seen.
  timed.harness.now += 3us;
  CHECK(timed.sendAll() == 1 + 14);
}

TEST_CASE("what the host adds to a launch on an idle device is no part of what it takes") {
  Timed timed(20, 14us);
  timed.harness.device.setLaunchTurn(10us);
  timed.learnOne();
  timed.submit(19);
  CHECK(timed.sendAll() == 1 + 10); // 40 us: ten launches of 4 us
  // The duration of the launch call does not count as running time either.
  timed.harness.now += 10us;
  CHECK(timed.sendAll() == 1 + 10);
  timed.harness.now += 4us;
  CHECK(timed.sendAll() == 1 + 11);
}

TEST_CASE("of several, one may take as long as it does now and then, and not all of them") {
  Timed timed(70, 2us);
  for (int i = 0; i < 40; ++i)
    timed.learnOne();
  timed.each = 14us;
  timed.learnOne();
  timed.learnOne();
  timed.each = 2us;
  for (int i = 0; i < 10; ++i)
    timed.learnOne();
  timed.submit(14);
  // 40 us: twelve launches of 2.3 us, and 11.7 us by which one may take longer.
  CHECK(timed.sendAll() == 52 + 12);
}

TEST_CASE("longer than the bound: the next goes when the one before is about to end") {
  Timed timed(4, 250us);
  timed.learnOne();
  timed.submit(3);
  CHECK(timed.sendAll() == 2);
  timed.harness.now += 229us;
  CHECK(timed.sendAll() == 2);
  timed.harness.now += 1us; // the bound is left
  CHECK(timed.sendAll() == 3);
  CHECK(timed.sendAll() == 3);
}

TEST_CASE("one that takes longer than predicted is waited for") {
  Timed timed(3, 250us);
  timed.learnOne();
  timed.submit(2);
  CHECK(timed.sendAll() == 2);
  timed.harness.now += 251us;
  CHECK(timed.sendAll() == 2);
}

TEST_CASE("what is unknown waits for an idle time, but not for ever") {
  Timed timed(2, 3us, PriorityPolicy{.idleBeforeUnknown = 100us, .patience = 5ms});
  Harness &harness = timed.harness;
  auto request = [&] {
    REQUIRE(harness.high->beginRequest());
    REQUIRE(harness.high->endRequest());
  };
  request();
  timed.submit(1);
  harness.now += 99us;
  CHECK(timed.sendAll() == 0);
  harness.now += 1us;
  CHECK(timed.sendAll() == 1);
  timed.runOne();
  while (harness.device.advance()) {
  }
  timed.sendAll();
  // The kernel's duration is known now, so the launch needs no measurement.
  request();
  timed.submit(1);
  CHECK(timed.sendAll() == 2);
}

TEST_CASE("patience ends the wait of what is unknown") {
  Timed timed(1, 3us, PriorityPolicy{.idleBeforeUnknown = 100us, .patience = 5ms});
  Harness &harness = timed.harness;
  timed.submit(1);
  int rounds = 0;
  for (; rounds < 1000; ++rounds) {
    REQUIRE(harness.high->beginRequest());
    REQUIRE(harness.high->endRequest());
    harness.now += 50us;
    if (timed.sendAll() == 1)
      break;
  }
  CHECK(rounds == 100); // held back since the first of the requests
}

TEST_CASE("none goes behind what can yield and has not ended, but where its stream can wait") {
  bool waits = false;
  SUBCASE("it can") { waits = true; }
  SUBCASE("it cannot") {}
  Timed timed(2, 3us);
  timed.harness.device.waitsForWords = waits;
  timed.learnOne();
  timed.program.steps.push_back({Step::Type::Launch, 0, 0, 0, 1, {24, 1, 1}, 7, 0});
  timed.program.steps.push_back({Step::Type::Launch, 0, 4, 1, 0, {1, 1, 1}, 8, 0});
  timed.next = 2;
  timed.submit(2);
  CHECK(timed.sendAll() == (waits ? 3 : 2));
}

namespace {

/// Launches in turns: the kernel without variants, and a `guard` launch with that many blocks.
struct Alternating : Timed {
  explicit Alternating(std::size_t pairs, std::uint32_t blocks = 1) : Timed(1, 3us) {
    program.steps.clear();
    for (std::size_t i = 0; i < 2 * pairs; ++i) {
      Dim3 grid = i % 2 == 0 ? Dim3{1, 1, 1} : Dim3{blocks, 1, 1};
      program.steps.push_back(
          {Step::Type::Launch, 0, i % 2 == 0 ? 4u : 1u, i % 2, 1 - i % 2, grid, 7 + i, 0});
    }
    harness.device.onBlock = [this](std::optional<Kind> kind) { kinds.push_back(kind); };
  }
  ~Alternating() { harness.device.onBlock = {}; } // before `kinds` is gone
  std::vector<std::optional<Kind>> kinds;         ///< kinds of the blocks that ran
};

} // namespace

TEST_CASE("a short launch between two without a variant goes as they do") {
  Alternating timed(4);
  timed.learnOne();
  timed.learnOne();
  timed.submit(6);
  // All go at once: no non-preemptible kernel follows the last one, which is asked to yield as
  // usual.
  CHECK(timed.sendAll() == 2 + 6);
  for (int i = 0; i < 6; ++i)
    timed.runOne();
  while (timed.harness.device.advance()) {
  }
  timed.sendAll();
  REQUIRE(timed.harness.allFinished());
  const std::optional<Kind> userKernel, guard = Kind::Guard;
  CHECK(timed.kinds == std::vector{userKernel, guard, userKernel, userKernel, userKernel,
                                   userKernel, userKernel, guard});
  // The launch does not count among the launches through a variant.
  CHECK(timed.harness.statistics().launchesByKind[static_cast<std::size_t>(Kind::Guard)] == 2);
  CHECK(timed.harness.outcome().buffers == runInOrder(timed.program).buffers);
}

TEST_CASE("a launch between two without a variant stays a guard where it is long, or unknown") {
  Alternating timed(4);
  timed.harness.device.waitsForWords = false;
  timed.learnOne();
  SUBCASE("unknown") {}
  SUBCASE("long") {
    timed.each = 11us; // more than half of the bound
    timed.learnOne();
    timed.each = 3us;
    timed.learnOne();
  }
  std::size_t before = timed.next;
  timed.submit(2);
  CHECK(timed.sendAll() == before + 1);
}

TEST_CASE("random programs with short launches between those without variants are right") {
  std::uint64_t yields = 0, left = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    Harness harness(seed, {Kind::Guard},
                    PriorityPolicy{.idleBeforeUnknown = 1us, .patience = 10us});
    harness.mostStep = seed % 3 == 0 ? 300 : 60; // short enough for most launches
    harness.device.waitsForWords = seed % 2 == 0;
    Program program = Program::make(harness.random, 1 + seed % 2, 80, 2);
    std::uint64_t launches = 0, without = 0;
    for (Step &step : program.steps) {
      if (step.type != Step::Type::Launch)
        continue;
      ++launches;
      if (harness.random() % 2 == 0)
        step.kernel = 4;
      without += step.kernel == 4 ? 1 : 0;
    }
    harness.addStreams(program);
    runRandomly(harness, program, {40, 40, 400, 2, 3});
    CAPTURE(seed);
    CHECK((harness.outcome() == runInOrder(program)));
    Statistics statistics = harness.statistics();
    CHECK(statistics.bestEffortLaunches == launches);
    yields += statistics.yields;
    left += launches - without - statistics.launchesByKind[static_cast<std::size_t>(Kind::Guard)];
  }
  // Otherwise the test would prove nothing.
  CHECK(yields > 500);
  CHECK(left > 500);
}

TEST_CASE("two lanes share the bound") {
  // Outlives the lane, which still has an operation on it at the end.
  std::optional<LaneStream> other;
  Timed timed(3, 25us);
  Harness &harness = timed.harness;
  timed.learnOne();
  other.emplace(**harness.dispatcher->assignLane());
  REQUIRE(&other->lane != &harness.streams[0]->lane);
  harness.streams.push_back(nullptr);
  timed.submit(1);
  CHECK(timed.sendAll() == 2);
  Operation operation;
  operation.stream = &*other;
  operation.kernel = harness.kernels[4].get();
  operation.shape = {{1, 1, 1}, {64, 1, 1}, 0};
  MixArguments arguments{harness.memory[0][2], harness.memory[0][1], Program::words, 1};
  auto bytes = std::as_bytes(std::span(&arguments, 1));
  operation.parameters = SharedBytes(bytes);
  REQUIRE(other->lane.submit(std::move(operation)));
  CHECK(timed.sendAll() == 2); // 25 us and 25 us exceed 40 us
  harness.streams.pop_back();
}

TEST_CASE("a duration is predicted from the last ones, but for one outlier") {
  DurationEstimate estimate;
  CHECK(!estimate.known());
  estimate.add(10us);
  CHECK(estimate.mean() == 10us);
  CHECK(estimate.high() == 10us);
  estimate.add(900us); // a host that was stopped?
  CHECK(estimate.high() == 900us);
  for (int i = 0; i < 40; ++i)
    estimate.add(10us);
  CHECK(estimate.high() == 10us);
  CHECK(estimate.mean() < 11us);
  estimate.add(50us);
  CHECK(estimate.high() == 50us); // two of the measurements: a launch may take that long
  for (int i = 0; i < 64; ++i)
    estimate.add(10us);
  CHECK(estimate.high() == 10us);
  estimate.add(10min);
  estimate.add(10min);
  CHECK(estimate.high() == Nanoseconds(UINT32_MAX));
}
