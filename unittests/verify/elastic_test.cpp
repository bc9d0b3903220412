// The width of persistent launches (bundle/abi.h): surplus workers leave and others join, and each
// block of the grid runs exactly once.
#include "work_grid.h"

#include <thread>

using namespace tally;
using namespace tally::emulator;

namespace {

constexpr std::uint32_t blocks = 40;

/// Counts each block in `done`, and the largest number of blocks at a time in `count[1]`.
constexpr const char *kernel = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry work(.param .u64 done, .param .u64 count)
{
	.reg .pred %p<2>;
	.reg .b32 %r<6>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [done];
	ld.param.u64 %rd2, [count];
	atom.global.add.u32 %r1, [%rd2], 1;
	add.u32 %r1, %r1, 1;
	red.global.max.u32 [%rd2+4], %r1;
	mov.u32 %r2, 0;
AGAIN:
	add.u32 %r2, %r2, 1;
	setp.lt.u32 %p1, %r2, 60;
	@%p1 bra AGAIN;
	mov.u32 %r3, %ctaid.x;
	mul.wide.u32 %rd3, %r3, 4;
	add.s64 %rd3, %rd1, %rd3;
	red.global.add.u32 [%rd3], 1;
	red.global.add.u32 [%rd2], -1;
	ret;
}
)";

struct Grid : verify::WorkGrid {
  Grid() : WorkGrid(kernel, Kind::Persistent, blocks) {}
  std::uint32_t peak() { return read(count, 1); }
  void setWidth(std::uint16_t workers, std::uint64_t epoch = 0) {
    tell({.epoch = epoch, .workers = workers});
  }
  void checkEnd(std::uint32_t workers) { WorkGrid::checkEnd(blocks, workers); }
};

} // namespace

TEST_CASE("never more than the wanted number of workers run") {
  for (std::uint16_t wanted : {0, 1, 2, 3, 5})
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      CAPTURE(wanted);
      CAPTURE(seed);
      Grid grid;
      grid.setWidth(wanted);
      grid.run(6, {seed, 6});
      CHECK(grid.peak() <= std::max<std::uint32_t>(wanted, 1));
      grid.checkEnd(6);
    }
}

TEST_CASE("of a surplus exactly as many leave as there are too many") {
  for (std::uint16_t wanted : {1, 2, 4})
    for (std::uint64_t seed = 1; seed < 12; ++seed) {
      CAPTURE(wanted);
      CAPTURE(seed);
      Grid grid;
      std::uint32_t least = 6;
      grid.machine.watchReads(grid.control, [&](std::uint64_t poll) {
        if (poll == 6 + seed)
          grid.setWidth(wanted);
        // While blocks are left, workers leave only for a smaller width.
        if (poll > 6 + seed && grid.taken() < blocks)
          least = std::min(least, grid.live());
      });
      grid.run(6, {seed, 6});
      CHECK(least == wanted);
      grid.checkEnd(6);
    }
}

TEST_CASE("workers that start later join, in the place of those that left") {
  for (std::uint64_t seed = 1; seed < 12; ++seed) {
    Grid grid;
    grid.machine.watchReads(grid.control, [&](std::uint64_t poll) {
      grid.setWidth(poll % 5 == 0 ? 1 : TALLY_CONTROL_WORKERS_UNLIMITED);
    });
    grid.run(12, {seed, 3});
    CHECK(grid.peak() <= 3);
    grid.checkEnd(12);
  }
}

TEST_CASE("a second launch joins the first, which is narrowed, widened and asked to yield") {
  for (unsigned round = 0; round < 40; ++round) {
    CAPTURE(round);
    Grid grid;
    bool yields = round % 4 == 3;
    GridExecution first = grid.launch(3), second = grid.launch(3);
    auto serve = [](GridExecution &execution) {
      while (execution.runBlock())
        ;
    };
    std::vector<std::jthread> threads;
    for (GridExecution *each : {&first, &first, &first, &second, &second, &second})
      threads.emplace_back([&serve, each] { serve(*each); });
    for (unsigned i = 0; i < 30; ++i)
      grid.setWidth(static_cast<std::uint16_t>((round + i * 7) % 6), yields && i > 20 ? 1 : 0);
    threads.clear();
    for (GridExecution *each : {&first, &second})
      if (auto fault = each->fault())
        FAIL(fault->message);
    CHECK(grid.live() == 0);
    if (yields && grid.taken() < blocks) {
      std::uint32_t ran = 0;
      for (std::uint32_t i = 0; i < blocks; ++i)
        ran += grid.read(grid.done, i);
      CHECK(ran == grid.taken());
      grid.setWidth(TALLY_CONTROL_WORKERS_UNLIMITED, 0);
      grid.run(2, {});
    }
    grid.checkEnd(8);
  }
}
