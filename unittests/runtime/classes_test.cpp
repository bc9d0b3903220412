// Classes of best-effort work within a process: higher classes stop lower ones, and no client waits
// for a held-back operation.
#include "harness.h"

#include "tally/policy/share_policy.h"

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

/// The harness with stream `i` in the class `classes[i]`; each stream has its own lane.
struct Classes : Harness {
  Classes(std::uint64_t seed, const std::vector<std::uint32_t> &classes, AnyPolicy policy = {})
      : Harness(seed, {Kind::Persistent, Kind::Guard, Kind::Slice}, std::move(policy)),
        numbers(classes) {}

  void addStreams(const Program &program) {
    Harness::addStreams(program);
    for (std::size_t i = 0; i < streams.size(); ++i) {
      auto client = static_cast<std::uint32_t>(i);
      streams[i] =
          std::make_unique<LaneStream>(**dispatcher->assignLane(client, numbers[i]), client);
    }
  }
  /// Steps the dispatcher alone until it has no more work.
  void settle() {
    while (dispatcher->step()) {
    }
  }
  /// Steps the dispatcher and the device, for that many steps of the device.
  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      settle();
      device.advance();
      now += 1us;
    }
  }
  void finish() {
    for (int i = 0; i < 200000 && !allFinished(); ++i)
      run(1);
  }

  const std::vector<std::uint32_t> numbers;
};

/// Returns a program with one launch of the first kernel on each of the streams, in that order.
Program launchesOn(const std::vector<std::size_t> &streams, Dim3 grid = {24, 1, 1}) {
  Program program;
  for (std::size_t n = 0; n < streams.size(); ++n) {
    program.streams = std::max(program.streams, streams[n] + 1);
    program.steps.push_back({Step::Type::Launch, streams[n], 0, n % 2, (n + 1) % 2, grid, n, 0});
  }
  program.hostIn.resize(streams.size());
  return program;
}

} // namespace

TEST_CASE("a higher class stops a lower one, which goes on some time behind its last work") {
  Classes h(3, {3, 1});
  Program program = launchesOn({0, 1});
  h.addStreams(program);
  REQUIRE(h.submit(program, 0));
  h.run(6);
  std::uint64_t before = h.word->currentEpoch();
  REQUIRE(h.submit(program, 1));
  h.run(1);
  CHECK(h.word->currentEpoch() == before + 1);
  while (h.streams[1]->finished == 0)
    h.run(1);
  CHECK(h.streams[0]->finished == 0);
  CHECK(h.statistics().yields == 1);
  Nanoseconds over = h.now - 1us; // when it was seen
  std::uint64_t blocks = h.device.blocksRun();
  while (h.now < over + 49us)
    h.run(1);
  CHECK(h.device.blocksRun() == blocks);
  h.finish();
  CHECK(h.allFinished());
  CHECK(h.device.blocksRun() > blocks);
  CHECK(h.word->currentEpoch() == before + 1);
  CHECK((h.outcome() == runInOrder(program)));
}

TEST_CASE("of one class nobody stops anybody, whichever it is") {
  for (std::uint32_t number : {1u, 4u}) {
    Classes h(5, {number, number});
    Program program = launchesOn({0, 1});
    h.addStreams(program);
    REQUIRE(h.submit(program, 0));
    h.run(6);
    REQUIRE(h.submit(program, 1));
    h.finish();
    CHECK(h.allFinished());
    CHECK(h.statistics().yields == 0);
  }
}

TEST_CASE("what a higher class waits for goes as if it were of that class") {
  Classes h(4, {1, 3, 4, 2});
  Program program = launchesOn({2, 1, 0, 3});
  h.addStreams(program);
  // The first stream's launch comes behind the second's, and the second's behind the third's. The
  // fourth stream's class lies between them.
  auto submit = [&](std::size_t n, std::vector<LanePosition> behind) {
    const Step &step = program.steps[n];
    Operation operation;
    operation.stream = h.streams[step.stream].get();
    operation.kernel = h.kernels[0].get();
    operation.shape = {step.grid, h.block, 0};
    MixArguments arguments{h.memory[step.stream][step.to], h.memory[step.stream][step.from],
                           Program::words, step.key};
    auto bytes = std::as_bytes(std::span(&arguments, 1));
    operation.parameters = SharedBytes(bytes);
    operation.behind = std::move(behind);
    Lane &lane = h.streams[step.stream]->lane;
    return LanePosition{&lane, *lane.submit(std::move(operation))};
  };
  LanePosition lowest = submit(0, {});
  LanePosition low = submit(1, {lowest});
  submit(2, {low});
  submit(3, {});
  SUBCASE("one after the other") {
    while (h.streams[0]->finished == 0) {
      h.run(1);
      REQUIRE(h.now < 10s);
      CHECK(h.streams[3]->finished == 0);
    }
    CHECK(h.streams[1]->finished == 1);
    CHECK(h.streams[2]->finished == 1);
  }
  SUBCASE("while high priority waits for it") {
    REQUIRE(h.high->beginRequest());
    h.run(20);
    CHECK(h.device.blocksRun() == 0);
    h.streams[1]->lane.inheritHighPriority(low.number);
    for (int i = 0; i < 2000 && h.streams[1]->finished == 0; ++i)
      h.run(1);
    CHECK(h.streams[1]->finished == 1);
    CHECK(h.streams[0]->finished == 0);
    REQUIRE(h.high->endRequest());
  }
  h.finish();
  CHECK(h.allFinished());
  CHECK((h.outcome() == runInOrder(program)));
}

TEST_CASE("an inherited class ends with what was waited for") {
  Classes h(8, {1, 3});
  Program program = launchesOn({1, 1, 0, 0});
  h.addStreams(program);
  REQUIRE(h.submit(program, 0));
  Lane &low = h.streams[1]->lane;
  Operation after;
  after.type = Operation::Type::Fill;
  after.stream = h.streams[0].get();
  after.transfer.device = h.memory[0][2];
  after.transfer.bytes = 8;
  after.behind = {{&low, 1}};
  REQUIRE(h.submit(program, 1)); // of the lower class, behind the awaited launch
  REQUIRE(h.streams[0]->lane.submit(std::move(after)));
  REQUIRE(h.submit(program, 2));
  REQUIRE(h.submit(program, 3));
  while (h.streams[0]->finished < 3) {
    h.run(1);
    REQUIRE(h.now < 10s);
  }
  CHECK(h.streams[1]->finished == 1);
  h.finish();
  CHECK(h.allFinished());
}

TEST_CASE("a client that a class holds back is not waited for by the others") {
  SharePolicy policy;
  policy.quantum = 10us;
  Classes h(7, {1, 2}, policy);
  std::vector<std::size_t> order(400); // more than a batch on each stream
  for (std::size_t n = 0; n < order.size(); ++n)
    order[n] = n % 2;
  Program program = launchesOn(order);
  h.addStreams(program);
  for (std::size_t n = 0; n < order.size(); ++n)
    REQUIRE(h.submit(program, n));
  while (h.streams[0]->finished < 200) {
    h.run(1);
    REQUIRE(h.now < 10s);
    CHECK(h.streams[1]->finished == 0);
  }
  h.finish();
  CHECK((h.outcome() == runInOrder(program)));
}

TEST_CASE("random programs of several classes come to the same under requests that come and go") {
  std::uint64_t yields = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    std::vector<std::uint32_t> classes;
    for (std::uint64_t i = 0; i < 1 + seed % 4; ++i)
      classes.push_back(1 + (seed >> i) % 4);
    Classes h(seed, classes);
    Program program = Program::make(h.random, classes.size(), 60, 5);
    h.addStreams(program);
    runRandomly(h, program, {10, 40, 100, seed % 2, 3});
    CHECK((h.outcome() == runInOrder(program)));
    yields += h.statistics().yields;
  }
  CHECK(yields > 300);
}

TEST_CASE("where a class' lanes cannot be had, who asks is told, and the others work on") {
  Classes h(9, {2});
  Program program = launchesOn({0});
  h.addStreams(program);
  h.device.mostBytes = 16;
  auto refused = h.dispatcher->lanesOf(3);
  REQUIRE(!refused);
  CHECK(!refused.error().message.empty());
  h.device.mostBytes = std::size_t{1} << 30;
  REQUIRE(h.submit(program, 0));
  h.finish();
  CHECK(h.allFinished());
  CHECK(h.dispatcher->lanesOf(3));
}
