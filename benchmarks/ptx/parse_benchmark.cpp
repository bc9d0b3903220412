// Bytes of PTX a second through the front end: text -> module, and text -> module -> text.
#include "tally/ptx/syntax/parser.h"
#include "tally/ptx/syntax/printer.h"

#include <benchmark/benchmark.h>

#include <string>

namespace {

using namespace tally::ptx;

constexpr const char *kernelHead = R"(
.visible .entry kernel_NUMBER(
	.param .u64 kernel_NUMBER_param_0,
	.param .u32 kernel_NUMBER_param_1
)
.maxntid 256, 1, 1
{
	.reg .pred 	%p<2>;
	.reg .f32 	%f<12>;
	.reg .b32 	%r<8>;
	.reg .b64 	%rd<6>;

	ld.param.u64 	%rd1, [kernel_NUMBER_param_0];
	mov.u32 	%r1, %ctaid.x;
	mad.lo.s32 	%r2, %r1, 256, %r3;
)";

constexpr const char *kernelStep = R"(	mul.wide.s32 	%rd3, %r2, 4;
	add.s64 	%rd4, %rd1, %rd3;
	ld.global.nc.v4.f32 	{%f1, %f2, %f3, %f4}, [%rd4+16];
	fma.rn.f32 	%f5, %f1, %f2, 0f3F800000;
	shfl.sync.bfly.b32 	%r5|%p1, %r4, 16, 31, -1;
	@%p1 bra 	$L__STEP;
	st.global.f32 	[%rd4+-8], %f5;
$L__STEP:
)";

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at))
    text.replace(at, from.size(), to);
  return text;
}

/// About `bytes` of kernels of some 5 KB, the median of nvcc's output being of that size.
std::string makeModule(std::size_t bytes) {
  std::string text = ".version 9.0\n.target sm_90\n.address_size 64\n";
  for (int number = 0; text.size() < bytes; ++number) {
    text += replaced(kernelHead, "NUMBER", std::to_string(number));
    for (int step = 0; step < 16; ++step)
      text += replaced(kernelStep, "STEP", std::to_string(step));
    text += "	ret;\n\n}\n";
  }
  return text;
}

void parseOnly(benchmark::State &state) {
  const std::string text = makeModule(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    auto result = parse(text);
    if (!std::holds_alternative<Module>(result))
      state.SkipWithError("the module does not parse");
    benchmark::DoNotOptimize(result);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size()) * state.iterations());
}

void parseAndPrint(benchmark::State &state) {
  const std::string text = makeModule(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    auto result = parse(text);
    const auto *module = std::get_if<Module>(&result);
    if (!module || print(*module) != text)
      state.SkipWithError("the module does not print back");
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size()) * state.iterations());
}

// Linear: both sizes have the same bytes a second.
BENCHMARK(parseOnly)->Arg(100 << 10)->Arg(10 << 20)->Unit(benchmark::kMillisecond);
BENCHMARK(parseAndPrint)->Arg(100 << 10)->Arg(10 << 20)->Unit(benchmark::kMillisecond);

} // namespace
