// Launches like earlier ones, which go to CUDA at once with few checks (RunAhead::passAgain()).
#include "ahead.h"

#include <doctest/doctest.h>

#include <chrono>
#include <optional>
#include <set>
#include <thread>

using namespace tally;
using namespace tally::test;
using namespace std::chrono_literals;

namespace {

/// Launches as the driver's hook makes them: first with few checks, then with all.
struct Again : Ahead {
  explicit Again(float ms = 0.01F) {
    cuda.msOfOperation = ms;
    stream = Harness::stream(0);
  }

  std::optional<cudaError_t> tryAgain(std::uint32_t blocks = 1, cudaError_t status = cudaSuccess) {
    return hooks.passAgain(stream, {&mixSymbol, blocks}, [&] {
      ++calls;
      return status != cudaSuccess ? FakeCuda::failed(status) : put(blocks);
    });
  }
  /// Returns whether few checks sufficed.
  bool launchOnce(std::uint32_t blocks = 1) {
    if (std::optional<cudaError_t> status = tryAgain(blocks)) {
      CHECK(*status == cudaSuccess);
      return true;
    }
    CHECK(launch(stream, &cell, value, blocks) == cudaSuccess);
    return false;
  }
  int launches(int count, std::uint32_t blocks = 1) {
    int again = 0;
    for (int i = 0; i < count; ++i)
      again += launchOnce(blocks) ? 1 : 0;
    return again;
  }
  void rest() { CHECK(synchronize(stream) == cudaSuccess); }

  cudaStream_t stream = nullptr;
  std::uint64_t cell = 0;
  int calls = 0;

private:
  static constexpr std::uint32_t value = 1;
  cudaError_t put(std::uint32_t blocks) {
    std::uint64_t *to = &cell;
    std::uint32_t with = value;
    void *arguments[] = {&to, &with};
    return cuda.api().cudaLaunchKernel(&mixSymbol, dim3(blocks), dim3(32), arguments, 0, stream);
  }
};

} // namespace

TEST_CASE("most launches like earlier ones need few checks, and count as launches at once") {
  Again h;
  CHECK_FALSE(h.launchOnce());
  h.launches(4);
  h.rest();
  CHECK(h.launches(100) >= 80);
  h.rest();
  CHECK(h.ahead() == 105);
  CHECK(h.hooks.totals().foreignBestEffort == 0);
  std::uint64_t expected = 0;
  for (int i = 0; i < 105; ++i)
    expected = Harness::mixed(expected, 1);
  CHECK(h.cell == expected);
}

TEST_CASE("a library's launch like earlier ones counts as a library's") {
  Again h;
  h.launches(1); // makes the hooks know the stream's API
  static const char kernel = 0;
  auto call = [] { return cudaSuccess; };
  auto take = [] { return hooks::TakenLaunch{}; };
  auto see = [](hooks::HighFootprints &, const hooks::CudaApi &, hooks::StreamState &) {};
  hooks::AheadWork work{&kernel, 8};
  int again = 0;
  for (int i = 0; i < 20; ++i) {
    if (h.hooks.passAgain(h.stream, work, call))
      ++again;
    else
      CHECK(h.hooks.libraries().launch(h.stream, work, call, take, see) == cudaSuccess);
  }
  CHECK(again >= 10);
  CHECK(h.ahead() == 1);
  CHECK(h.hooks.totals().foreignBestEffort == 20);
}

TEST_CASE("what is not like earlier launches needs all checks") {
  Again h;
  h.launches(10);
  h.rest();
  // The launch behind one that needed all checks needs few, and so does the next one.
  REQUIRE(eventually([&] {
    CHECK(h.launch(h.stream, &h.cell, 1) == cudaSuccess);
    return h.tryAgain().has_value();
  }));
  int calls = h.calls;
  SUBCASE("another size") { CHECK_FALSE(h.tryAgain(2)); }
  SUBCASE("another stream") {
    cudaStream_t other = h.Harness::stream(0);
    auto call = [&] {
      ++h.calls;
      return cudaSuccess;
    };
    CHECK_FALSE(h.hooks.passAgain(other, {&Harness::mixSymbol, 1}, call));
  }
  SUBCASE("another process is there") {
    auto other = h.join(0);
    CHECK_FALSE(h.tryAgain());
    other.reset();
    CHECK(h.tryAgain());
    calls = h.calls;
  }
  SUBCASE("work is queued") {
    auto other = h.join(0);
    h.gated = true;
    CHECK(h.launch(h.stream, &h.cell, 2) == cudaSuccess);
    h.gate.arrived();
    other.reset();
    CHECK_FALSE(h.tryAgain());
    h.gate.open();
    h.rest();
  }
  SUBCASE("a capture is open") {
    auto begin = [&] {
      return h.cuda.api().cudaStreamBeginCapture(h.stream, cudaStreamCaptureModeGlobal);
    };
    CHECK(h.hooks.streams().beginCapture(h.cuda.api(), h.stream, begin) == cudaSuccess);
    CHECK_FALSE(h.tryAgain());
    cudaGraph_t graph = nullptr;
    CHECK(h.hooks.streams().endCapture(
              [&] { return h.cuda.api().cudaStreamEndCapture(h.stream, &graph); }) == cudaSuccess);
  }
  SUBCASE("work of another class is there") {
    std::uint64_t ignored = 0;
    cudaStream_t high = h.Harness::stream(-2);
    CHECK(h.launch(high, &ignored, 1) == cudaSuccess);
    CHECK(h.synchronize(high) == cudaSuccess);
    h.hooks.streams().query(h.cuda.api(), h.stream); // the thread's last stream is this one again
    CHECK_FALSE(h.tryAgain());
  }
  CHECK(h.calls == calls);
}

TEST_CASE("few checks keep the bound of the work ahead") {
  Again h(2);
  for (int i = 0; i < 10; ++i) {
    h.launchOnce();
    h.rest();
  }
  h.holdPlain();
  std::uint64_t ignored = 0;
  CHECK(h.launch(h.stream, &ignored, 1, 1, &Harness::plainSymbol) == cudaSuccess);
  int made = 0;
  for (auto began = std::chrono::steady_clock::now();
       made < 100 && std::chrono::steady_clock::now() - began < 50ms; ++made)
    h.launchOnce();
  CHECK(made <= 4); // of 5 ms, and the operation that waited
  h.highGate.open();
  h.rest();
}

TEST_CASE("a launch like earlier ones that fails is taken back, and leaves its error") {
  Again h;
  h.launches(10);
  h.rest();
  std::uint64_t before = 0;
  std::optional<cudaError_t> status;
  CHECK(eventually([&] {
    CHECK(h.launch(h.stream, &h.cell, 1) == cudaSuccess);
    before = h.ahead();
    return (status = h.tryAgain(1, cudaErrorInvalidValue)).has_value();
  }));
  CHECK(status == cudaErrorInvalidValue);
  CHECK(FakeCuda::lastError() == cudaErrorInvalidValue);
  FakeCuda::lastError() = cudaSuccess;
  CHECK(h.ahead() == before);
  h.rest();
}
