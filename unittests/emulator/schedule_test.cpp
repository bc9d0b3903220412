// Schedules, the watch on reads, and grids that several host threads run.
#include "harness.h"

#include <set>
#include <thread>

using namespace tally;
using namespace tally::emulator;
using U32 = std::uint32_t;
using U64 = std::uint64_t;

namespace {

// Each thread appends its global id to a list, in the order in which the threads come.
const std::string order = header + R"(.visible .entry k(.param .u64 list) {
  .reg .b64 %d<4>; .reg .b32 %r<8>; .reg .pred %p<2>;
  ld.param.u64 %d1, [list];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;
  and.b32 %r5, %r3, 3;
again: setp.eq.u32 %p1, %r5, 0; @%p1 bra done; sub.u32 %r5, %r5, 1; bra.uni again;
done: atom.global.add.u32 %r6, [%d1], 1;
  mad.wide.u32 %d2, %r6, 4, %d1; st.global.u32 [%d2+4], %r4;
  ret; })";

std::vector<U32> orderUnder(const Schedule &schedule) {
  Harness h(order);
  DevicePtr list = h.upload(std::vector<U32>(1 + 6 * 64));
  auto fault = h.run("k", shapeOf(6, 64), schedule, list);
  REQUIRE_MESSAGE(!fault, fault->message);
  auto all = h.download<U32>(list, 1 + 6 * 64);
  CHECK(all[0] == 6 * 64);
  CHECK(std::set<U32>(all.begin() + 1, all.end()).size() == 6 * 64);
  return {all.begin() + 1, all.end()};
}

// Waits until the low word is not 0, and stores the number of polls.
const std::string poll = header + R"(.visible .entry k(.param .u64 word, .param .u64 out) {
  .reg .b64 %d<5>; .reg .b32 %r<3>; .reg .pred %p<2>;
  ld.param.u64 %d1, [word]; ld.param.u64 %d2, [out]; mov.u32 %r1, 0;
again: add.u32 %r1, %r1, 1;
  ld.relaxed.gpu.global.u64 %d3, [%d1]; setp.eq.u64 %p1, %d3, 0; @%p1 bra again;
  mov.u32 %r2, %ctaid.x; mad.wide.u32 %d4, %r2, 4, %d2; st.global.u32 [%d4], %r1;
  ret; })";

} // namespace

TEST_CASE("seed 0 is the plain order; a seed gives one order, another seed another") {
  auto plain = orderUnder({0, 4});
  CHECK(plain.front() == 0);
  CHECK(plain.back() == 6 * 64 - 1);
  for (U32 i = 0; i < plain.size(); ++i)
    CHECK(plain[i] == i); // lanes reconverge before the atomic, and take turns by lane
  CHECK(orderUnder({0, 1}) == plain);
  auto first = orderUnder({1, 4});
  CHECK(first != plain);
  CHECK(orderUnder({1, 4}) == first);
  CHECK(orderUnder({2, 4}) != first);
}

TEST_CASE("only resident blocks interleave") {
  auto got = orderUnder({5, 2});
  // The last block starts only after four other blocks are done.
  std::size_t firstOfLast = got.size(), done = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (got[i] / 64 == 5) {
      firstOfLast = i;
      break;
    }
  for (U32 block = 0; block < 5; ++block) {
    std::size_t last = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      if (got[i] / 64 == block)
        last = i;
    done += last < firstOfLast;
  }
  CHECK(done >= 4);
}

TEST_CASE("the watch counts polls, and what it stores is what the poll sees") {
  Harness h(poll);
  for (U64 k : {0, 1, 5}) {
    DevicePtr word = h.upload(std::vector<U64>{0}), out = h.upload(std::vector<U32>(2));
    U64 last = ~U64{0};
    h.machine.watchReads(word, [&](U64 index) {
      CHECK(index == last + 1);
      last = index;
      if (index == k)
        h.machine.view(word, 8)->front() = std::byte{1};
    });
    auto fault = h.run("k", shapeOf(1, 32), {}, word, out);
    REQUIRE_MESSAGE(!fault, fault->message);
    CHECK(last == k);
    CHECK(h.download<U32>(out, 1)[0] == k + 1);
    h.machine.watchReads(0, {});
    auto again = h.run("k", shapeOf(1, 32), {}, word, out);
    CHECK_FALSE(again);
    CHECK(last == k);
  }
}

TEST_CASE("reads of other words do not count; narrower reads of the word do") {
  Harness h(header + R"(.visible .entry k(.param .u64 word) {
    .reg .b64 %d<3>; .reg .b32 %r<3>;
    ld.param.u64 %d1, [word];
    ld.global.u64 %d2, [%d1]; ld.global.u64 %d2, [%d1+16]; st.global.u64 [%d1+8], %d2;
    ld.global.u32 %r1, [%d1+12]; ld.u64 %d2, [%d1+8]; atom.global.add.u32 %r2, [%d1+8], 1;
    ret; })");
  DevicePtr words = h.upload(std::vector<U64>(3));
  U64 count = 0;
  h.machine.watchReads(words + 8, [&](U64) { ++count; });
  h.ok("k", shapeOf(1, 64), words);
  CHECK(count == 3 * 2);
}

TEST_CASE("blocks that wait for each other finish while they are resident together") {
  // Block 0 waits for block 1.
  Harness h(header + R"(.visible .entry k(.param .u64 flag) {
    .reg .b64 %d<3>; .reg .b32 %r<3>; .reg .pred %p<2>;
    ld.param.u64 %d1, [flag]; mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra set;
    wait: ld.acquire.gpu.global.u32 %r2, [%d1]; setp.eq.u32 %p1, %r2, 0; @%p1 bra wait; ret;
    set: st.release.gpu.global.u32 [%d1], 1; ret; })");
  h.machine.setStepLimit(U64{1} << 26);
  for (U64 seed : {0, 1, 2})
    CHECK_FALSE(h.run("k", shapeOf(2, 32), {seed, 2}, h.upload(std::vector<U32>{0})));
  auto fault = h.run("k", shapeOf(2, 32), {0, 1}, h.upload(std::vector<U32>{0}));
  REQUIRE(fault);
  CHECK(fault->kind == FaultKind::StepLimit);
}

TEST_CASE("several host threads run the blocks of a grid, each once") {
  Harness h(order);
  DevicePtr list = h.upload(std::vector<U32>(1 + 50 * 64));
  std::vector<std::byte> parameters;
  Harness::append(parameters, list);
  GridExecution grid(h.machine, h.program, "k", shapeOf(50, 64), parameters);
  std::vector<std::thread> threads;
  for (U32 i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      while (grid.runBlock(i)) {
      }
    });
  for (std::thread &each : threads)
    each.join();
  CHECK(grid.finished());
  CHECK_FALSE(grid.hasBlock());
  CHECK_FALSE(grid.fault());
  auto all = h.download<U32>(list, 1 + 50 * 64);
  CHECK(all[0] == 50 * 64);
  CHECK(std::set<U32>(all.begin() + 1, all.end()).size() == 50 * 64);
}

TEST_CASE("a fault ends a grid, and the first is kept") {
  Harness h(header + ".visible .entry k() { .reg .b32 %r<2>; .reg .pred %p<2>;\n"
                     "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 2; @%p1 trap; ret; }");
  GridExecution grid(h.machine, h.program, "k", shapeOf(100, 32), {});
  int blocks = 0;
  while (grid.runBlock())
    ++blocks;
  CHECK(blocks == 3);
  CHECK(grid.finished());
  REQUIRE(grid.fault());
  CHECK(grid.fault()->block == Dim3{2, 0, 0});
  GridExecution wrong(h.machine, h.program, "nobody", shapeOf(1, 1), {});
  CHECK_FALSE(wrong.runBlock());
  REQUIRE(wrong.fault());
  CHECK(wrong.fault()->kind == FaultKind::BadLaunch);
}
