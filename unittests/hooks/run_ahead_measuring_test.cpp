// How long best-effort work takes that goes to CUDA at once: which operations are measured, and
// what that costs.
#include "ahead.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <iterator>
#include <thread>

using namespace tally;
using namespace tally::test;
using namespace std::chrono_literals;

TEST_CASE("a size of a kernel that takes far longer than its others is known from its first time") {
  Ahead h;
  cudaStream_t stream = h.stream(0);
  std::uint64_t cell = 0;
  auto launches = [&](int count, std::uint32_t blocks, float ms) {
    h.cuda.msOfOperation = ms;
    for (int i = 0; i < count; ++i) {
      CHECK(h.launch(stream, &cell, 1, blocks) == cudaSuccess);
      CHECK(h.synchronize(stream) == cudaSuccess);
    }
  };
  launches(100, 1, 0.001F);
  launches(2, 2, 2);
  h.gated = true;
  std::atomic<int> made{0};
  std::thread launcher([&] {
    for (std::uint32_t i = 0; i < 20; ++i, ++made)
      h.launch(stream, &cell, i, 2);
  });
  std::this_thread::sleep_for(20ms);
  CHECK(made.load() <= 3);
  h.gate.open();
  launcher.join();
  CHECK(h.synchronize(stream) == cudaSuccess);
}

TEST_CASE("a group's time counts as its operations' own where nothing else can be in it") {
  Ahead h;
  cudaStream_t stream = h.stream(0), other = h.stream(0);
  std::uint64_t cell = 0, ignored = 0;
  auto launches = [&](int count) {
    for (int i = 0; i < count; ++i)
      CHECK(h.launch(stream, &cell, 1) == cudaSuccess);
  };
  auto rest = [&] {
    CHECK(h.synchronize(stream) == cudaSuccess);
    std::this_thread::sleep_for(2ms);
  };
  h.cuda.msOfOperation = 0.05F;
  for (int i = 0; i < 20; ++i) {
    launches(1);
    rest();
  }
  h.cuda.msBetween = 100;
  int least = 6, most = 60;
  SUBCASE("the device waited for the thread") {
    for (int i = 0; i < 100; ++i) {
      launches(1);
      CHECK(h.synchronize(stream) == cudaSuccess);
    }
  }
  SUBCASE("another stream had work") {
    h.gated = true;
    for (int i = 0; i < 20; ++i) {
      launches(2);
      CHECK(h.launch(other, &ignored, 1) == cudaSuccess);
    }
    h.gate.open();
  }
  SUBCASE("all of it was ahead of the device") {
    h.gated = true;
    launches(40);
    h.gate.open();
    least = 0;
    most = 4;
  }
  rest();
  h.holdPlain();
  CHECK(h.launch(stream, &ignored, 1, 1, &Harness::plainSymbol) == cudaSuccess);
  int made = 0;
  for (auto began = std::chrono::steady_clock::now();
       made < 100 && std::chrono::steady_clock::now() - began < 50ms; ++made)
    launches(1);
  CHECK(made >= least);
  CHECK(made <= most);
  h.highGate.open();
  CHECK(h.synchronize(stream) == cudaSuccess);
}

TEST_CASE("events stand between groups, not behind each operation") {
  Ahead h;
  h.cuda.msOfOperation = 0.01F;
  cudaStream_t stream = h.stream(0);
  std::uint64_t cell = 0, from = 1, to = 0;
  auto steps = [&](std::uint32_t count) {
    int before = h.cuda.recordsOn(stream);
    for (std::uint32_t i = 0; i < count; ++i) {
      CHECK(h.launch(stream, &cell, i) == cudaSuccess);
      CHECK(h.hooks.copies().copyAsync(h.cuda.api(), &to, &from, sizeof to,
                                       cudaMemcpyDeviceToDevice, stream) == cudaSuccess);
      CHECK(h.launch(stream, &cell, i) == cudaSuccess);
    }
    CHECK(h.synchronize(stream) == cudaSuccess);
    return h.cuda.recordsOn(stream) - before;
  };
  steps(1000);
  CHECK(steps(1000) < 1000);
}

TEST_CASE("a kernel's code is loaded before its time is taken") {
  Ahead h;
  cudaStream_t stream = h.stream(0);
  std::uint64_t cell = 0;
  int records = -1;
  h.cuda.atAttributeQuery = [&] { records = h.cuda.recordsOn(stream); };
  CHECK(h.launch(stream, &cell, 1) == cudaSuccess);
  CHECK(records == 0);
  CHECK(h.synchronize(stream) == cudaSuccess);
  CHECK(h.cuda.recordsOn(stream) > 0);
}

TEST_CASE("a new size of a kernel is not measured alone between many measured ones") {
  Ahead h;
  h.cuda.msOfOperation = 0.01F;
  cudaStream_t stream = h.stream(0);
  std::uint64_t cell = 0;
  // Returns the number of events that 100 launches took.
  auto launches = [&](auto blocks) {
    int before = h.cuda.recordsOn(stream);
    for (std::uint32_t i = 0; i < 100; ++i)
      CHECK(h.launch(stream, &cell, 1, blocks(i)) == cudaSuccess);
    CHECK(h.synchronize(stream) == cudaSuccess);
    std::this_thread::sleep_for(2ms);
    return h.cuda.recordsOn(stream) - before;
  };
  static constexpr std::uint32_t sizes[] = {1, 400, 50, 100, 150, 200, 250, 300};
  CHECK(launches([](std::uint32_t i) { return sizes[i % std::size(sizes)]; }) >= 8);
  launches([](std::uint32_t) { return 1U; }); // learns of the group before
  CHECK(launches([](std::uint32_t i) { return 2 + i; }) < 50);
  CHECK(launches([](std::uint32_t i) { return 401 + i; }) >= 100);
}

TEST_CASE("a thread slower than the device has few events, and is seldom measured again") {
  float msBetween = 0;
  int doubts = 0;
  SUBCASE("a group takes as long as the thread took to put it") { msBetween = 1; }
  SUBCASE("a group takes far longer") {
    // In the time below there are four doubts, at intervals of 100 to 800 ms.
    msBetween = 100;
    doubts = 4;
  }
  Ahead h;
  h.cuda.msOfOperation = 0.001F;
  cudaStream_t stream = h.stream(0);
  std::uint64_t cell = 0;
  constexpr int kernels = 20; // by size
  int pauses = 0;             // the stream may have run dry: an event is new behind each
  auto last = std::chrono::steady_clock::now();
  auto step = [&] {
    for (std::uint32_t blocks = 1; blocks <= kernels; ++blocks) {
      pauses += std::chrono::steady_clock::now() - last > 400us;
      CHECK(h.launch(stream, &cell, 1, blocks) == cudaSuccess);
      last = std::chrono::steady_clock::now();
      CHECK(h.synchronize(stream) == cudaSuccess);
    }
  };
  for (int i = 0; i < 5; ++i)
    step();
  h.cuda.msBetween = msBetween; // more than expected
  int before = h.cuda.recordsOn(stream);
  pauses = 0;
  auto began = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - began < 1300ms)
    step();
  auto groups = static_cast<int>((std::chrono::steady_clock::now() - began) / 5ms);
  // Each doubt has every kernel measured alone, by two events, some of them twice.
  constexpr int eventsOfDoubt = 4 * kernels;
  int records = h.cuda.recordsOn(stream) - before;
  CHECK(records <= groups + pauses + doubts * eventsOfDoubt);
  CHECK(records >= doubts * kernels);
}
