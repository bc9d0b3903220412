// The headroom that pausing work leaves: its computation, the effect of high-priority launches on
// it, and a check that work which leaves less does not pause.
#include "harness.h"
#include "planning/headroom.h"

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

const DeviceInfo h200{"", 90, 132, 227 << 10, 2048, 65536, 228 << 10, 32};

struct Block {
  std::uint32_t threads = 32, registers = 16, shared = 0;
};
LaunchShape shapeOf(const Block &block, std::uint32_t blocks) {
  return {{blocks, 1, 1}, {block.threads, 1, 1}, block.shared};
}
bool see(Headroom &headroom, const Block &block, std::uint32_t blocks, bool together = false) {
  return headroom.see({block.registers, 0, 0}, shapeOf(block, blocks), together);
}
std::uint32_t beside(const Block &block, std::uint32_t resident, const Footprint &headroom) {
  return besideHeadroom(h200, {block.registers, 0, 0}, shapeOf(block, 1000), resident, headroom);
}

struct H200Headroom : Headroom {
  explicit H200Headroom(std::uint32_t percent = 25) { open(h200, percent); }
};

/// Kernels of benchmarks/colocation: one layer of a request, and the blocks of its training jobs.
constexpr Block layer{256, 14}, gemm{256, 45, 8208}, attention{256, 62, 41232};

} // namespace

TEST_CASE("the reserve is left as long as nothing is known") {
  Footprint reserve = H200Headroom().now();
  CHECK(reserve == Footprint{512, 16384, 57344, 8});
  CHECK(beside({256, 32}, 8, reserve) == 6);            // threads
  CHECK(beside({256, 128}, 2, reserve) == 1);           // registers: 32768 a block
  CHECK(beside({256, 32, 70 << 10}, 3, reserve) == 2);  // shared memory
  CHECK(beside({1024, 32}, 2, reserve) == 1);           // half of the threads
  CHECK(beside({256, 32, 200 << 10}, 1, reserve) == 0); // all but 28 KB
  CHECK(beside({64, 32}, 3, reserve) == 3);
  CHECK(beside({32, 32}, 32, reserve) == 24); // places for blocks
  // A quarter of each partition's registers does not hold a warp.
  CHECK(beside({32, 255}, 8, reserve) == 4);
  // The products of benchmarks/workloads (docs/design/kinds.md).
  CHECK(beside({128, 214, 80 << 10}, 2, reserve) == 1);
  CHECK(beside({128, 226, 80 << 10}, 2, reserve) == 1);
  CHECK(beside({128, 128, 40 << 10}, 4, reserve) == 3);
  CHECK(beside(gemm, 5, reserve) == 4);
  CHECK(beside(attention, 4, reserve) == 3);
  CHECK(besideHeadroom(DeviceInfo{"", 90, 2}, {16, 0, 0}, shapeOf({}, 1), 2, {}) == 0);
}

TEST_CASE("what a launch takes is left, and no more") {
  H200Headroom headroom;
  CHECK_FALSE(headroom.knowsAll());
  CHECK(see(headroom, layer, 132));
  CHECK(headroom.knowsAll());
  CHECK(headroom.now() == Footprint{256, 4096, 1024, 1});
  CHECK(beside(gemm, 5, headroom.now()) == 5);
  CHECK(beside(attention, 4, headroom.now()) == 3); // all registers
  CHECK(beside({256, 32}, 8, headroom.now()) == 7);
  CHECK(beside({128, 214, 80 << 10}, 2, headroom.now()) == 2);
  CHECK(beside({128, 128, 40 << 10}, 4, headroom.now()) == 3); // all registers
  std::uint64_t version = headroom.version();
  // Smaller ones change nothing.
  CHECK(see(headroom, {64, 16}, 100));
  CHECK(headroom.version() == version);
  // One block more than SMs.
  CHECK(see(headroom, layer, 133));
  CHECK(headroom.now() == Footprint{512, 8192, 2048, 2});
  CHECK(headroom.version() > version);
  // The largest need of each resource, over all launches.
  CHECK(see(headroom, {32, 16, 20 << 10}, 1));
  CHECK(headroom.now() == Footprint{512, 8192, 21 << 10, 2});
  // Never more than the reserve.
  CHECK(see(headroom, layer, 100000));
  CHECK(headroom.now() == Footprint{512, 16384, 21 << 10, 8});
}

TEST_CASE("shared memory keeps more of them than leave the room from an SM") {
  auto padded = [](Block block, std::uint32_t count, std::uint32_t most,
                   const Footprint &headroom) {
    block.shared +=
        paddingFor(h200, {block.registers, 0, 0}, shapeOf(block, 1000), count, most, headroom);
    return block;
  };
  H200Headroom requests;
  CHECK(see(requests, layer, 132));
  Footprint headroom = requests.now();
  // As many blocks as an SM holds by shared memory alone, and one fewer.
  for (std::uint32_t most = 2; most <= 6; ++most) {
    CAPTURE(most);
    Block block{32, 16, (228 << 10) / most / 128 * 128 - 1024};
    CHECK(beside(block, 32, {}) == most);
    Block limited = padded(block, most - 1, most, headroom);
    CHECK(beside(limited, 32, {}) == most - 1);
    CHECK(leftBy(h200, footprintOf({}, shapeOf(limited, 1000), most - 1)).sharedBytes >=
          headroom.sharedBytes);
  }
  CHECK(beside(Block{32, 16, padded(attention, 3, 4, headroom).shared}, 32, {}) == 3);
  // The SM holds no more of these blocks anyway.
  CHECK(padded({256, 32, 70 << 10}, 3, 3, headroom).shared == 70 << 10);
  // The padding would take most of the L1 cache.
  CHECK(padded(gemm, 4, 5, headroom).shared == gemm.shared);
  CHECK(padded({256, 32}, 7, 8, headroom).shared == 0);
  Footprint reserve = H200Headroom().now();
  CHECK(padded(attention, 3, 4, reserve).shared > attention.shared);
  // A footprint that takes four fifths of an SM leaves less than a quarter.
  CHECK(padded({128, 16, 44 << 10}, 4, 5, headroom).shared > 44 << 10);
  CHECK(padded({128, 16, 44 << 10}, 4, 5, reserve).shared == 44 << 10);
  DeviceInfo small = h200;
  small.maxSharedBytesPerBlock = 99 << 10;
  FunctionAttributes function{16, 0, 0};
  LaunchShape half = shapeOf({32, 16, 98 << 10}, 1), third = shapeOf({32, 16, 74 << 10}, 1);
  CHECK(paddingFor(h200, function, half, 1, 2, headroom) != 0);
  CHECK(paddingFor(small, function, half, 1, 2, headroom) == 0);
  CHECK(paddingFor(small, function, third, 2, 3, headroom) != 0);
}

TEST_CASE("a kernel that asks how much shared memory it has gets no more") {
  for (bool asks : {false, true}) {
    FakeDevice device(1);
    device.setRegisters(20480); // space for one block beside the reserve
    device.setShared(227 << 10);
    bundle::Bundle bundle = mixBundle(device, 4);
    bundle.kernels[0].readsSharedSize = asks;
    ModuleId module = *device.loadModule(bundle);
    auto loaded = LoadedKernel::find(device, module, bundle.kernels[0], 77);
    REQUIRE(loaded);
    PlanRules rules;
    std::vector<Kind> kinds = {Kind::Pause};
    rules.kinds = kinds;
    rules.headroom = reserveOf(device.info(), 25);
    rules.headroomVersion = 1;
    LaunchShape shape{{24, 1, 1}, {256, 1, 1}, 60 << 10};
    auto plan = (*loaded)->plan(device, shape, std::span<const std::byte>(), rules);
    REQUIRE(plan);
    CHECK((*plan)->kind == Kind::Pause);
    CHECK((*plan)->workers == 2);
    CHECK(((*plan)->padding == 0) == asks);
  }
}

TEST_CASE("warps lie on the four parts of an SM") {
  H200Headroom headroom;
  CHECK(see(headroom, {32, 128}, 132)); // a quarter of a partition's registers
  CHECK(headroom.now() == Footprint{128, 16384, 1024, 1});
  CHECK_FALSE(see(headroom, {32, 129}, 132));
  // Nine warps need three places in one partition, so as many resources as twelve warps.
  CHECK(footprintOf({32, 0, 0}, shapeOf({288}, 1)) == Footprint{384, 12288, 1024, 1});
  CHECK(footprintOf({32, 0, 0}, shapeOf({288}, 1), 2) == Footprint{640, 20480, 2048, 2});
}

TEST_CASE("kernels of several streams may run at a time") {
  H200Headroom headroom;
  headroom.addStream();
  CHECK(see(headroom, layer, 132));
  CHECK(headroom.now() == Footprint{256, 4096, 1024, 1});
  std::uint64_t version = headroom.version();
  headroom.addStream();
  CHECK(headroom.now() == Footprint{512, 8192, 2048, 2});
  CHECK(headroom.version() > version);
  version = headroom.version();
  headroom.dropStream();
  CHECK(headroom.now() == Footprint{256, 4096, 1024, 1});
  CHECK(headroom.version() > version);
  headroom.addStream();
  for (int i = 0; i < 10; ++i)
    headroom.addStream();
  CHECK(headroom.now() == Footprint{512, 16384, 12 << 10, 8});
}

TEST_CASE("what does not fit the reserve is said, and what is not known takes it all") {
  H200Headroom headroom;
  CHECK(see(headroom, {512, 32}, 132));
  CHECK_FALSE(see(headroom, {1024, 32}, 1));
  CHECK_FALSE(see(headroom, {512, 33}, 1)); // the device allocates 8 registers per thread at a time
  CHECK(see(headroom, {128, 32, 55 << 10}, 1));
  CHECK_FALSE(see(headroom, {128, 32, 56 << 10}, 1)); // and 1 KB of the system's
  CHECK(headroom.knowsAll());
  Footprint reserve = H200Headroom().now();
  CHECK(headroom.now().registers == reserve.registers);

  H200Headroom small;
  CHECK(see(small, layer, 132));
  SUBCASE("unknown") {
    small.seeUnknown();
    CHECK_FALSE(small.knowsAll());
  }
  SUBCASE("a kernel of the driver's") {
    small.seeOfDriver();
    CHECK(small.knowsAll());
  }
  CHECK(small.now() == reserve);
}

TEST_CASE("blocks that wait for each other have to fit together") {
  H200Headroom headroom;
  CHECK(see(headroom, layer, 264, true));
  CHECK(see(headroom, layer, 1000));
  CHECK_FALSE(see(headroom, layer, 265, true));
}

TEST_CASE("a graph's kernels come one after the other, or beside each other") {
  H200Headroom headroom;
  auto one = headroom.ask({16, 0, 0}, shapeOf(layer, 132), false);
  Headroom::Asked chain, branches;
  for (int i = 0; i < 2; ++i) {
    chain.add(one, false);
    branches.add(one, true);
  }
  CHECK(chain.need == one.need);
  CHECK(branches.need == Footprint{512, 8192, 2048, 2});
  CHECK(headroom.see(chain));
  CHECK(headroom.now() == one.need);
  chain.known = false;
  CHECK(headroom.see(chain));
  CHECK_FALSE(headroom.knowsAll());
}

namespace {

/// Launches on the fake device with two SMs. Each SM has space for two blocks (256 threads with 32
/// registers), or for one block and the reserve.
struct Roomy : Harness {
  static constexpr std::uint32_t one = 2, both = 4; // workers of the device

  explicit Roomy(std::uint64_t seed, std::size_t launches = 1, std::uint32_t reserve = 25)
      : Harness(seed, {Kind::Pause, Kind::Persistent}, {}, 0, nullptr, nullptr, 4, 20480, reserve) {
    block = {256, 1, 1};
    sharedBytes = 60 << 10;
    program.streams = 1;
    for (std::size_t i = 0; i < launches; ++i) {
      Step step;
      step.grid = {24, 1, 1};
      step.to = i % 2;
      step.from = 1 - step.to;
      step.key = i;
      program.steps.push_back(step);
    }
    program.hostIn.resize(launches);
    addStreams(program);
    device.setShared(227 << 10);
    device.onLaunchShape = [this](const LaunchShape &shape) {
      grids.push_back(shape.grid.x);
      isPadded.push_back(shape.dynamicSharedBytes != sharedBytes);
    };
    stream = *high->adopt(*device.createStream(StreamPriority::High));
  }
  void turn() {
    now += 1us;
    dispatcher->step();
    device.advance();
  }
  void turns(int count) {
    for (int i = 0; i < count; ++i)
      turn();
  }
  /// Tells the runtime, before a request, of a launch of 128 threads with that many registers on
  /// each SM.
  void seeLaunch(std::uint32_t registers) {
    high->headroom().noteLaunchOn(*stream);
    if (!high->headroom().see({registers, 0, 0}, {{2, 1, 1}, {128, 1, 1}, 0}))
      high->headroom().noteLarge(now);
  }
  /// Submits the next launch and waits for its first blocks.
  void begin() {
    std::uint64_t before = device.blocksRun();
    REQUIRE(submit(program, next++));
    for (int i = 0; i < 1000 && device.blocksRun() < before + 2; ++i)
      turn();
    REQUIRE(!allFinished());
  }
  void finish() {
    for (int i = 0; i < 10000 && !allFinished(); ++i)
      turn();
    REQUIRE(allFinished());
  }
  void end() {
    finish();
    CHECK((outcome() == runInOrder(program)));
  }

  Program program;
  std::size_t next = 0;
  HighStream *stream = nullptr;
  std::vector<std::uint32_t> grids; // of launches
  std::vector<bool> isPadded;       // likewise: whether they have more shared memory
};

} // namespace

TEST_CASE("launches leave what requests were seen to take") {
  Roomy run(1, 4);
  run.begin();
  run.finish();
  run.seeLaunch(16);
  run.begin();
  run.finish();
  run.seeLaunch(40); // all of the reserve
  run.begin();
  run.finish();
  run.high->headroom().seeUnknown();
  run.begin();
  run.end();
  CHECK(run.grids == std::vector{run.one, run.both, run.one, run.one});
  CHECK(run.isPadded == std::vector{true, false, true, true});
}

TEST_CASE("where no room is kept nothing pauses") {
  Roomy run(5, 1, 0);
  run.begin();
  REQUIRE(run.high->beginRequest());
  run.turns(5);
  CHECK_FALSE(run.word->isPausing());
  REQUIRE(run.high->endRequest());
  run.end();
  CHECK(run.grids[0] == run.both);
  CHECK_FALSE(run.isPadded[0]);
  CHECK(run.statistics().yields != 0);
}

TEST_CASE("what leaves enough pauses though it was planned before") {
  Roomy run(2);
  run.begin();
  REQUIRE(run.high->beginRequest());
  run.seeLaunch(16);
  run.turns(5);
  CHECK(run.word->isPausing());
  run.seeLaunch(40); // the running launch has the reserve's number of workers
  run.turns(5);
  CHECK(run.word->isPausing());
  REQUIRE(run.high->endRequest());
  run.end();
  CHECK(run.grids == std::vector{run.one});
  CHECK(run.statistics().yields == 0);
}

TEST_CASE("nothing pauses for what takes more until that is left") {
  Roomy run(3, 2);
  run.seeLaunch(16);
  run.begin();
  std::uint64_t epoch = run.word->currentEpoch();
  SUBCASE("it comes in the request") {
    REQUIRE(run.high->beginRequest());
    CHECK(run.word->isPausing());
    run.turns(3);
    run.seeLaunch(40);
    run.turns(1);
  }
  SUBCASE("it came before") {
    run.seeLaunch(40);
    run.turns(1);
    REQUIRE(run.high->beginRequest());
    CHECK_FALSE(run.word->isPausing());
    run.turns(1);
  }
  SUBCASE("on another stream") {
    run.stream = *run.high->adopt(*run.device.createStream(StreamPriority::High));
    run.seeLaunch(16);
    run.seeLaunch(20);
    run.stream = *run.high->adopt(*run.device.createStream(StreamPriority::High));
    run.seeLaunch(16);
    run.turns(1);
    REQUIRE(run.high->beginRequest());
    run.turns(1);
  }
  CHECK_FALSE(run.word->isPausing());
  CHECK(run.word->currentEpoch() == epoch + 1);
  run.turns(200); // until it has left
  REQUIRE(run.high->endRequest());
  // The rest of the launch leaves the headroom, and pauses again.
  for (int i = 0; i < 1000 && run.grids.size() == 1; ++i)
    run.turn();
  run.turns(3);
  REQUIRE(run.high->beginRequest());
  CHECK(run.word->isPausing());
  REQUIRE(run.high->endRequest());
  run.finish();
  run.begin();
  run.end();
  CHECK(run.grids == std::vector{run.both, run.one, run.one});
}

TEST_CASE("what is known to fit is not waited for without end") {
  Roomy run(4, 4);
  run.seeLaunch(16);
  StreamId id = run.stream->id;
  for (int pause = 1; pause <= 3; ++pause) {
    CHECK(run.high->headroom().knowsAll());
    run.begin();
    REQUIRE(run.high->beginRequest());
    run.turns(5);
    // Work that is not done before the device reaches it.
    REQUIRE(run.high->beginCall(*run.stream));
    REQUIRE(run.device.waitFor(id, run.control));
    REQUIRE(run.device.fill(id, run.memory[0][0], std::byte{0}, 0));
    run.high->endCall(*run.stream);
    for (int i = 0; i < 95; ++i) {
      run.now += 1ms;
      run.dispatcher->step();
    }
    CHECK(run.word->isPausing());
    for (int i = 0; i < 10; ++i) {
      run.now += 1ms;
      run.dispatcher->step();
    }
    CHECK_FALSE(run.word->isPausing());
    REQUIRE(run.high->endRequest());
    run.now += 100ms; // no pauses
    run.finish();
  }
  CHECK_FALSE(run.high->headroom().knowsAll());
  CHECK(run.high->headroom().now() == reserveOf(run.device.info(), 25));
  run.begin();
  run.end();
}
