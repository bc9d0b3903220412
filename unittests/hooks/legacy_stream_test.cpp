// Under MPS the legacy stream's best-effort work runs on the legacy stream itself; over the fake
// CUDA runtime.
#include "../support/mps_folder.h"
#include "harness.h"

#include <string>

using namespace tally;
using namespace tally::test;
using namespace std::chrono_literals;

namespace {

struct LegacyHarness : Harness {
  explicit LegacyHarness(bool processIsBestEffort = true) : Harness(processIsBestEffort) {}

  /// Returns the streams on which any entry of `mix` ran.
  std::set<cudaStream_t> streamsOfMix() {
    std::unique_lock lock(cuda.mutex);
    std::set<cudaStream_t> all;
    for (const auto &[kernel, streams] : cuda.streamsOf)
      if (kernel.starts_with("mix"))
        all.insert(streams.begin(), streams.end());
    return all;
  }
  std::set<cudaStream_t> streamsOfPlain() {
    std::unique_lock lock(cuda.mutex);
    return cuda.streamsOf["plain"];
  }
};

} // namespace

TEST_CASE("under MPS the legacy stream's work goes on that stream, other streams' work beside it") {
  MpsFolder folder;
  LegacyHarness h;
  // So slow that work which does not wait for it finishes first.
  h.cuda.addKernel("plain", {{8, 4}, [](const FakeLaunch &launch) {
                               std::this_thread::sleep_for(300us);
                               Mix mix{launch.argument<std::uint64_t *>(0),
                                       launch.argument<std::uint32_t>(1)};
                               for (std::uint32_t block = 0; block < launch.grid.x; ++block)
                                 mixBlock(mix, block);
                             }});
  cudaStream_t other = h.stream(0);
  std::uint64_t cell = 0, expected = 0;
  for (std::uint32_t i = 1; i <= 40; ++i) {
    // A lane keeps the order of all its streams.
    bool isLegacy = i % 4 != 0;
    h.launch(isLegacy ? nullptr : other, &cell, i, 2);
    h.launch(isLegacy ? nullptr : other, &cell, i, 3, &Harness::plainSymbol);
    expected = Harness::mixed(Harness::mixed(expected, i, 2), i, 3);
  }
  CHECK(h.synchronize(nullptr) == cudaSuccess);
  CHECK(h.synchronize(other) == cudaSuccess);
  CHECK(cell == expected);
  for (const std::set<cudaStream_t> &found : {h.streamsOfMix(), h.streamsOfPlain()}) {
    CHECK(found.size() == 2); // the legacy stream and the lane's
    CHECK(found.contains(nullptr));
    CHECK(!found.contains(other));
  }
}

TEST_CASE(
    "without MPS, or with high-priority work in the process, no lane uses the legacy stream") {
  for (bool underMps : {false, true}) {
    std::optional<MpsFolder> folder;
    if (underMps)
      folder.emplace();
    LegacyHarness h(!underMps);
    std::uint64_t cell = 0;
    h.launch(h.stream(-1), &cell, 7, 2, &Harness::plainSymbol);
    cudaStream_t blocking = h.stream(0, cudaStreamDefault);
    h.launch(underMps ? blocking : nullptr, &cell, 1, 2);
    h.hooks.served().engine()->drain();
    CHECK(!h.streamsOfMix().contains(nullptr));
    CHECK(h.streamsOfMix().size() == 1);
  }
}

TEST_CASE("a call past the queue comes before what is queued behind it on the legacy stream") {
  MpsFolder folder;
  LegacyHarness h;
  std::uint64_t cell = 0;
  Gate held;
  h.launch(nullptr, &cell, 1);
  CHECK(h.synchronize(nullptr) == cudaSuccess);
  CHECK(h.hostFunction(nullptr, [&] {
    held.pass();
    cell = 5;
  }) == cudaSuccess);
  h.launch(nullptr, &cell, 2, 3);
  held.arrived();
  held.open();
  CHECK(h.synchronize(nullptr) == cudaSuccess);
  CHECK(cell == Harness::mixed(5, 2, 3));
}

TEST_CASE(
    "while a blocking stream is captured nothing goes on the legacy stream, and work goes on") {
  MpsFolder folder;
  LegacyHarness h;
  cudaStream_t blocking = h.stream(0, cudaStreamDefault);
  std::uint64_t cell = 0, expected = 0;
  h.launch(nullptr, &cell, 1);
  CHECK(h.synchronize(nullptr) == cudaSuccess);
  constexpr std::uint32_t launches = 100;
  auto begin = [&] {
    // After the queue's drain. The hooks send no work before the capture has begun.
    std::thread([&] {
      for (std::uint32_t i = 2; i < launches; ++i)
        h.launch(nullptr, &cell, i);
    }).join();
    return h.cuda.api().cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal);
  };
  CHECK(h.hooks.streams().beginCapture(h.cuda.api(), blocking, begin) == cudaSuccess);
  CHECK(eventually([&] { return h.hooks.served().engine()->queue().isIdle(); }));
  for (std::uint32_t i = 1; i < launches; ++i)
    expected = Harness::mixed(expected, i);
  CHECK(cell == expected);
  CHECK(h.cuda.spoiltCaptures == 0);
  auto end = [&] { return h.cuda.api().cudaStreamEndCapture(blocking, nullptr); };
  CHECK(h.hooks.streams().endCapture(end) == cudaSuccess);
}
