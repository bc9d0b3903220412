// Best-effort work that goes to CUDA at once while no other process or class is there: how far
// ahead, until when, and in which order with later queued work.
#include "ahead.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

using namespace tally;
using namespace tally::test;
using namespace std::chrono_literals;

TEST_CASE("alone launches go at once; from the moment when somebody joins they are queued") {
  Ahead h;
  cudaStream_t stream = h.stream(0);
  std::uint64_t cell = 0, expected = 0;
  for (std::uint32_t round = 1; round <= 3; ++round) {
    std::uint64_t before = h.ahead(), queuedBefore = h.queued();
    for (std::uint32_t i = 0; i < 20; ++i) {
      CHECK(h.launch(stream, &cell, i) == cudaSuccess);
      expected = Harness::mixed(expected, i);
    }
    CHECK(h.ahead() == before + 20);
    std::unique_ptr<runtime::ArenaSlot> other = h.join(round == 2 ? 2 : 0);
    for (std::uint32_t i = 0; i < 20; ++i) {
      CHECK(h.launch(stream, &cell, i) == cudaSuccess);
      expected = Harness::mixed(expected, i);
    }
    CHECK(h.ahead() == before + 20);
    CHECK(h.synchronize(stream) == cudaSuccess);
    CHECK(h.queued() == queuedBefore + 20);
    CHECK(cell == expected);
  }
}

TEST_CASE("libraries' launches go at once too, and are counted once, as theirs") {
  Ahead h;
  cudaStream_t stream = h.stream(0);
  std::uint64_t cell = 0;
  CHECK(h.launch(stream, &cell, 1) == cudaSuccess);
  int made = 0;
  auto call = [&] {
    ++made;
    return cudaSuccess;
  };
  auto take = [] { return hooks::TakenLaunch{}; };
  auto see = [](hooks::HighFootprints &, const hooks::CudaApi &, hooks::StreamState &) {};
  static const char kernel = 0;
  CHECK(h.hooks.libraries().launch(stream, {&kernel, 8}, call, take, see) == cudaSuccess);
  CHECK(made == 1);
  CHECK(h.ahead() == 1);
  CHECK(h.hooks.totals().foreignBestEffort == 1);
  CHECK(h.queued() == 0);
}

TEST_CASE("a process of the same class is not in the way") {
  Ahead h;
  cudaStream_t stream = h.stream(0);
  std::uint64_t cell = 0;
  std::unique_ptr<runtime::ArenaSlot> other;
  CHECK(h.launch(stream, &cell, 1) == cudaSuccess);
  other = h.join(1);
  CHECK(h.launch(stream, &cell, 2) == cudaSuccess);
  CHECK(h.synchronize(stream) == cudaSuccess);
  CHECK(h.ahead() == 2);
}

TEST_CASE("what is queued comes behind what went at once, on its stream and behind its events") {
  Ahead h;
  cudaStream_t first = h.stream(0), second = h.stream(0);
  std::uint64_t cell = 0;
  CHECK(h.launch(first, &cell, 1) == cudaSuccess);
  CHECK(h.synchronize(first) == cudaSuccess);
  h.gated = true;
  std::unique_ptr<runtime::ArenaSlot> other;
  cudaStream_t later = first;
  SUBCASE("the stream") {
    CHECK(h.launch(first, &cell, 2) == cudaSuccess);
    h.gate.arrived();
    other = h.join(0);
  }
  SUBCASE("an event that was recorded at once") {
    cudaEvent_t event = h.event();
    CHECK(h.launch(first, &cell, 2) == cudaSuccess);
    h.gate.arrived();
    h.record(event, first);
    other = h.join(0);
    h.wait(second, event);
    later = second;
  }
  SUBCASE("an event that is recorded behind the change") {
    cudaEvent_t event = h.event();
    CHECK(h.launch(first, &cell, 2) == cudaSuccess);
    h.gate.arrived();
    other = h.join(0);
    h.record(event, first);
    h.wait(second, event);
    later = second;
  }
  CHECK(h.launch(later, &cell, 3) == cudaSuccess);
  std::this_thread::sleep_for(5ms);
  CHECK(cell == Harness::mixed(0, 1));
  h.gate.open();
  CHECK(h.synchronize(later) == cudaSuccess);
  CHECK(cell == Harness::mixed(Harness::mixed(Harness::mixed(0, 1), 2), 3));
  CHECK(h.queued() == 1);
}

TEST_CASE("what is queued is over before anything goes at once again") {
  Ahead h;
  cudaStream_t stream = h.stream(0);
  std::uint64_t cell = 0;
  CHECK(h.launch(stream, &cell, 1) == cudaSuccess);
  CHECK(h.synchronize(stream) == cudaSuccess);
  std::unique_ptr<runtime::ArenaSlot> other = h.join(0);
  h.gated = true;
  CHECK(h.launch(stream, &cell, 2) == cudaSuccess);
  h.gate.arrived();
  other.reset();
  // No other thread opens the gate: the wait for queued work ends all the same.
  CHECK(h.launch(stream, &cell, 3) == cudaSuccess);
  CHECK(h.ahead() == 1);
  h.gate.open();
  CHECK(h.synchronize(stream) == cudaSuccess);
  CHECK(h.launch(stream, &cell, 4) == cudaSuccess);
  CHECK(h.synchronize(stream) == cudaSuccess);
  CHECK(eventually([&] {
    h.launch(stream, &cell, 5);
    return h.ahead() > 1;
  }));
}

TEST_CASE(
    "a stream is ahead of the device by no more than the bound, and no thread waits for ever") {
  Ahead h;
  h.cuda.msOfOperation = 0.4F; // the events report this duration; records are operations too
  cudaStream_t stream = h.stream(0);
  std::uint64_t cell = 0;
  for (std::uint32_t i = 0; i < 10; ++i)
    CHECK(h.launch(stream, &cell, i) == cudaSuccess);
  CHECK(h.synchronize(stream) == cudaSuccess);
  h.gated = true;
  std::atomic<int> made{0};
  auto began = std::chrono::steady_clock::now();
  std::thread launcher([&] {
    for (std::uint32_t i = 0; i < 50; ++i, ++made)
      h.launch(stream, &cell, i);
  });
  std::this_thread::sleep_for(30ms);
  CHECK(made.load() >= 2);
  CHECK(made.load() <= 12);
  launcher.join(); // although no work runs: the gate may wait for this thread's next step
  CHECK(std::chrono::steady_clock::now() - began > 100ms);
  CHECK(made == 50);
  h.gate.open();
  CHECK(h.synchronize(stream) == cudaSuccess);
}

TEST_CASE(
    "a thread that pauses between its launches is no further ahead of a device that is held up") {
  Ahead h;
  h.cuda.msOfOperation = 0.2F; // the events report this duration; records are operations too
  cudaStream_t stream = h.stream(0);
  std::uint64_t cell = 0, ignored = 0;
  auto plain = [&] {
    CHECK(h.launch(stream, &ignored, 1, 1, &Harness::plainSymbol) == cudaSuccess);
  };
  for (int i = 0; i < 50; ++i) { // the device keeps up with the thread
    CHECK(h.launch(stream, &cell, 1) == cudaSuccess);
    if (i % 4 == 0)
      plain();
    std::this_thread::sleep_for(100us);
  }
  h.holdPlain();
  plain();
  int made = 0;
  for (auto began = std::chrono::steady_clock::now();
       made < 100 && std::chrono::steady_clock::now() - began < 80ms; ++made) {
    std::this_thread::sleep_for(2ms);
    CHECK(h.launch(stream, &cell, 1) == cudaSuccess);
  }
  CHECK(made <= 12); // 5 ms, what the device may have done meanwhile, and the operation that waited
  h.highGate.open();
  CHECK(h.synchronize(stream) == cudaSuccess);
}

TEST_CASE("work is further ahead where the device ran out of it behind a wait, up to four times") {
  Ahead h;
  cudaStream_t stream = h.stream(0);
  std::uint64_t cell = 0, ignored = 0;
  h.cuda.msOfOperation = 0.25F;
  for (int i = 0; i < 10; ++i) {
    CHECK(h.launch(stream, &cell, 1) == cudaSuccess);
    CHECK(h.synchronize(stream) == cudaSuccess);
    std::this_thread::sleep_for(1ms);
  }
  // Returns how many operations go while the device is held. The last one waits, and goes when the
  // device has made no progress for long.
  auto ahead = [&] {
    h.holdPlain();
    CHECK(h.launch(stream, &ignored, 1, 1, &Harness::plainSymbol) == cudaSuccess);
    int made = 0;
    for (auto began = std::chrono::steady_clock::now();
         made < 200 && std::chrono::steady_clock::now() - began < 50ms; ++made)
      CHECK(h.launch(stream, &cell, 1) == cudaSuccess);
    h.highGate.open(1);
    return made;
  };
  bool isTheThreadsWait = false;
  SUBCASE("the thread paused") {}
  SUBCASE("the thread waited for the end itself") { isTheThreadsWait = true; }
  std::vector<int> made;
  for (int round = 0; round < 4; ++round) {
    made.push_back(ahead());
    if (isTheThreadsWait)
      CHECK(h.synchronize(stream) == cudaSuccess);
    CHECK(eventually([&] {
      bool isOver = h.cuda.api().cudaStreamQuery(stream) == cudaSuccess;
      h.cuda.api().cudaGetLastError(); // clears the error of a query's answer "no"
      return isOver;
    }));
    std::this_thread::sleep_for(5ms);
  }
  // 5 ms and the operation in progress; the reported durations of the fake's groups differ.
  constexpr int most = 22, least[] = {4, 20, 32, 32};
  for (std::size_t round = 0; round < made.size(); ++round) {
    CAPTURE(round);
    CHECK(made[round] >= (isTheThreadsWait ? least[0] : least[round]));
    CHECK(made[round] <= most * (isTheThreadsWait ? 1 : 1 << std::min<std::size_t>(round, 2)));
  }
  CHECK(h.synchronize(stream) == cudaSuccess);
}

TEST_CASE("what must be scheduled even alone is queued") {
  std::function<void(hooks::Settings &)> change;
  SUBCASE("no run-ahead") {
    change = [](hooks::Settings &all) { all.runAheadMicroseconds = 0; };
  }
  SUBCASE("variants are to be measured") {
    change = [](hooks::Settings &all) { all.variants.areProfiled = true; };
  }
  SUBCASE("the policy holds back") {
    change = [](hooks::Settings &all) {
      all.policy = runtime::AnyPolicy(
          [](const runtime::Snapshot &) {
            runtime::Decision decision;
            decision.runBestEffort = true;
            decision.sms = 4;
            return decision;
          },
          false, true);
    };
  }
  Ahead h(change);
  cudaStream_t stream = h.stream(0);
  std::uint64_t cell = 0;
  CHECK(h.launch(stream, &cell, 1) == cudaSuccess);
  CHECK(h.synchronize(stream) == cudaSuccess);
  CHECK(h.ahead() == 0);
}

TEST_CASE("where streams are of several classes their work is queued") {
  Ahead h;
  cudaStream_t low = h.stream(0), other = h.stream(-2);
  std::uint64_t cell = 0, ignored = 0;
  CHECK(h.launch(low, &cell, 1) == cudaSuccess);
  CHECK(h.launch(other, &ignored, 1) == cudaSuccess);
  CHECK(h.launch(low, &cell, 2) == cudaSuccess);
  for (cudaStream_t each : {low, other})
    CHECK(h.synchronize(each) == cudaSuccess);
  CHECK(h.ahead() == 1);
  CHECK(cell == Harness::mixed(Harness::mixed(0, 1), 2));
}

TEST_CASE("a graph behind its launch on another stream, which went at once, is CUDA's to order") {
  Ahead h;
  cudaStream_t one = h.stream(0), two = h.stream(0);
  std::uint64_t cell = 0;
  Graphs g(h);
  g.kernel(&cell, 1);
  cudaGraphExec_t exec = g.instantiate();
  auto launch = [&](cudaStream_t on) {
    CHECK(g.launch(exec, on) == cudaSuccess);
    CHECK(h.synchronize(on) == cudaSuccess);
  };
  launch(one);
  CHECK(h.ahead() == 1);
  std::unique_ptr<runtime::ArenaSlot> other = h.join(0);
  SUBCASE("the same stream") {
    launch(one);
    CHECK(g.statistics() == "1 in parts, 0 whole");
  }
  SUBCASE("another one") {
    launch(two);
    CHECK(g.statistics() == "0 in parts, 1 whole (after-at-once 1)");
    launch(one);
    CHECK(g.statistics() == "1 in parts, 1 whole (after-at-once 1)");
  }
}

TEST_CASE("a call that fails leaves nothing on its stream") {
  Ahead h;
  std::uint64_t cell = 0;
  int busy = 0;
  constexpr int rounds = 30;
  for (int round = 0; round < rounds; ++round) {
    cudaStream_t stream = h.stream(0);
    auto call = [] { return FakeCuda::failed(cudaErrorInvalidValue); };
    CHECK(h.hooks.rules().queue(h.cuda.api(), stream, mayQueue, call) == cudaErrorInvalidValue);
    CHECK(FakeCuda::lastError() == cudaErrorInvalidValue);
    busy += h.hooks.streams().query(h.cuda.api(), stream) == cudaErrorNotReady ? 1 : 0;
    FakeCuda::lastError() = cudaSuccess;
    CHECK(h.launch(stream, &cell, 1) == cudaSuccess);
    CHECK(h.synchronize(stream) == cudaSuccess);
  }
  CHECK(busy <= rounds / 2); // the fake runtime's threads may be late
  CHECK(h.ahead() == rounds);
}

TEST_CASE("a capture is left alone") {
  Ahead h;
  cudaStream_t stream = h.stream(0), other = h.stream(0);
  std::uint64_t cell = 0;
  for (std::uint32_t i = 0; i < 5; ++i)
    CHECK(h.launch(other, &cell, i) == cudaSuccess);
  auto begin = [&] {
    return h.cuda.api().cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  };
  CHECK(h.hooks.streams().beginCapture(h.cuda.api(), stream, begin) == cudaSuccess);
  int records = h.cuda.recordsOn(other);
  for (std::uint32_t i = 0; i < 200; ++i)
    CHECK(h.launch(other, &cell, i) == cudaSuccess);
  CHECK(h.cuda.recordsOn(other) == records);
  cudaGraph_t graph = nullptr;
  CHECK(h.hooks.streams().endCapture(
            [&] { return h.cuda.api().cudaStreamEndCapture(stream, &graph); }) == cudaSuccess);
  CHECK(h.synchronize(other) == cudaSuccess);
}
