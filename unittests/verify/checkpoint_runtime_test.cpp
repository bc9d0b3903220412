// Checkpoints through the runtime, on the emulator: launches of two kernels follow one another, and
// their saved blocks take turns in one save area. Under endless requests they give the same results
// as alone.
#include "input.h"
#include "table.h"

#include "tally/runtime/runtime.h"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

using namespace tally;
using namespace tally::runtime;
using Words = std::vector<std::uint32_t>;

namespace {

constexpr std::uint32_t threads = 64, blocks = 8, tiles = 120, turns = 4000;
constexpr int rounds = 6;

/// While a request is open best-effort work may use one of the SMs.
struct OneSmBesideRequests {
  Decision decide(const Snapshot &now) const {
    Decision decision;
    decision.runBestEffort = true;
    decision.sms = now.highPriorityActive == 0 ? now.smCount : 1;
    return decision;
  }
};

const std::vector<Kind> always = {Kind::Checkpoint, Kind::Guard};

std::unique_ptr<Runtime> open(AnyPolicy policy, const std::vector<Kind> &kinds) {
  RuntimeOptions options;
  options.policy = std::move(policy);
  options.device = "emulator";
  options.emulator.smCount = 4;
  options.kinds = kinds;
  auto opened = Runtime::open(options);
  REQUIRE_MESSAGE(opened, opened.error().message);
  return std::move(*opened);
}

LoadedModule load(Runtime &runtime, const std::string &file) {
  auto bundle = verify::rewriteToBundle(verify::readText(verify::sourceRoot() / file), file);
  REQUIRE_MESSAGE(bundle, bundle.error().message);
  auto module = runtime.load(*bundle);
  REQUIRE_MESSAGE(module, module.error().message);
  return *module;
}

struct Outcome {
  Words tiled, uneven, count;
  friend bool operator==(const Outcome &, const Outcome &) = default;
};

Outcome run(bool underRequests, std::uint64_t &saved, AnyPolicy policy = {},
            const std::vector<Kind> &kinds = always) {
  auto runtime = open(std::move(policy), kinds);
  LoadedModule together = load(*runtime, "test/kernels/checkpoint_block.ptx");
  LoadedModule apart = load(*runtime, "test/kernels/checkpoint_threads.ptx");
  Client background = *runtime->createClient(Class::BestEffort);
  Client requests = *runtime->createClient(Class::High);
  Stream stream = *runtime->createStream(background);
  Words in(std::size_t{blocks} * threads * tiles);
  for (std::size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<std::uint32_t>(i * 2654435761u >> 7);
  // Each round has its own results, so that a lost result is not hidden by another round's.
  constexpr std::size_t each = std::size_t{blocks} * threads;
  Outcome outcome{Words(rounds * each), Words(rounds * each), Words(4)};
  auto upload = [&](const Words &words) {
    DevicePtr address = *runtime->allocate(words.size() * 4);
    REQUIRE(runtime->copyToDevice(stream, address, std::as_bytes(std::span(words))));
    return address;
  };
  DevicePtr from = upload(in), tiled = upload(outcome.tiled), uneven = upload(outcome.uneven),
            count = upload(outcome.count);
  LaunchShape shape{{blocks, 1, 1}, {threads, 1, 1}, 0};
  for (DevicePtr i = 0; i < rounds; ++i) {
    REQUIRE(runtime->launch(stream, *runtime->kernel(together, "checkpoint_tiles"), shape,
                            Arguments(tiled + i * each * 4, from, tiles)));
    REQUIRE(runtime->launch(stream, *runtime->kernel(apart, "checkpoint_uneven"), shape,
                            Arguments(uneven + i * each * 4, count, from, turns)));
  }
  REQUIRE(runtime->copyToHost(stream, std::as_writable_bytes(std::span(outcome.tiled)), tiled));
  REQUIRE(runtime->copyToHost(stream, std::as_writable_bytes(std::span(outcome.uneven)), uneven));
  REQUIRE(runtime->copyToHost(stream, std::as_writable_bytes(std::span(outcome.count)), count));
  std::jthread storm([&](const std::stop_token &stop) {
    while (underRequests && !stop.stop_requested()) {
      if (!runtime->beginRequest(requests))
        return;
      std::this_thread::sleep_for(std::chrono::microseconds(300));
      if (!runtime->endRequest(requests))
        return;
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  });
  auto done = runtime->synchronize(stream);
  REQUIRE_MESSAGE(done, done.error().message);
  storm.request_stop();
  storm.join();
  saved = runtime->statistics().savedBlocks;
  CHECK(runtime->statistics().bestEffortLaunches == 2 * rounds);
  CHECK(runtime->statistics().saveAreasRefused == 0);
  return outcome;
}

} // namespace

TEST_CASE("blocks that are saved and gone on with") {
  std::uint64_t none = 0, some = 0;
  Outcome alone = run(false, none), stormed = run(true, some);
  CHECK(none == 0);
  CHECK(some > 0);
  CHECK((alone == stormed));
}

TEST_CASE("as it is by default, blocks are saved once they were seen to be long") {
  std::uint64_t none = 0, some = 0;
  const std::vector<Kind> byDefault = RuntimeOptions().kinds;
  Outcome alone = run(false, none, {}, byDefault), stormed = run(true, some, {}, byDefault);
  CHECK(none == 0);
  CHECK(some > 0);
  CHECK((alone == stormed));
  // The same kinds without checkpoint.
  std::uint64_t without = 0;
  CHECK((run(true, without, {}, {Kind::Persistent, Kind::Guard, Kind::Slice}) == alone));
  CHECK(without == 0);
}

TEST_CASE("blocks that were saved by more workers than the policy allows later") {
  std::uint64_t none = 0, some = 0;
  Outcome alone = run(false, none), stormed = run(true, some, OneSmBesideRequests{});
  CHECK(some > 0);
  CHECK((alone == stormed));
}
