// Speed of the emulator, in thread-instructions a second on one core.
//   build/benchmarks/emulator_benchmark
// The target is 50 million on an ordinary core, for a kernel like the first.
#include "tally/emulator/machine.h"
#include "tally/ptx/syntax/parser.h"

#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <vector>

using namespace tally;
using namespace tally::emulator;

namespace {

const std::string header = ".version 8.0\n.target sm_90\n.address_size 64\n";

// One tile of a product: 16 by 16 threads, shared memory, barriers, an unrolled inner loop.
std::string tiledProduct() {
  std::string inner;
  for (int k = 0; k < 16; ++k)
    inner += "  ld.shared.f32 %f2, [%r11+" + std::to_string(4 * k) +
             "];\n  ld.shared.f32 %f3, [%r12+" + std::to_string(64 * k) +
             "];\n  fma.rn.f32 %f1, %f2, %f3, %f1;\n";
  return header + R"(
.visible .entry kernel(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
  .reg .pred %p<2>; .reg .b32 %r<20>; .reg .f32 %f<4>; .reg .b64 %d<10>;
  .shared .align 4 .b8 left[1024]; .shared .align 4 .b8 right[1024];
  ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [c]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x; mov.u32 %r3, %tid.y; mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ctaid.y;
  mad.lo.u32 %r6, %r4, 16, %r2; mad.lo.u32 %r7, %r5, 16, %r3;
  mov.f32 %f1, 0f00000000; mov.u32 %r8, 0;
  mad.lo.u32 %r9, %r3, 16, %r2; shl.b32 %r9, %r9, 2;
  mov.u32 %r10, left; add.u32 %r13, %r10, %r9; shl.b32 %r11, %r3, 6; add.u32 %r11, %r11, %r10;
  mov.u32 %r10, right; add.u32 %r14, %r10, %r9; shl.b32 %r12, %r2, 2; add.u32 %r12, %r12, %r10;
tile:
  add.u32 %r15, %r8, %r2; mad.lo.u32 %r15, %r7, %r1, %r15;
  mul.wide.u32 %d4, %r15, 4; add.u64 %d4, %d1, %d4; ld.global.f32 %f2, [%d4];
  st.shared.f32 [%r13], %f2;
  add.u32 %r15, %r8, %r3; mad.lo.u32 %r15, %r15, %r1, %r6;
  mul.wide.u32 %d4, %r15, 4; add.u64 %d4, %d2, %d4; ld.global.f32 %f2, [%d4];
  st.shared.f32 [%r14], %f2;
  bar.sync 0;
)" + inner +
         R"(
  bar.sync 0;
  add.u32 %r8, %r8, 16; setp.lt.u32 %p1, %r8, %r1;
  @%p1 bra tile;
  mad.lo.u32 %r15, %r7, %r1, %r6; mul.wide.u32 %d4, %r15, 4; add.u64 %d4, %d3, %d4;
  st.global.f32 [%d4], %f1;
  ret;
}
)";
}

// Every lane takes its own number of turns: the other end of the scale.
const std::string divergent = header + R"(
.visible .entry kernel(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
  .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %d<4>;
  ld.param.u64 %d1, [c];
  mov.u32 %r1, %tid.x; mov.u32 %r2, 0;
again:
  setp.le.u32 %p1, %r1, 1; @%p1 bra done;
  add.u32 %r2, %r2, 1; and.b32 %r3, %r1, 1; setp.eq.u32 %p2, %r3, 0; @%p2 bra even;
  mad.lo.u32 %r1, %r1, 3, 1; bra.uni again;
even:
  shr.u32 %r1, %r1, 1; bra.uni again;
done:
  mov.u32 %r4, %tid.x; mad.wide.u32 %d2, %r4, 4, %d1; st.global.u32 [%d2], %r2;
  ret;
}
)";

void execute(benchmark::State &state, const std::string &text, const LaunchShape &shape,
             std::uint64_t seed) {
  auto parsed = ptx::parse(text);
  Machine machine;
  auto program = machine.load(std::get<ptx::Module>(parsed));
  const std::uint32_t n = 128;
  std::vector<std::byte> parameters(28);
  for (std::size_t i = 0; i < 3; ++i) {
    DevicePtr pointer = *machine.allocate(std::size_t{n} * n * 4);
    std::memset(machine.view(pointer, n * n * 4)->data(), 0, n * n * 4);
    std::memcpy(parameters.data() + 8 * i, &pointer, 8);
  }
  std::memcpy(parameters.data() + 24, &n, 4);
  std::uint64_t before = machine.executedThreadInstructions();
  for (auto _ : state)
    if (auto fault = machine.run(**program, "kernel", shape, parameters, {seed, 4}))
      state.SkipWithError(fault->message.c_str());
  state.counters["thread-instructions"] =
      benchmark::Counter(static_cast<double>(machine.executedThreadInstructions() - before),
                         benchmark::Counter::kIsRate);
}

void BM_TiledProduct(benchmark::State &state) {
  execute(state, tiledProduct(), {{8, 8, 1}, {16, 16, 1}, 0}, 0);
}
void BM_TiledProductRandomSchedule(benchmark::State &state) {
  execute(state, tiledProduct(), {{8, 8, 1}, {16, 16, 1}, 0}, 1);
}
void BM_DivergentLoop(benchmark::State &state) {
  execute(state, divergent, {{16, 1, 1}, {256, 1, 1}, 0}, 0);
}

BENCHMARK(BM_TiledProduct)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_TiledProductRandomSchedule)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_DivergentLoop)->Unit(benchmark::kMillisecond);

} // namespace

BENCHMARK_MAIN();
