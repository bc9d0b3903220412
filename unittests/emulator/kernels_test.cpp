// Whole kernels: the parts of the emulator together, under several schedules.
#include "harness.h"

using namespace tally;
using namespace tally::emulator;

namespace {

const std::string tiledProduct = header + R"(
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<20>;
  .reg .f32 %f<4>;
  .reg .b64 %d<10>;
  .shared .align 4 .b8 left[256];
  .shared .align 4 .b8 right[256];
  ld.param.u64 %d1, [a];
  ld.param.u64 %d2, [b];
  ld.param.u64 %d3, [c];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %tid.y;
  mov.u32 %r4, %ctaid.x;
  mov.u32 %r5, %ctaid.y;
  mad.lo.u32 %r6, %r4, 8, %r2;
  mad.lo.u32 %r7, %r5, 8, %r3;
  mov.f32 %f1, 0f00000000;
  mov.u32 %r8, 0;
  mad.lo.u32 %r9, %r3, 8, %r2;
  shl.b32 %r9, %r9, 2;
  mov.u32 %r10, left;
  add.u32 %r11, %r10, %r9;
  mov.u32 %r12, right;
  add.u32 %r13, %r12, %r9;
tile:
  add.u32 %r14, %r8, %r2;
  mad.lo.u32 %r14, %r7, %r1, %r14;
  mul.wide.u32 %d4, %r14, 4;
  add.u64 %d4, %d1, %d4;
  ld.global.f32 %f2, [%d4];
  st.shared.f32 [%r11], %f2;
  add.u32 %r14, %r8, %r3;
  mad.lo.u32 %r14, %r14, %r1, %r6;
  mul.wide.u32 %d4, %r14, 4;
  add.u64 %d4, %d2, %d4;
  ld.global.f32 %f2, [%d4];
  st.shared.f32 [%r13], %f2;
  bar.sync 0;
  shl.b32 %r15, %r3, 5;
  add.u32 %r15, %r10, %r15;
  shl.b32 %r16, %r2, 2;
  add.u32 %r16, %r12, %r16;
  mov.u32 %r17, 0;
inner:
  ld.shared.f32 %f2, [%r15];
  ld.shared.f32 %f3, [%r16];
  fma.rn.f32 %f1, %f2, %f3, %f1;
  add.u32 %r15, %r15, 4;
  add.u32 %r16, %r16, 32;
  add.u32 %r17, %r17, 1;
  setp.lt.u32 %p1, %r17, 8;
  @%p1 bra inner;
  bar.sync 0;
  add.u32 %r8, %r8, 8;
  setp.lt.u32 %p1, %r8, %r1;
  @%p1 bra tile;
  mad.lo.u32 %r18, %r7, %r1, %r6;
  mul.wide.u32 %d4, %r18, 4;
  add.u64 %d4, %d3, %d4;
  st.global.f32 [%d4], %f1;
  ret;
}
)";

// Each warp sums by butterfly shuffles, warps by shared memory, blocks by an atomic; odd threads of
// the last block exit before the shuffle.
const std::string reduction = header + R"(
.visible .entry sum(.param .u64 values, .param .u64 total, .param .u32 n)
{
  .reg .pred %p<4>;
  .reg .b32 %r<16>;
  .reg .b64 %d<5>;
  .shared .u32 partial[8];
  ld.param.u64 %d1, [values];
  ld.param.u64 %d2, [total];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  mov.u32 %r6, 0;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra outside;
  mul.wide.u32 %d3, %r5, 4;
  add.u64 %d3, %d1, %d3;
  ld.global.u32 %r6, [%d3];
outside:
  shfl.sync.bfly.b32 %r7|%p2, %r6, 16, 31, -1;
  add.u32 %r6, %r6, %r7;
  shfl.sync.bfly.b32 %r7|%p2, %r6, 8, 31, -1;
  add.u32 %r6, %r6, %r7;
  shfl.sync.bfly.b32 %r7|%p2, %r6, 4, 31, -1;
  add.u32 %r6, %r6, %r7;
  shfl.sync.bfly.b32 %r7|%p2, %r6, 2, 31, -1;
  add.u32 %r6, %r6, %r7;
  shfl.sync.bfly.b32 %r7, %r6, 1, 31, -1;
  add.u32 %r6, %r6, %r7;
  and.b32 %r8, %r4, 31;
  setp.ne.u32 %p1, %r8, 0;
  shr.u32 %r9, %r4, 5;
  shl.b32 %r9, %r9, 2;
  mov.u32 %r10, partial;
  add.u32 %r10, %r10, %r9;
  @!%p1 st.shared.u32 [%r10], %r6;
  bar.sync 0;
  setp.ne.u32 %p3, %r4, 0;
  @%p3 ret;
  mov.u32 %r11, 0;
  mov.u32 %r12, 0;
  shr.u32 %r13, %r3, 5;
  mov.u32 %r10, partial;
more:
  ld.shared.u32 %r14, [%r10];
  add.u32 %r11, %r11, %r14;
  add.u32 %r10, %r10, 4;
  add.u32 %r12, %r12, 1;
  setp.lt.u32 %p1, %r12, %r13;
  @%p1 bra more;
  red.global.add.u32 [%d2], %r11;
  ret;
}
)";

// Collatz steps: each lane loops as many times as its own number needs.
const std::string collatz = header + R"(
.func (.param .b32 steps) count(.param .b32 start)
{
  .reg .pred %p<3>;
  .reg .b32 %r<5>;
  ld.param.u32 %r1, [start];
  mov.u32 %r2, 0;
again:
  setp.le.u32 %p1, %r1, 1;
  @%p1 bra done;
  add.u32 %r2, %r2, 1;
  and.b32 %r3, %r1, 1;
  setp.eq.u32 %p2, %r3, 0;
  @%p2 bra even;
  mad.lo.u32 %r1, %r1, 3, 1;
  bra.uni again;
even:
  shr.u32 %r1, %r1, 1;
  bra.uni again;
done:
  st.param.b32 [steps], %r2;
  ret;
}
.visible .entry collatz(.param .u64 out)
{
  .reg .b32 %r<4>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [out];
  mov.u32 %r1, %tid.x;
  {
    .param .b32 start;
    .param .b32 steps;
    st.param.b32 [start], %r1;
    call.uni (steps), count, (start);
    ld.param.b32 %r2, [steps];
  }
  mul.wide.u32 %d2, %r1, 4;
  add.u64 %d1, %d1, %d2;
  st.global.u32 [%d1], %r2;
  exit;
}
)";

std::uint32_t collatzSteps(std::uint32_t n) {
  std::uint32_t steps = 0;
  for (; n > 1; ++steps)
    n = n % 2 ? 3 * n + 1 : n / 2;
  return steps;
}

} // namespace

TEST_CASE("a tiled matrix product with barriers gives the product under every schedule") {
  Harness h(tiledProduct);
  const std::uint32_t n = 32;
  std::vector<float> a(n * n), b(n * n), expected(n * n, 0.0f);
  for (std::uint32_t i = 0; i < n * n; ++i) {
    a[i] = static_cast<float>(i * 7 % 13) - 6;
    b[i] = static_cast<float>(i * 5 % 11) - 5;
  }
  for (std::uint32_t y = 0; y < n; ++y)
    for (std::uint32_t x = 0; x < n; ++x)
      for (std::uint32_t k = 0; k < n; ++k)
        expected[y * n + x] += a[y * n + k] * b[k * n + x];
  DevicePtr pa = h.upload(a), pb = h.upload(b);
  for (std::uint64_t seed : {0, 1, 2, 3}) {
    DevicePtr pc = h.upload(std::vector<float>(n * n));
    auto fault = h.run("product", {{4, 4, 1}, {8, 8, 1}, 0}, {seed, 3}, pa, pb, pc, n);
    REQUIRE_MESSAGE(!fault, fault->message);
    CHECK(h.download<float>(pc, n * n) == expected);
  }
}

TEST_CASE("shuffles, shared memory and atomics reduce an array under every schedule") {
  Harness h(reduction);
  std::vector<std::uint32_t> values(1000);
  std::uint32_t expected = 0;
  for (std::uint32_t i = 0; i < values.size(); ++i)
    expected += values[i] = i * i + 3;
  DevicePtr input = h.upload(values);
  for (std::uint64_t seed : {0, 1, 2, 3, 4, 5}) {
    DevicePtr total = h.upload(std::vector<std::uint32_t>{0});
    auto fault = h.run("sum", shapeOf(8, 128), {seed, 4}, input, total, std::uint32_t{1000});
    REQUIRE_MESSAGE(!fault, fault->message);
    CHECK(h.download<std::uint32_t>(total, 1)[0] == expected);
  }
}

TEST_CASE("divergent lanes go their own ways through a called function") {
  Harness h(collatz);
  std::vector<std::uint32_t> expected(100);
  for (std::uint32_t i = 0; i < expected.size(); ++i)
    expected[i] = collatzSteps(i);
  for (std::uint64_t seed : {0, 1, 2, 3}) {
    DevicePtr out = h.upload(std::vector<std::uint32_t>(100));
    auto fault = h.run("collatz", shapeOf(1, 100), {seed, 1}, out);
    REQUIRE_MESSAGE(!fault, fault->message);
    CHECK(h.download<std::uint32_t>(out, 100) == expected);
  }
}

TEST_CASE("executed thread-instructions are counted") {
  Harness h(header + ".visible .entry k() { .reg .b32 %r<2>; mov.u32 %r1, 1; ret; }");
  h.ok("k", shapeOf(2, 40));
  CHECK(h.machine.executedThreadInstructions() == 2 * 40 * 2);
}
