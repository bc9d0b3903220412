// Kinds that stop inside of blocks: the launches for which the choice takes them.
#include "../support/files.h"
#include "kind_launches.h"

#include "planning/profile_store.h"

#include "tally/policy/partition_policy.h"

using namespace tally;
using namespace tally::runtime;
using namespace tally::test;
using namespace std::chrono_literals;

namespace {

DeviceInfo gpu() {
  DeviceInfo info;
  info.name = "a GPU";
  info.driverVersion = 13000;
  return info;
}

} // namespace

TEST_CASE("in the lane: what a guard drains within 8 us") {
  // Enough for 4 waves.
  const std::vector<Kind> kinds = {Kind::Persistent, Kind::Guard};
  CHECK(Launches(2, kinds, 32, {16, 1, 1}).runAll() == Blocks{{Kind::Guard, 16}});
  CHECK(Launches(2, kinds, 32, {17, 1, 1}).runAll() == Blocks{{Kind::Persistent, 17}});
  // A guard's blocks cannot be limited to some of the SMs.
  CHECK(Launches(2, kinds, 32, {16, 1, 1}, nullptr, PartitionPolicy()).runAll() ==
        Blocks{{Kind::Persistent, 16}});
}

TEST_CASE("in the lane: long blocks are stopped inside from the second launch on") {
  Launches launches(6);
  launches.eachBlock = 100us;
  CHECK(launches.run(0) == Blocks{{Kind::Persistent, 24}});
  for (std::size_t n = 1; n < 6; ++n)
    CHECK(launches.run(n) == Blocks{{Kind::Checkpoint, 24}});
  CHECK((launches.outcome() == runInOrder(launches.program)));
}

TEST_CASE("in the lane: long blocks from the first launch on, where it ran past the lane before") {
  for (Nanoseconds took : {Nanoseconds(0), Nanoseconds(60us), Nanoseconds(6ms)}) {
    Launches launches(1);
    launches.took = took;
    launches.submitBehind(std::nullopt);
    for (int i = 0; i < 100000 && !launches.allFinished(); ++i)
      launches.turn();
    Kind kind = took > 1ms ? Kind::Checkpoint : Kind::Persistent;
    CHECK(launches.blocks == Blocks{{kind, 24}});
  }
}

TEST_CASE("in the lane: what is queued together is not measured together") {
  Launches launches(12);
  launches.eachBlock = 100us;
  for (std::size_t n = 0; n < 12; ++n)
    REQUIRE(launches.submit(launches.program, n));
  for (int i = 0; i < 100000 && !launches.allFinished(); ++i)
    launches.turn();
  // The launches that were sent before the first one finished.
  CHECK(launches.blocks[Kind::Persistent] <= 2 * 24);
  CHECK(launches.blocks[Kind::Checkpoint] >= 10 * 24);
  CHECK((launches.outcome() == runInOrder(launches.program)));
  KindCounts byKind = launches.statistics().launchesByKind;
  CHECK(byKind[static_cast<std::size_t>(Kind::Checkpoint)] >= 10);
}

TEST_CASE("in the lane: what inside costs is found out though launches are sent in batches") {
  Launches launches(400, everyKind, 32, {4, 2, 1});
  launches.device.onBlock = [&](std::optional<Kind> kind) {
    ++launches.blocks[kind];
    launches.now += kind == Kind::Checkpoint ? 24us : 16us;
  };
  for (std::size_t n = 0; n < 400; ++n)
    REQUIRE(launches.submit(launches.program, n));
  for (int i = 0; i < 100000 && !launches.allFinished(); ++i)
    launches.turn();
  CHECK(launches.blocks[Kind::Checkpoint] > 0);
  CHECK(launches.blocks[Kind::Checkpoint] < 40 * 8);
  CHECK((launches.outcome() == runInOrder(launches.program)));
}

TEST_CASE("in the lane: while a launch is measured nothing is sent behind it") {
  Launches launches(8);
  for (std::size_t n = 0; n < 8; ++n)
    REQUIRE(launches.submit(launches.program, n));
  for (int i = 0; i < 10; ++i)
    launches.dispatcher->step();
  CHECK(launches.statistics().physicalLaunches == 1);
  for (int i = 0; i < 10000 && !launches.allFinished(); ++i)
    launches.turn();
  CHECK(launches.statistics().physicalLaunches == 8);
  CHECK((launches.outcome() == runInOrder(launches.program)));
}

TEST_CASE("in the lane: short blocks are not") {
  Launches launches(60);
  launches.eachBlock = 3us;
  for (std::size_t n = 0; n < 60; ++n)
    CHECK(launches.run(n) == Blocks{{Kind::Persistent, 24}});
  CHECK(launches.statistics().saveAreasRefused == 0);
}

TEST_CASE("in the lane: one wave, of which nothing could be kept back once it runs") {
  for (auto [each, later] : {std::pair(3us, Kind::Guard), {100us, Kind::Checkpoint}}) {
    Launches launches(3, everyKind, 32, {2, 2, 1});
    launches.eachBlock = each;
    CHECK(launches.run(0) == Blocks{{Kind::Checkpoint, 4}});
    CHECK(launches.run(1) == Blocks{{later, 4}});
    CHECK(launches.run(2) == Blocks{{later, 4}});
  }
  // The choice does not take checkpoint where a save takes longer than the bound: 200 MiB.
  Launches large(2, everyKind, 200u << 12, {2, 2, 1});
  large.eachBlock = 1ms;
  CHECK(large.run(0) == Blocks{{Kind::Guard, 4}});
  CHECK(large.run(1) == Blocks{{Kind::Checkpoint, 4}});
}

TEST_CASE("in the lane: a large save area and medium blocks") {
  // 64 threads and 4 workers: 200 MiB, which take 200 us or more to save.
  for (auto [each, kind] : {std::pair(20us, Kind::Persistent), {1000us, Kind::Checkpoint}}) {
    Launches launches(5, everyKind, 200u << 12);
    launches.eachBlock = each;
    CHECK(launches.runAll() == Blocks{{kind, 24}});
  }
}

TEST_CASE("in the lane: the order says whether and when") {
  Launches none(4, {Kind::Persistent, Kind::Guard, Kind::Slice});
  none.eachBlock = 1ms;
  CHECK(none.runAll() == Blocks{{Kind::Persistent, 24}});
  Launches always(4, {Kind::Checkpoint, Kind::Persistent, Kind::Guard, Kind::Slice});
  always.eachBlock = 1us;
  CHECK(always.run(0) == Blocks{{Kind::Checkpoint, 24}});
  CHECK(always.run(1) == Blocks{{Kind::Checkpoint, 24}});
}

TEST_CASE("in the lane: a launch that was stopped goes on inside of blocks") {
  Launches launches(2);
  launches.eachBlock = 200us;
  launches.stopBehind(7);
  REQUIRE(launches.submit(launches.program, 0));
  for (int i = 0; i < 200 && launches.told().epoch == 0; ++i)
    launches.turn();
  for (int i = 0; i < 200; ++i)
    launches.turn();
  CHECK(launches.told().epoch == 1);
  CHECK(launches.told().mode == TALLY_CONTROL_CHECKPOINT);
  CHECK(!launches.allFinished());
  int between = launches.blocks[Kind::Persistent];
  CHECK(between >= 7);
  CHECK(between < 24);
  CHECK(launches.blocks[Kind::Checkpoint] == 0);
  REQUIRE(launches.high->endRequest());
  for (int i = 0; i < 10000 && !launches.allFinished(); ++i)
    launches.turn();
  CHECK(launches.blocks == Blocks{{Kind::Persistent, between}, {Kind::Checkpoint, 24 - between}});
  CHECK(launches.run(1) == Blocks{{Kind::Checkpoint, 24}});
  CHECK((launches.outcome() == runInOrder(launches.program)));
}

TEST_CASE("in the lane: what a stopped launch says of its blocks") {
  // Four blocks at a time: a wave takes 16 us, and 80 us.
  for (auto [each, later] : {std::pair(4us, Kind::Persistent), {20us, Kind::Checkpoint}}) {
    Launches launches(1);
    launches.eachBlock = each;
    launches.stopBehind(7);
    REQUIRE(launches.submit(launches.program, 0));
    for (int i = 0; i < 400; ++i)
      launches.turn();
    Blocks before = std::exchange(launches.blocks, {});
    CHECK(before.size() == 1);
    CHECK(before[Kind::Persistent] < 12);
    REQUIRE(launches.high->endRequest());
    for (int i = 0; i < 10000 && !launches.allFinished(); ++i)
      launches.turn();
    CHECK(launches.blocks == Blocks{{later, 24 - before[Kind::Persistent]}});
  }
}

TEST_CASE("in the lane: the time of others is not taken for a block's") {
  Launches launches(120);
  launches.eachBlock = 4us;
  SUBCASE("two lanes, whose blocks take turns") {
    launches.program.streams = 2;
    for (std::size_t n = 1; n < 120; n += 2)
      launches.program.steps[n].stream = 1;
    launches.streams.clear();
    launches.memory.clear();
    launches.addStreams(launches.program);
    for (std::size_t n = 0; n < 120; ++n)
      REQUIRE(launches.submit(launches.program, n));
    for (int i = 0; i < 1000000 && !launches.allFinished(); ++i)
      launches.turn();
    CHECK(launches.blocks == Blocks{{Kind::Persistent, 120 * 24}});
  }
  SUBCASE("what was ahead on the application's stream") {
    StreamId ahead = *launches.device.createStream(StreamPriority::High);
    auto bytes = std::as_bytes(std::span(&launches.scratchArguments, 1));
    for (int n = 0; n < 30; ++n) {
      launches.eachBlock = 1ms;
      REQUIRE(launches.device.launch(ahead, launches.kernels[0]->userFunction(),
                                     {{24, 1, 1}, {64, 1, 1}, 0}, bytes));
      launches.submitBehind(ahead);
      for (int i = 0; i < 100000 && !launches.allFinished(); ++i) {
        if (launches.blocks[std::nullopt] == (n + 1) * 24)
          launches.eachBlock = 4us;
        launches.turn();
      }
    }
    CHECK(launches.blocks == Blocks{{std::nullopt, 30 * 24}, {Kind::Persistent, 30 * 24}});
  }
}

TEST_CASE("in the lane: only a launch that has to wait says when it begins") {
  constexpr int count = 20;
  auto run = [](bool isOrdered, bool isBusy) {
    Launches launches(count);
    launches.eachBlock = 8us; // a launch is worth timing
    StreamId ahead = *launches.device.createStream(StreamPriority::High);
    auto word = DevicePtr{reinterpret_cast<std::uint64_t>(launches.scratch.data())};
    for (int n = 0; n < count; ++n) {
      if (isBusy)
        REQUIRE(launches.device.fill(ahead, word, std::byte{0}, 8));
      launches.submitBehind(isOrdered ? std::optional(ahead) : std::nullopt);
      for (int i = 0; i < 100000 && !launches.allFinished(); ++i)
        launches.turn();
      REQUIRE(launches.allFinished());
    }
    return std::pair(launches.device.writes(), launches.blocks);
  };
  auto free = run(false, false), idle = run(true, false), busy = run(true, true);
  CHECK(free == idle);
  CHECK(busy.first == idle.first + count);
  CHECK(busy.second == idle.second);
}

namespace {

/// Launches of one kernel in turns: every fourth has another size and long blocks; some have other
/// addresses.
struct LongAmongShort : Launches {
  explicit LongAmongShort(Dim3 grid) : Launches(40, everyKind, 32, grid) {
    for (std::size_t n = 0; n < program.steps.size(); ++n) {
      Step &step = program.steps[n];
      step.key = isLong(n) ? 50304 : 768;
      step.to = n / 4 % 2;
      step.from = 1 - step.to;
    }
    device.onPoll = [](std::uint64_t) {}; // the control word has landed before the next block
    for (std::size_t n : {1, 2, 3, 5, 6, 7})
      blocksOf(n);
  }
  static bool isLong(std::size_t n) { return n % 4 == 0; }
  Blocks blocksOf(std::size_t n) {
    eachBlock = isLong(n) ? 100us : 1us;
    return run(n);
  }
  /// A request comes in the block after that many blocks, and the running work goes on for
  /// `goesOn`.
  void request(std::initializer_list<std::size_t> steps, int behind, Nanoseconds goesOn) {
    eachBlock = 1us;
    stopBehind(behind);
    for (std::size_t n : steps)
      REQUIRE(submit(program, n));
    for (int i = 0; i < 400; ++i) {
      dispatcher->step();
      if (std::uint64_t epoch = told().epoch; epoch != std::exchange(seen, epoch))
        now += goesOn;
      device.advance();
    }
    inBlock = nullptr;
    REQUIRE(high->endRequest());
    for (int i = 0; i < 10000 && !allFinished(); ++i)
      turn();
    REQUIRE(allFinished());
  }
  std::uint64_t seen = 0;
};

} // namespace

TEST_CASE("in the lane: long launches among short ones of their shape, once one was seen") {
  for (Dim3 grid : {Dim3{24, 1, 1}, Dim3{2, 2, 1}}) {
    auto count = static_cast<int>(grid.count());
    CAPTURE(count);
    Kind between = count > 4 ? Kind::Persistent : Kind::Guard;
    LongAmongShort launches(grid);
    Blocks stays{{between, count}}, inside{{Kind::Checkpoint, count}};
    std::size_t measured = 4; // the first launch that is known to be possibly long
    SUBCASE("late, stopped between its blocks") { launches.request({0}, 2, 500us); }
    SUBCASE("late, done when the next one found the request") {
      launches.request({0, 9}, count, 500us);
    }
    SUBCASE("not late") {
      launches.request({0}, 2, 30us);
      measured = 12;
    }
    SUBCASE("long by itself") { CHECK(launches.blocksOf(0) == stays); }
    SUBCASE("long in a batch") {
      launches.eachBlock = 1us;
      launches.inBlock = [&launches, count, seen = 0]() mutable {
        launches.eachBlock = seen++ / count == 1 ? 100us : 1us;
      };
      for (std::size_t n : {9, 0, 9})
        REQUIRE(launches.submit(launches.program, n));
      for (int i = 0; i < 10000 && !launches.allFinished(); ++i)
        launches.turn();
      launches.inBlock = nullptr;
    }
    CHECK(launches.blocksOf(4) == stays);
    for (std::size_t n = 10; n < 40; ++n) {
      CAPTURE(n);
      CHECK(launches.blocksOf(n) == (launches.isLong(n) && n > measured ? inside : stays));
    }
  }
}

TEST_CASE("in the lane: no launch is taken for long because of others' time") {
  LongAmongShort launches({24, 1, 1});
  SUBCASE("of a launch that was stopped") {
    launches.eachBlock = 1us;
    launches.inBlock = [&launches, seen = 0]() mutable {
      if (++seen != 2)
        return;
      launches.now += 200us;
      REQUIRE(launches.high->beginRequest());
    };
    REQUIRE(launches.submit(launches.program, 9));
    for (int i = 0; i < 100; ++i)
      launches.turn();
    launches.inBlock = nullptr;
    REQUIRE(launches.high->endRequest());
    for (int i = 0; i < 10000 && !launches.allFinished(); ++i)
      launches.turn();
  }
  SUBCASE("little more than is known") {
    launches.eachBlock = 3us;
    launches.run(9);
  }
  launches.eachBlock = 100us;
  // The launch has the shape's choice: the median of that shape's launches is short.
  CHECK(launches.run(10) == Blocks{{Kind::Persistent, 24}});
  CHECK(launches.run(11) == Blocks{{Kind::Persistent, 24}}); // measured
  CHECK(launches.run(13) == Blocks{{Kind::Checkpoint, 24}});
}

TEST_CASE("in the lane: what blocks take is kept, and known to the next process") {
  test::TemporaryFolder folder;
  {
    ProfileStore store(folder.file("profile"), gpu());
    Launches launches(3, everyKind, 32, {24, 1, 1}, &store);
    launches.eachBlock = 100us;
    launches.runAll();
    REQUIRE(store.save());
  }
  ProfileStore store(folder.file("profile"), gpu());
  auto found = store.find({77, "mix", LoadedKernel::keyOf({{24, 1, 1}, {64, 1, 1}, 0})});
  REQUIRE(found);
  CHECK(!found->isTried());
  CHECK(found->block > 390us);
  CHECK(found->block <= 400us);
  Launches launches(2, everyKind, 32, {24, 1, 1}, &store);
  launches.eachBlock = 100us;
  CHECK(launches.run(0) == Blocks{{Kind::Checkpoint, 24}});
}

TEST_CASE("random programs whose launches change their kinds give the sequential result") {
  std::uint64_t changed = 0, inside = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Harness harness(seed, everyKind, {}, 0, nullptr, nullptr, 32);
    Program program = Program::make(harness.random, 1 + seed % 3, 40, seed % 2 == 0 ? 1 : 5);
    harness.addStreams(program);
    if (seed % 5 == 0)
      harness.device.mostBytes = 0;
    std::optional<Kind> last;
    harness.device.onBlock = [&](std::optional<Kind> kind) {
      harness.now += Nanoseconds(harness.random() % 3 == 0 ? 100000 : 500);
      inside += kind == Kind::Checkpoint;
      changed += kind == Kind::Checkpoint && last == Kind::Persistent;
      last = kind;
    };
    runRandomly(harness, program, {5, 25, 65, 2, 3});
    CAPTURE(seed);
    CHECK((harness.outcome() == runInOrder(program)));
  }
  CHECK(inside > 1000);
  CHECK(changed > 20);
}
