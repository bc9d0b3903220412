// Best-effort work that goes to CUDA at once while no other process or class is there: how far
// ahead, until when, and in which order with later queued work.
#include "built_graphs.h"

#include "../support/files.h"
#include "../support/variable.h"
#include "arena/arena.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

using namespace tally;
using namespace tally::test;
using namespace std::chrono_literals;

namespace {

/// A process with best-effort work alone. It joins an arena of the test's with its first work.
struct Ahead : Harness {
  explicit Ahead(const std::function<void(hooks::Settings &)> &change = [](hooks::Settings &) {})
      : Harness(settingsWith(change)) {}

  static hooks::Settings settingsWith(const std::function<void(hooks::Settings &)> &change) {
    hooks::Settings made = settings(true, 0, hooks::Settings().variants.kinds, true, 1);
    made.runAheadMicroseconds = 5000;
    change(made);
    return made;
  }
  std::uint64_t ahead() { return hooks.totals().ahead; }
  std::uint64_t queued() { return hooks.totals().throughVariants + hooks.totals().nonPreemptible; }
  /// Joins the arena as another process, as seen from this one.
  std::unique_ptr<runtime::ArenaSlot> join(std::uint32_t slotClass) {
    auto arena = runtime::Arena::open({path, std::string(), {}, false});
    REQUIRE(arena);
    auto slot = (*arena)->claim(slotClass, "other");
    REQUIRE(slot);
    return std::move(*slot);
  }

  TemporaryFolder folder;
  std::string path = folder.file("arena");
  Variable variable{"TALLY_ARENA", path};
};

} // namespace

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
