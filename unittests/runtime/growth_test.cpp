// Makes, uses and destroys streams, clients and modules 10,000 times; the memory must not grow.
#include "arena_folder.h"
#include "counted_allocations.h"
#include "opened.h"

#include "tally/bundle/bundle_reader.h"
#include "tally/policy/share_policy.h"

#include <doctest/doctest.h>

#include <functional>
#include <optional>

using namespace tally;
using namespace tally::runtime;

namespace {

/// Calls `round` until its one-time allocations exist, and then `rounds` times more. 10,000 rounds
/// show a leak of a block, or of 8 bytes per round in a growing block; 1,000 rounds show a leaked
/// block. The runtime keeps the turnarounds of statistics() on purpose, up to 65,536.
void checkFlat(const Runtime &runtime, int rounds, const std::function<void(int)> &round) {
  constexpr int before = 300;
  for (int i = 0; i < before; ++i)
    round(i);
  std::int64_t blocks = Allocations::blocks, bytes = Allocations::bytes;
  for (int i = 0; i < rounds; ++i)
    round(before + i);
  blocks = Allocations::blocks - blocks;
  bytes = Allocations::bytes - bytes;
  std::size_t turnarounds = runtime.statistics().turnaroundNanoseconds.size();
  CHECK(blocks < rounds / 10);
  CHECK(bytes < rounds * 4 + 16384 + static_cast<std::int64_t>(2 * 8 * turnarounds));
}

struct Rounds {
  Runtime &runtime;
  const bundle::Bundle &bundle;
  std::vector<std::string> kernels; ///< whose names are asked for
  LaunchShape shape;
  std::function<Arguments(DevicePtr)> arguments;

  void operator()(int round) const {
    LoadedModule module = *runtime.load(bundle);
    std::vector<Kernel> found;
    for (const std::string &each : kernels)
      found.push_back(*runtime.kernel(module, each));
    DevicePtr memory = *runtime.allocate(4096);
    for (Class clientClass : {Class::BestEffort, Class::High}) {
      Client client = *runtime.createClient(clientClass, "client");
      Client other = *runtime.createClient(clientClass, "other");
      Stream stream = *runtime.createStream(client), second = *runtime.createStream(other);
      if (clientClass == Class::High)
        REQUIRE(runtime.beginRequest(client));
      REQUIRE(runtime.fill(stream, memory, std::byte{0}, 4096));
      REQUIRE(runtime.launch(stream, found[static_cast<std::size_t>(round) % found.size()], shape,
                             arguments(memory)));
      REQUIRE(runtime.destroyStream(stream));
      if (clientClass == Class::High)
        REQUIRE(runtime.endRequest(client));
      REQUIRE(runtime.destroyStream(second));
      REQUIRE(runtime.destroyClient(other));
      REQUIRE(runtime.destroyClient(client));
    }
    REQUIRE(runtime.free(memory));
    REQUIRE(runtime.unload(module));
  }
};

void roundsOnFake(const RuntimeOptions &options, int rounds) {
  Opened opened = openFake(options);
  Rounds one{*opened.runtime,
             opened.bundle,
             {mixNames.begin(), mixNames.end()},
             {{6, 1, 1}, {64, 1, 1}, 0},
             [](DevicePtr memory) {
               return Arguments(memory, memory, std::uint64_t{6}, std::uint64_t{1});
             }};
  std::size_t streams = opened.device->streamsHeld();
  std::size_t functions = opened.device->functionsHeld();
  checkFlat(*opened.runtime, rounds, one);
  CHECK(opened.device->streamsHeld() == streams);
  CHECK(opened.device->functionsHeld() == functions);
  CHECK(opened.device->modulesHeld() == 1);
  CHECK(opened.device->endedBusy == 0);
  // Handles start again from the first place only where all places were free.
  CHECK((static_cast<std::uint64_t>(opened.stream(Class::High)) & 0xffffffff) <= 2);
  CHECK((static_cast<std::uint64_t>(opened.client(Class::High)) & 0xffffffff) <= 3);
}

} // namespace

TEST_CASE("10,000 times") { roundsOnFake({}, 10000); }

TEST_CASE("with an arena, a trace, measurements and a policy that tells clients apart") {
  ArenaFolder folder;
  RuntimeOptions options;
  options.arena = ArenaOptions{folder.file(), {}, false, 1};
  options.trace = folder.path / "trace";
  options.traceEvents = 64;
  options.profiling = Profiling::On;
  options.profilePath = folder.path / "profile";
  options.policy = SharePolicy();
  roundsOnFake(options, 2000);
}

TEST_CASE("without tally") {
  for (Sharing sharing : {Sharing::LowPriority, Sharing::SamePriority}) {
    RuntimeOptions options;
    options.sharing = sharing;
    roundsOnFake(options, 2000);
  }
}

TEST_CASE("adopted streams and functions") {
  Opened opened = openFake();
  Runtime &runtime = *opened.runtime;
  Client server = opened.client(Class::High);
  Stream training = opened.stream(Class::BestEffort);
  DevicePtr memory = *runtime.allocate(Program::words * 8);
  auto native = static_cast<std::uint64_t>(*opened.device->createStream(StreamPriority::High));
  ModuleId module = *opened.device->loadModule(opened.bundle);
  auto function = static_cast<std::uint64_t>(*opened.device->function(module, "mix"));
  checkFlat(runtime, 2000, [&](int) {
    Stream serving = *runtime.adoptStream(server, native);
    Kernel kernel = *runtime.adoptFunction(function, "theirs");
    for (Stream each : {training, serving}) {
      REQUIRE(runtime.launch(each, kernel, {{6, 1, 1}, {64, 1, 1}, 0},
                             Arguments(memory, memory, std::uint64_t{6}, std::uint64_t{1})));
      REQUIRE(runtime.synchronize(each));
    }
    REQUIRE(runtime.destroyStream(serving));
    REQUIRE(runtime.forget(kernel));
  });
  CHECK(opened.device->adoptedHeld() == 0);
  CHECK(opened.device->endedBusy == 0);
}

TEST_CASE("on the emulator") {
  // out[0] += 1; the module has a variable, whose memory goes with the module.
  bundle::Bundle bundle;
  bundle.images.push_back({bundle::ImageFormat::Ptx, 80, R"(.version 8.0
.target sm_80
.address_size 64
.visible .global .align 8 .b8 kept[4096];
.visible .entry count(.param .u64 out)
{
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  ld.global.u64 %rd2, [%rd1];
  add.u64 %rd2, %rd2, 1;
  st.global.u64 [%rd1], %rd2;
  st.global.u64 [kept], %rd2;
  ret;
})"});
  bundle.kernels.push_back({"count", {{0, 8}}, 8, 0, true, {}});
  std::vector<std::string> kernels = {"count"};
  std::function<Arguments(DevicePtr)> arguments = [](DevicePtr memory) {
    return Arguments(memory);
  };
#ifdef TALLY_ACCUMULATE_BUNDLE
  SUBCASE("with variants") {
    bundle = *bundle::readFile(TALLY_ACCUMULATE_BUNDLE);
    kernels = {"accumulate"};
    arguments = [](DevicePtr memory) { return Arguments(memory, std::uint32_t{3}); };
  }
#endif
  SUBCASE("a kernel as it is") {}
  RuntimeOptions options;
  options.device = "emulator";
  auto runtime = std::move(*Runtime::open(options));
  checkFlat(*runtime, 1000,
            Rounds{*runtime, bundle, kernels, {{1, 1, 1}, {1, 1, 1}, 0}, arguments});
}
