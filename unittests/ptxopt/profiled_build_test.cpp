// A profiled build: a program runs and writes a profile, tally-ptxopt reads it and writes fewer
// kinds, and the program still computes the right results with these variants.
#include "../support/files.h"

#include "tally/bundle/bundle_reader.h"
#include "tally/bundle/profile.h"
#include "tally/runtime/runtime.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <span>
#include <string>
#include <vector>

using namespace tally;
using namespace tally::runtime;

namespace {

template <class T> T must(Result<T> result) {
  if (!result)
    FAIL(result.error().message);
  return std::move(*result);
}
void must(const Result<void> &result) {
  if (!result)
    FAIL(result.error().message);
}

/// out[block] += 1, after a loop with that many turns; and a kernel without a loop.
constexpr const char *module = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry turning(.param .u64 out, .param .u32 turns) {
  .reg .pred %p<3>;
  .reg .b32 %r<5>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r4, [turns];
  mov.u32 %r1, 0;
again:
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p1, %r1, %r4;
  @%p1 bra again;
  mov.u32 %r2, %tid.x;
  setp.ne.u32 %p2, %r2, 0;
  @%p2 bra done;
  mov.u32 %r3, %ctaid.x;
  mul.wide.u32 %rd2, %r3, 8;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.u64 %rd4, [%rd3];
  add.u64 %rd4, %rd4, 1;
  st.global.u64 [%rd3], %rd4;
done:
  ret;
}
.visible .entry once(.param .u64 out, .param .u32 turns) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %rd2, %r1, 8;
  add.u64 %rd3, %rd1, %rd2;
  atom.global.add.u64 %rd4, [%rd3], 1;
  ret;
}
)";
/// On the emulator a block of the first kernel takes more than a millisecond.
constexpr std::uint32_t blocks = 16, turns = 20000;

/// Launches both kernels and checks their counts.
Statistics runProgram(const std::string &bundle, const RuntimeOptions &options) {
  auto runtime = must(Runtime::open(options));
  LoadedModule loaded = must(runtime->load(bundle));
  Client client = must(runtime->createClient(Class::BestEffort, "test"));
  Stream stream = must(runtime->createStream(client));
  DevicePtr out = must(runtime->allocate(blocks * 8));
  auto launchAll = [&](const char *name, std::uint32_t threads, std::uint64_t launches) {
    Kernel kernel = must(runtime->kernel(loaded, name));
    must(runtime->fill(stream, out, std::byte{0}, blocks * 8));
    for (std::uint64_t i = 0; i != launches; ++i) {
      must(runtime->launch(stream, kernel, {{blocks, 1, 1}, {threads, 1, 1}, 0},
                           Arguments(out, turns)));
      must(runtime->synchronize(stream));
    }
    std::vector<std::uint64_t> counts(blocks);
    must(runtime->copyToHost(stream, std::as_writable_bytes(std::span(counts)), out));
    must(runtime->synchronize(stream));
    CHECK(counts == std::vector<std::uint64_t>(blocks, launches));
  };
  launchAll("turning", 32, 8);
  launchAll("once", 1, 200);
  return runtime->statistics();
}

void rewrite(const std::string &input, const std::string &output, const std::string &options) {
  std::string command = std::string("'") + TALLY_PTXOPT + "' '" + input + "' --no-assemble -o '" +
                        output + "' " + options;
  REQUIRE(std::system(command.c_str()) == 0);
}

const bundle::Kernel &kernelOf(const bundle::Bundle &bundle, std::string_view name) {
  for (const bundle::Kernel &kernel : bundle.kernels)
    if (kernel.name == name)
      return kernel;
  FAIL("no such kernel");
  return bundle.kernels.front();
}

} // namespace

TEST_CASE("what a run has found makes the next build smaller, and its results are the same") {
  test::TemporaryFolder folder;
  std::string ptx = folder.file("module.ptx"), profile = folder.file("profile");
  std::string full = folder.file("full.tally"), less = folder.file("less.tally");
  std::ofstream(ptx) << module;
  rewrite(ptx, full, "");
  RuntimeOptions options;
  options.device = "emulator";
  options.profiling = Profiling::On;
  options.profilePath = profile;
  runProgram(full, options);

  INFO(test::contents(profile));
  bundle::Profile found = must(bundle::parseProfile(test::contents(profile)));
  bool knowsOnce = false, knowsTurning = false;
  for (const auto &[key, each] : found.entries) {
    knowsOnce |= key.kernel == "once" && each.isTried();
    knowsTurning |= key.kernel == "turning" && each.block > bundle::shortBlock;
  }
  REQUIRE(knowsOnce);
  REQUIRE(knowsTurning);

  rewrite(ptx, less, "--profile='" + profile + "'");
  bundle::Bundle before = must(bundle::readFile(full)), after = must(bundle::readFile(less));
  const bundle::Kernel &turning = kernelOf(after, "turning"), &once = kernelOf(after, "once");
  CHECK(kernelOf(before, "turning").emitted(Kind::Guard));
  CHECK_FALSE(turning.emitted(Kind::Guard));
  CHECK(turning.emitted(Kind::Persistent));
  CHECK(turning.emitted(Kind::Checkpoint));
  CHECK(kernelOf(before, "once").emitted(Kind::Guard));
  CHECK(kernelOf(before, "once").emitted(Kind::Persistent));
  CHECK(once.emitted(Kind::Guard) != once.emitted(Kind::Persistent));

  options.profiling = Profiling::Off;
  options.profilePath.clear();
  Statistics statistics = runProgram(less, options);
  const KindCounts &made = statistics.launchesByKind;
  CHECK(statistics.bestEffortLaunches == 208);
  CHECK(std::accumulate(made.begin(), made.end(), std::uint64_t{0}) == 208);
  Kind kind = once.emitted(Kind::Guard) ? Kind::Guard : Kind::Persistent;
  CHECK(made[static_cast<std::size_t>(kind)] >= 200);
  CHECK(made[static_cast<std::size_t>(Kind::Slice)] == 0);
}
