// Best-effort streams on separate tracks: they overlap, and still wait where CUDA's order demands
// it.
#include "built_graphs.h"

using namespace tally;
using namespace tally::test;
using namespace std::chrono_literals;

namespace {

struct Tracks : Harness {
  explicit Tracks(std::uint32_t count)
      : Harness(false, 0, hooks::Settings().variants.kinds, false, count) {}
};

} // namespace

TEST_CASE("streams on tracks of their own overlap, those on one do not") {
  for (std::uint32_t count : {1u, 2u}) {
    CAPTURE(count);
    Tracks h(count);
    cudaStream_t streams[] = {h.stream(0), h.stream(0), h.stream(0)};
    h.stream(-1);
    std::uint64_t cells[3] = {};
    h.gated = true;
    for (std::size_t i = 0; i < 3; ++i)
      h.launch(streams[i], &cells[i], 4, 2);
    CHECK(eventually([&] { return h.gate.waitingNow() == count; }));
    std::this_thread::sleep_for(5ms);
    CHECK(h.gate.waitingNow() == count);
    h.gate.open();
    CHECK(h.hooks.synchronizeDevice(h.cuda.api()) == cudaSuccess);
    for (std::uint64_t cell : cells)
      CHECK(cell == Harness::mixed(0, 4, 2));
  }
}

TEST_CASE("both tracks make way for a request, and go on") {
  Tracks h(2);
  cudaStream_t low[] = {h.stream(0), h.stream(0)}, high = h.stream(-1);
  std::uint64_t cells[2] = {}, ignored = 0;
  h.gated = true;
  for (std::size_t i = 0; i < 2; ++i)
    h.launch(low[i], &cells[i], 7, 4);
  CHECK(eventually([&] { return h.gate.waitingNow() == 2; }));
  h.holdPlain();
  CHECK(h.launch(high, &ignored, 1, 1, &Harness::plainSymbol) == cudaSuccess);
  h.highGate.arrived();
  h.settleRequest();
  h.gate.open();
  CHECK(eventually([&] { return h.hooks.totals().yields == 2; }));
  std::this_thread::sleep_for(5ms);
  for (std::uint64_t cell : cells)
    CHECK(cell == Harness::mixed(0, 7, 1)); // the block that had started
  h.highGate.open();
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(h.synchronize(low[i]) == cudaSuccess);
    CHECK(cells[i] == Harness::mixed(0, 7, 4));
  }
}

TEST_CASE("what one track has done is over, whatever another one has to do") {
  Tracks h(2);
  cudaStream_t first = h.stream(0), second = h.stream(0);
  h.stream(-1);
  std::uint64_t slow = 0, quick = 0;
  h.launchBesideHeld(first, &slow, second, &quick);
  CHECK(h.synchronize(second) == cudaSuccess);
  CHECK(quick == Harness::mixed(0, 2));
  CHECK_FALSE(h.hooks.served().engine()->queue().isIdle());
  CHECK_FALSE(h.hooks.served().engine()->queue().isOver(1));
  CHECK(h.hooks.served().engine()->queue().isOver(2));
  CHECK_FALSE(h.hooks.served().engine()->queue().isOverUpTo(2));
  h.gate.open();
  CHECK(eventually([&] { return h.hooks.served().engine()->queue().isOverUpTo(2); }));
  CHECK(slow == Harness::mixed(0, 1));
}

TEST_CASE("an event that another stream records anew does not move a wait that is queued") {
  Tracks h(3);
  cudaStream_t records = h.stream(0), waits = h.stream(0), other = h.stream(0);
  h.stream(-1);
  std::uint64_t cell = 0;
  std::atomic<int> value{0}, seen{-1};
  cudaEvent_t event = h.event();
  Gate closed;
  h.gated = true;
  h.launch(waits, &cell, 1); // later operations of that stream are held up
  h.gate.arrived();
  h.hostFunction(records, [&] {
    closed.pass();
    value = 1;
  });
  h.record(event, records);
  std::this_thread::sleep_for(5ms); // until it is made
  h.wait(waits, event);
  h.hostFunction(waits, [&] { seen = value.load(); });
  h.record(event, other); // where nothing is under way
  std::this_thread::sleep_for(5ms);
  h.gate.open();
  std::this_thread::sleep_for(5ms);
  CHECK(seen == -1);
  closed.open();
  CHECK(h.synchronize(waits) == cudaSuccess);
  CHECK(seen == 1);
}

TEST_CASE("a wait of the legacy stream for an event that is over orders blocking streams still") {
  Harness h(true, 0, hooks::Settings().variants.kinds, false, 2);
  cudaStream_t first = h.stream(0, cudaStreamDefault), second = h.stream(0, cudaStreamDefault);
  std::uint64_t slow = 0, quick = 0;
  h.launchBesideHeld(first, &slow, second, &quick);
  cudaEvent_t event = h.event();
  h.record(event, second);
  CHECK(h.synchronize(second) == cudaSuccess);
  CHECK(quick == Harness::mixed(0, 2));
  h.wait(nullptr, event);
  h.launch(second, &quick, 3);
  std::this_thread::sleep_for(5ms);
  CHECK(quick == Harness::mixed(0, 2));
  CHECK(h.hooks.streams().query(h.cuda.api(), nullptr) == cudaErrorNotReady);
  h.gate.open();
  CHECK(h.synchronize(second) == cudaSuccess);
  CHECK(slow == Harness::mixed(0, 1));
  CHECK(quick == Harness::mixed(Harness::mixed(0, 2), 3));
}

TEST_CASE("what a request waits for goes on every track that it depends on") {
  Tracks h(2);
  cudaStream_t first = h.stream(0), second = h.stream(0), high = h.stream(-1), busy = h.stream(-1);
  std::uint64_t cell = 0, other = 0;
  h.holdPlain();
  h.launch(busy, &other, 1, 1, &Harness::plainSymbol);
  h.highGate.arrived();
  cudaEvent_t between = h.event(), end = h.event();
  h.launch(first, &cell, 2, 4);
  h.record(between, first);
  h.wait(second, between);
  h.launch(second, &cell, 3, 4);
  h.record(end, second);
  std::this_thread::sleep_for(5ms);
  CHECK(cell == 0); // held back
  h.wait(high, end);
  CHECK(h.synchronize(high) == cudaSuccess); // while `busy` is
  CHECK(cell == Harness::mixed(Harness::mixed(0, 2, 4), 3, 4));
  h.highGate.open();
}

TEST_CASE("launches of one executable graph are in order on whichever tracks") {
  Tracks h(2);
  cudaStream_t first = h.stream(0), second = h.stream(0), high = h.stream(-1);
  std::uint64_t cell = 0, busy = 0;
  Graphs g(h);
  cudaGraphNode_t node = g.kernel(&cell, 1, 2);
  cudaGraphExec_t exec = g.instantiate();
  std::uint64_t expected = 0;
  auto launch = [&](cudaStream_t on, std::uint32_t value) {
    g.setKernel(exec, node, &cell, value);
    CHECK(g.launch(exec, on) == cudaSuccess);
    expected = Harness::mixed(expected, value);
  };
  SUBCASE("in parts") {
    h.gated = true;
    h.launch(first, &busy, 1);
    h.gate.arrived();
    h.gated = false;
    launch(first, 2);
    launch(second, 3);
    std::this_thread::sleep_for(5ms);
    CHECK(cell == 0);
    h.gate.open();
    launch(first, 4);
    launch(second, 5);
    CHECK(h.hooks.synchronizeDevice(h.cuda.api()) == cudaSuccess);
    CHECK(g.statistics() == "4 in parts, 0 whole");
  }
  SUBCASE("in parts behind whole") {
    g.setKernel(exec, node, &cell, 1);
    CHECK(g.launch(exec, high) == cudaSuccess);
    CHECK(h.synchronize(high) == cudaSuccess);
    expected = Harness::mixed(expected, 1);
    h.gated = true;
    CHECK(g.launch(exec, first) == cudaSuccess); // launched whole: it was of high priority before
    expected = Harness::mixed(expected, 1);
    h.gate.arrived();
    h.gated = false;
    launch(second, 9);
    std::this_thread::sleep_for(5ms);
    CHECK(cell == Harness::mixed(0, 1));
    h.gate.open();
    CHECK(h.hooks.synchronizeDevice(h.cuda.api()) == cudaSuccess);
  }
  CHECK(cell == expected);
}
