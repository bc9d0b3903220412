// Workers of pause that stay when no block is left (bundle/abi.h): how long they stay, and which
// workers may leave.
#include "work_grid.h"

#include <functional>

using namespace tally;
using namespace tally::emulator;

namespace {

constexpr std::uint32_t blocks = 4;

/// Block 0 takes long and polls seldom, with its last poll long before its end; the other blocks
/// are short. Each block counts itself in `done`.
constexpr const char *kernel = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry work(.param .u64 done, .param .u64 count)
{
	.reg .pred %p<3>;
	.reg .b32 %r<6>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [done];
	mov.u32 %r3, %ctaid.x;
	setp.eq.u32 %p2, %r3, 0;
	selp.b32 %r4, 20400, 10, %p2;
	mov.u32 %r2, 0;
AGAIN:
	add.u32 %r2, %r2, 1;
	setp.lt.u32 %p1, %r2, %r4;
	@%p1 bra AGAIN;
	mul.wide.u32 %rd3, %r3, 4;
	add.s64 %rd3, %rd1, %rd3;
	red.global.add.u32 [%rd3], 1;
	ret;
}
)";
/// Block 0 polls fewer times than this.
constexpr std::uint64_t pollPeriod = 8192, loopPolls = 40;

/// All blocks run side by side, each with a worker; another worker can start only when one has
/// left.
struct Grid : verify::WorkGrid {
  explicit Grid(std::uint32_t stay) : WorkGrid(kernel, Kind::Pause, blocks, stay, pollPeriod) {}

  /// Calls `alone` at each poll while block 0 is the only block left, with the number of earlier
  /// such polls.
  void runWatched(const std::function<void(std::uint64_t)> &alone) {
    machine.watchReads(control, [&](std::uint64_t) {
      if (taken() < blocks || read(done, 0) != 0)
        return;
      // Another worker has taken its turn, or has started.
      if (taken() == 2 * blocks || (live() == 2 && polls != 0))
        left = std::min(left, polls);
      if (live() == 1)
        alone(polls++);
    });
    run(blocks + 1, {1, blocks});
    checkEnd(blocks, blocks + 1);
  }

  std::uint64_t polls = 0;    ///< polls while block 0 was the only block left
  std::uint64_t left = never; ///< number of these polls before a worker left
  static constexpr std::uint64_t never = ~std::uint64_t{0};
};

} // namespace

TEST_CASE("workers stay as long as another one has a block, if they are told to") {
  Grid leaving(0), staying(1000);
  leaving.runWatched([](std::uint64_t) {});
  staying.runWatched([](std::uint64_t) {});
  CHECK(leaving.left <= loopPolls);
  CHECK(leaving.polls < loopPolls);
  CHECK(staying.left == Grid::never);
  CHECK(staying.polls > 10 * loopPolls);
}

TEST_CASE("they leave when the epoch has passed") {
  for (tally_control_mode mode : {TALLY_CONTROL_RUN, TALLY_CONTROL_LEAVE_AT_BLOCK_END}) {
    Grid grid(1000);
    grid.runWatched([&](std::uint64_t poll) {
      if (poll == 100)
        grid.tell({.epoch = 1, .mode = mode});
    });
    CHECK(grid.left >= 100);
    CHECK(grid.left <= 100 + blocks);
    CHECK(grid.polls < 100 + loopPolls + blocks);
  }
}

TEST_CASE("they stay while others pause, whatever the epoch") {
  for (std::uint64_t epoch : {0, 1}) {
    Grid grid(1000);
    grid.runWatched([&](std::uint64_t poll) {
      if (poll == 100)
        grid.tell({.epoch = epoch, .mode = TALLY_CONTROL_PAUSE});
      if (poll == 1100)
        grid.tell({.epoch = epoch, .mode = TALLY_CONTROL_RUN});
    });
    CHECK(grid.polls > 1100);
    if (epoch == 0) {
      CHECK(grid.left == Grid::never);
    } else {
      CHECK(grid.left >= 1100);
      CHECK(grid.left <= 1100 + 2 * blocks);
    }
  }
}

TEST_CASE("no launch ends while others pause") {
  auto run = [](const std::function<void(Grid &, std::uint64_t)> &atRead) {
    Grid grid(1000);
    std::uint64_t reads = 0;
    grid.machine.watchReads(grid.control, [&](std::uint64_t) { atRead(grid, reads++); });
    grid.run(blocks, {1, blocks});
    grid.checkEnd(blocks, blocks);
    return reads;
  };
  std::uint64_t all = run([](Grid &, std::uint64_t) {});
  // The last block has made its last poll.
  for (std::uint64_t before = 2; before <= 10; ++before)
    for (std::uint64_t epoch : {0, 1}) {
      CAPTURE(before);
      CAPTURE(epoch);
      std::uint64_t begin = all - before, end = begin + 200;
      bool napped = false; // with no block left
      CHECK(run([&](Grid &grid, std::uint64_t read) {
              if (read == begin)
                grid.tell({.epoch = epoch, .mode = TALLY_CONTROL_PAUSE});
              if (read == end)
                grid.tell({.epoch = epoch, .mode = TALLY_CONTROL_RUN});
              napped |= read < end && grid.read(grid.done, 0) != 0;
            }) > end);
      CHECK(napped);
    }
}

TEST_CASE("they wait for no worker that has not started") {
  for (std::uint64_t seed = 0; seed < 12; ++seed)
    for (std::uint32_t resident : {1, 2, 3}) {
      Grid grid(1000);
      grid.run(3 * blocks, {seed, resident});
      grid.checkEnd(blocks, 3 * blocks);
    }
}
