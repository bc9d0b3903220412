// The order of operations: events, the default streams, and calls that bypass the queue; over the
// fake CUDA runtime.
#include "../support/files.h"
#include "../support/variable.h"
#include "captured.h"
#include "harness.h"

using namespace tally;
using namespace tally::test;
using namespace std::chrono_literals;

TEST_CASE("a high-priority stream waits for a best-effort event until its record is issued") {
  Harness h;
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  std::uint64_t cell = 0;
  cudaEvent_t event = h.event();
  h.gated = true;
  h.launch(low, &cell, 2, 4);
  h.hooks.events().record(h.cuda.api(), event, low, 0);
  CHECK(h.hooks.events().query(h.cuda.api(), event) == cudaErrorNotReady);
  float ms = 0;
  CHECK(h.hooks.events().elapsedTime(h.cuda.api(), &ms, event, event) == cudaErrorNotReady);
  std::uint64_t seen = 0;
  std::thread waiter([&] {
    h.hooks.events().wait(h.cuda.api(), high, event, 0);
    h.hostFunction(high, [&] { seen = cell; });
    h.synchronize(high);
  });
  std::this_thread::sleep_for(5ms);
  h.gate.open();
  waiter.join();
  CHECK(seen == Harness::mixed(0, 2, 4));
}

TEST_CASE("best-effort work that high-priority work waits for does not wait for other such work") {
  Harness h;
  cudaStream_t low = h.stream(0), high = h.stream(-1), busy = h.stream(-1);
  std::uint64_t cell = 0, other = 0;
  h.holdPlain();
  h.launch(busy, &other, 1, 1, &Harness::plainSymbol);
  h.highGate.arrived();
  h.launch(low, &cell, 2, 4);
  cudaEvent_t event = h.event();
  h.hooks.events().record(h.cuda.api(), event, low, 0);
  std::this_thread::sleep_for(5ms);
  CHECK(cell == 0); // held back
  h.hooks.events().wait(h.cuda.api(), high, event, 0);
  CHECK(h.synchronize(high) == cudaSuccess); // while `busy` is
  CHECK(cell == Harness::mixed(0, 2, 4));
  h.highGate.open();
}

TEST_CASE("a time between two best-effort events that has a request in it is told of, once") {
  Harness h;
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  std::uint64_t cell = 0, other = 0;
  cudaEvent_t start = h.event(), end = h.event();
  float ms = 0;
  // A record behind a held launch is queued; any other record is made at once.
  h.gated = true;
  auto timed = [&](bool disturbed) {
    h.launch(low, &cell, 2, 4);
    h.hooks.events().record(h.cuda.api(), start, low, 0);
    h.gate.open(4);
    if (disturbed) {
      h.launch(high, &other, 1, 1);
      h.gate.open(1);
      CHECK(h.synchronize(high) == cudaSuccess);
    }
    h.launch(low, &cell, 2, 4);
    h.hooks.events().record(h.cuda.api(), end, low, 0);
    h.gate.open(4);
    CHECK(h.synchronize(low) == cudaSuccess);
    return test::captured(
        [&] { CHECK(h.hooks.events().elapsedTime(h.cuda.api(), &ms, start, end) == cudaSuccess); });
  };
  CHECK(timed(false).empty());
  CHECK(test::count(timed(true), "has requests in it") == 1);
  CHECK(timed(true).empty());
}

TEST_CASE("the legacy stream comes after what blocking best-effort streams have queued") {
  Harness h;
  cudaStream_t blocking = h.stream(0, cudaStreamDefault), apart = h.stream(0);
  h.stream(-1);
  std::uint64_t cell = 0, far = 0, seen = 0;
  h.gated = true;
  h.launch(blocking, &cell, 3, 4);
  std::thread opener([&] {
    std::this_thread::sleep_for(5ms);
    h.gate.open();
  });
  h.hostFunction(nullptr, [&] { seen = cell; });
  CHECK(h.synchronize(nullptr) == cudaSuccess);
  opener.join();
  CHECK(seen == Harness::mixed(0, 3, 4));
  // The call does not wait for a non-blocking stream's work.
  Gate closed;
  h.hostFunction(apart, [&] { closed.pass(); });
  h.launch(apart, &far, 3, 4);
  CHECK(h.hostFunction(nullptr, [] {}) == cudaSuccess);
  CHECK(h.synchronize(nullptr) == cudaSuccess);
  CHECK(far == 0);
  closed.open();
  CHECK(h.synchronize(apart) == cudaSuccess);
}

TEST_CASE(
    "a stream that a thread knew waits for what is ordered before it as soon as there is any") {
  // The thread may learn of it just before that, or not.
  for (int round = 0; round < 10; ++round) {
    // In an arena the hooks count calls before there is best-effort work.
    TemporaryFolder folder;
    Variable arena("TALLY_ARENA", folder.file("arena"));
    Harness h(false, 0, hooks::Settings().variants.kinds, true);
    cudaStream_t high = h.stream(-1, cudaStreamDefault);
    std::uint64_t ignored = 0, cell = 0, expected = 0;
    auto launchAndKnow = [&] {
      h.launch(high, &ignored, 1, 1, &Harness::plainSymbol);
      return hooks::threadState.last.scopes != nullptr;
    };
    CHECK(eventually(launchAndKnow));
    std::thread beginner([&] { h.hooks.streams().setClass(h.cuda.api(), nullptr, true); });
    while (!h.hooks.served().engine())
      launchAndKnow();
    beginner.join();
    CHECK(h.synchronize(high) == cudaSuccess);
    h.gated = true;
    std::thread([&] { h.launch(nullptr, &cell, 2); }).join();
    std::thread opener([&] {
      std::this_thread::sleep_for(5ms);
      h.gate.open();
    });
    h.launch(high, &cell, 3, 1, &Harness::plainSymbol);
    CHECK(h.synchronize(high) == cudaSuccess);
    opener.join();
    mixBlock({&expected, 2}, 0);
    mixBlock({&expected, 3}, 0);
    CHECK(cell == expected);
  }
}

TEST_CASE("kernels on the default stream of a thread are queued, calls on it keep their thread") {
  Harness h(true);
  std::uint64_t cell = 0;
  h.gated = true;
  h.launch(cudaStreamPerThread, &cell, 1, 3);
  std::thread::id by;
  std::thread opener([&] {
    h.gate.arrived();
    h.gate.open();
  });
  // Like a call that puts work on a stream: it waits for the kernel.
  auto call = [&] {
    by = std::this_thread::get_id();
    CHECK(cell == Harness::mixed(0, 1, 3));
    return cudaSuccess;
  };
  CHECK(h.hooks.rules().queue(h.cuda.api(), cudaStreamPerThread, mayQueue, call) == cudaSuccess);
  opener.join();
  CHECK(by == std::this_thread::get_id());
  CHECK(h.hooks.totals().throughVariants == 1);
}

TEST_CASE("nothing of tally's stands behind a call on a thread's default stream") {
  Harness h(true);
  std::uint64_t cell = 0;
  // A program that has waited for its work may ask whether the stream is idle.
  auto call = [&] {
    CHECK(h.hostFunction(cudaStreamPerThread, [&] { cell = cell * 7 + 1; }) == cudaSuccess);
  };
  h.launch(cudaStreamPerThread, &cell, 1);
  CHECK(h.synchronize(cudaStreamPerThread) == cudaSuccess);
  int before = h.cuda.recordsOn(cudaStreamPerThread);
  call();
  call();
  CHECK(h.cuda.recordsOn(cudaStreamPerThread) == before);
  // The hooks record once, before the next queued operation.
  h.launch(cudaStreamPerThread, &cell, 2);
  h.launch(cudaStreamPerThread, &cell, 3);
  CHECK(h.cuda.recordsOn(cudaStreamPerThread) == before + 1);
  CHECK(h.synchronize(cudaStreamPerThread) == cudaSuccess);
  CHECK(cell == Harness::mixed(Harness::mixed((Harness::mixed(0, 1) * 7 + 1) * 7 + 1, 2), 3));
}

TEST_CASE("nothing of tally's stands behind an event on a thread's stream of high priority") {
  Harness h;
  cudaStream_t low = h.stream(0);
  h.stream(-1);
  std::uint64_t cell = 0, other = 0;
  h.launch(low, &cell, 1); // from here on a thread waits for the end of such work
  CHECK(h.synchronize(low) == cudaSuccess);
  cudaEvent_t event = h.event();
  h.launch(cudaStreamPerThread, &other, 1, 1, &Harness::plainSymbol);
  CHECK(h.hooks.events().record(h.cuda.api(), event, cudaStreamPerThread, 0) == cudaSuccess);
  CHECK(h.cuda.lastRecordOn(cudaStreamPerThread) == event);
  h.launch(cudaStreamPerThread, &other, 1, 1, &Harness::plainSymbol);
  cudaEvent_t marker = h.cuda.lastRecordOn(cudaStreamPerThread);
  CHECK(marker != event);
  CHECK(h.synchronize(cudaStreamPerThread) == cudaSuccess);
  int records = h.cuda.recordsOn(cudaStreamPerThread);
  CHECK(h.hooks.events().record(h.cuda.api(), event, cudaStreamPerThread, 0) == cudaSuccess);
  // The hooks record an event behind the earlier work too.
  CHECK(h.cuda.recordsOn(cudaStreamPerThread) == records + 2);
}

TEST_CASE("a record that is made late spoils no capture that another thread has begun") {
  Harness h(true);
  cudaStream_t blocking = h.stream(0, cudaStreamDefault);
  std::uint64_t cell = 0;
  h.launch(nullptr, &cell, 1);
  CHECK(h.synchronize(nullptr) == cudaSuccess);
  cudaEvent_t event = h.event();
  h.gated = true;
  auto begin = [&] {
    // Behind the queue's drain.
    std::thread([&] {
      h.launch(nullptr, &cell, 2);
      h.record(event, nullptr);
    }).join();
    h.gate.arrived();
    return h.cuda.api().cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal);
  };
  CHECK(h.hooks.streams().beginCapture(h.cuda.api(), blocking, begin) == cudaSuccess);
  h.gate.open();
  CHECK(eventually([&] { return h.hooks.events().query(h.cuda.api(), event) == cudaSuccess; }));
  CHECK(cell == Harness::mixed(Harness::mixed(0, 1), 2));
  CHECK(h.cuda.spoiltCaptures == 0);
  auto end = [&] { return h.cuda.api().cudaStreamEndCapture(blocking, nullptr); };
  CHECK(h.hooks.streams().endCapture(end) == cudaSuccess);
}

TEST_CASE("launches come behind what was put on their stream past the queue") {
  for (cudaStream_t stream : {cudaStream_t(nullptr), cudaStreamPerThread}) {
    Harness h(true);
    std::uint64_t cell = 0;
    Gate held;
    CHECK(h.hostFunction(stream, [&] {
      held.pass();
      cell = 5;
    }) == cudaSuccess);
    h.launch(stream, &cell, 1, 3);
    held.arrived();
    std::this_thread::sleep_for(5ms);
    CHECK(h.cuda.log().empty());
    held.open();
    CHECK(h.synchronize(stream) == cudaSuccess);
    CHECK(cell == Harness::mixed(5, 1, 3));
  }
}

TEST_CASE("launches on a thread's default stream come behind what was put on the legacy one") {
  for (bool queued : {false, true}) {
    Harness h(true);
    std::uint64_t cell = 0, other = 0;
    Gate held;
    h.launch(cudaStreamPerThread, &cell, 9);
    CHECK(h.synchronize(cudaStreamPerThread) == cudaSuccess);
    h.gated = queued;
    if (queued)
      h.launch(nullptr, &other, 1);
    CHECK(h.hostFunction(nullptr, [&] {
      held.pass();
      cell = 5;
    }) == cudaSuccess);
    h.launch(cudaStreamPerThread, &cell, 1, 3);
    if (queued)
      h.gate.open();
    held.arrived();
    std::this_thread::sleep_for(5ms);
    CHECK(cell == Harness::mixed(0, 9));
    held.open();
    CHECK(h.synchronize(cudaStreamPerThread) == cudaSuccess);
    CHECK(cell == Harness::mixed(5, 1, 3));
  }
}

TEST_CASE("launches of one thread come behind what others have queued") {
  Harness h(true);
  std::uint64_t cell = 0;
  h.gated = true;
  h.launch(nullptr, &cell, 1, 3);
  std::thread other([&] {
    h.launch(cudaStreamPerThread, &cell, 2, 3);
    CHECK(h.synchronize(cudaStreamPerThread) == cudaSuccess);
  });
  std::this_thread::sleep_for(5ms);
  CHECK(h.hooks.totals().throughVariants == 0);
  h.gate.open();
  other.join();
  CHECK(h.hooks.totals().throughVariants == 2);
  CHECK(cell == Harness::mixed(Harness::mixed(0, 1, 3), 2, 3));
}

TEST_CASE("what is queued behind a call that another thread makes in its turn starts after it") {
  Harness h(true);
  cudaStream_t stream = h.stream(0);
  std::uint64_t cell = 0;
  h.launch(stream, &cell, 1);
  std::atomic<bool> reached{false}, goOn{false};
  std::thread caller([&] {
    h.launchBad(stream, [&] {
      reached = true;
      while (!goOn)
        std::this_thread::sleep_for(1ms);
    });
  });
  CHECK(eventually([&] { return reached.load(); }));
  std::uint64_t before = std::atomic_ref(cell).load();
  h.launch(stream, &cell, 2);
  std::this_thread::sleep_for(20ms);
  CHECK(std::atomic_ref(cell).load() == before);
  goOn = true;
  caller.join();
  CHECK(h.synchronize(stream) == cudaSuccess);
  CHECK(cell == Harness::mixed(Harness::mixed(0, 1), 2));
}

TEST_CASE("an event may be destroyed while a queued operation names it") {
  Harness h(true);
  cudaStream_t stream = h.stream(0), other = h.stream(0);
  cudaEvent_t event = h.event();
  std::uint64_t cell = 0;
  h.gated = true;
  h.launch(stream, &cell, 1);
  SUBCASE("a record and a wait") {
    CHECK(h.hooks.events().record(h.cuda.api(), event, stream, 0) == cudaSuccess);
    CHECK(h.hooks.events().wait(h.cuda.api(), other, event, 0) == cudaSuccess);
  }
  SUBCASE("a wait") { CHECK(h.hooks.events().wait(h.cuda.api(), other, event, 0) == cudaSuccess); }
  CHECK(h.hooks.events().destroy(h.cuda.api(), event) == cudaSuccess); // before the gate is open
  CHECK(!h.cuda.isDestroyed(event));
  h.gate.open();
  CHECK(h.hooks.synchronizeDevice(h.cuda.api()) == cudaSuccess);
  CHECK(h.hooks.events().destroy(h.cuda.api(), h.event()) == cudaSuccess);
  CHECK(h.cuda.isDestroyed(event));
}

TEST_CASE("a later record by high priority does not move a wait that is queued") {
  Harness h;
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  cudaEvent_t event = h.event();
  std::uint64_t cell = 0;
  CHECK(h.hooks.events().record(h.cuda.api(), event, high, 0) == cudaSuccess);
  h.gated = true;
  h.launch(low, &cell, 1);
  CHECK(h.hooks.events().wait(h.cuda.api(), low, event, 0) == cudaSuccess);
  std::atomic<bool> recorded{false};
  std::thread recorder([&] {
    CHECK(h.hooks.events().record(h.cuda.api(), event, high, 0) == cudaSuccess);
    recorded = true;
  });
  std::this_thread::sleep_for(20ms);
  CHECK(!recorded);
  h.gate.open();
  recorder.join();
  CHECK(h.synchronize(low) == cudaSuccess);
}

TEST_CASE("a thread's default stream stays what it is when other streams come and go") {
  Harness h(true);
  std::uint64_t cell = 0;
  h.gated = true;
  h.launch(cudaStreamPerThread, &cell, 3);
  h.stream(0);
  CHECK(h.hooks.streams().query(h.cuda.api(), cudaStreamPerThread) == cudaErrorNotReady);
  h.gate.open();
  CHECK(h.synchronize(cudaStreamPerThread) == cudaSuccess);
  CHECK(cell == Harness::mixed(0, 3));
}
