// Classes of best-effort streams, by priority and by call: which class makes way for which, and
// that no caller waits for held-back work.
#include "harness.h"

using namespace tally;
using namespace tally::test;
using namespace std::chrono_literals;

namespace {

struct Classes : Harness {
  cudaError_t setClass(cudaStream_t stream, std::uint32_t number) {
    return hooks.streams().setBestEffortClass(cuda.api(), stream, number);
  }
};

} // namespace

TEST_CASE("one class for each priority below the highest that a program may have") {
  hooks::Priorities all{0, -4};
  std::vector<std::uint32_t> found;
  for (int priority = -5; priority <= 0; ++priority)
    found.push_back(all.bestEffortClass(priority));
  CHECK(found == std::vector<std::uint32_t>{1, 1, 1, 2, 3, 4});
  CHECK(hooks::Priorities{0, 0}.bestEffortClass(0) == 1);
  FakeCuda cuda;
  hooks::Priorities asked;
  CHECK(hooks::Priorities::ask(cuda.api(), asked) == cudaSuccess);
  CHECK(asked.lowest == 0);
  CHECK(asked.highest == FakeCuda::highestPriority + 1);
}

TEST_CASE("a stream of a higher priority stops one of a lower, of which neither is the highest") {
  Classes h;
  cudaStream_t low = h.stream(0), middle = h.stream(-1);
  h.stream(-2);
  std::uint64_t slow = 0, quick = 0;
  h.gated = true;
  h.launch(low, &slow, 7, 4);
  h.gate.arrived();
  h.gated = false; // blocks that have started stay at the gate
  SUBCASE("and is over before it goes on") {
    h.launch(middle, &quick, 3, 2);
    CHECK(h.synchronize(middle) == cudaSuccess);
    CHECK(h.hooks.streams().query(h.cuda.api(), low) == cudaErrorNotReady);
    h.settleRequest(); // otherwise the blocks may run before the request to yield has arrived
    h.gate.open();
    CHECK(eventually([&] { return h.hooks.totals().yields == 1; }));
  }
  SUBCASE("but for those of one class by a call") {
    CHECK(h.setClass(middle, 4) == cudaSuccess);
    h.launch(middle, &quick, 3, 2);
    std::this_thread::sleep_for(5ms);
    CHECK(h.hooks.totals().throughVariants == 0);
    h.gate.open();
    CHECK(h.synchronize(middle) == cudaSuccess);
    CHECK(h.hooks.totals().yields == 0);
  }
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(slow == Harness::mixed(0, 7, 4));
  CHECK(quick == Harness::mixed(0, 3, 2));
}

TEST_CASE("a stream that becomes of another class keeps the order of what it has queued") {
  Classes h;
  cudaStream_t stream = h.stream(0);
  h.stream(-1);
  std::uint64_t cell = 0, expected = 0;
  h.gated = true;
  h.launch(stream, &cell, 1, 2);
  h.gate.arrived();
  expected = Harness::mixed(expected, 1, 2);
  for (std::uint32_t number : {1u, 3u, 2u, 4u}) {
    CHECK(h.setClass(stream, number) == cudaSuccess);
    h.launch(stream, &cell, number, 2);
    expected = Harness::mixed(expected, number, 2);
  }
  std::this_thread::sleep_for(5ms);
  CHECK(h.gate.waitingNow() == 1);
  CHECK(h.hooks.streams().query(h.cuda.api(), stream) == cudaErrorNotReady);
  h.gate.open();
  CHECK(h.synchronize(stream) == cudaSuccess);
  CHECK(cell == expected);
}

TEST_CASE("what a higher class waits for is not held back by it") {
  Classes h;
  cudaStream_t low = h.stream(0), middle = h.stream(-1);
  h.stream(-2);
  std::uint64_t cell = 0;
  cudaEvent_t event = h.event();
  Gate closed;
  h.hostFunction(low, [&] { closed.pass(); });
  h.launch(low, &cell, 1, 2);
  h.record(event, low);
  h.wait(middle, event);
  h.launch(middle, &cell, 2, 2);
  std::this_thread::sleep_for(5ms);
  CHECK(cell == 0);
  closed.open();
  CHECK(h.synchronize(middle) == cudaSuccess);
  CHECK(cell == Harness::mixed(Harness::mixed(0, 1, 2), 2, 2));
}

TEST_CASE("who waits for a stream of a higher class does not wait for one of a lower") {
  Classes h;
  cudaStream_t low = h.stream(0), middle = h.stream(-1);
  h.stream(-2);
  std::uint64_t slow = 0, quick = 0;
  h.launchBesideHeld(low, &slow, middle, &quick);
  cudaEvent_t event = h.event();
  h.record(event, middle);
  SUBCASE("the stream") {
    CHECK(h.synchronize(middle) == cudaSuccess);
    CHECK(h.hooks.streams().query(h.cuda.api(), middle) == cudaSuccess);
  }
  SUBCASE("an event there") {
    CHECK(h.hooks.events().synchronize(h.cuda.api(), event) == cudaSuccess);
    CHECK(h.hooks.events().query(h.cuda.api(), event) == cudaSuccess);
  }
  SUBCASE("a call that is not queued") {
    auto call = [&] { return h.cuda.api().cudaEventRecord(event, middle); };
    auto mayNot = [] { return false; };
    CHECK(h.hooks.rules().queue(h.cuda.api(), middle, mayNot, call) == cudaSuccess);
  }
  CHECK(quick == Harness::mixed(0, 2));
  CHECK(slow == 0);
  CHECK(h.hooks.streams().query(h.cuda.api(), low) == cudaErrorNotReady);
  h.gate.open();
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(slow == Harness::mixed(0, 1));
}

TEST_CASE("an event's second use is not over with its last one, on another class' lane") {
  Classes h;
  cudaStream_t low = h.stream(0), middle = h.stream(-1);
  h.stream(-2);
  std::uint64_t slow = 0, quick = 0;
  cudaEvent_t event = h.event();
  h.launchBesideHeld(low, &slow, middle, &quick);
  h.record(event, middle);
  h.wait(low, event);    // stays queued
  h.wait(middle, event); // is over soon
  CHECK(h.synchronize(middle) == cudaSuccess);
  CHECK(h.hooks.events().destroy(h.cuda.api(), event) == cudaSuccess);
  CHECK_FALSE(h.cuda.isDestroyed(event));
  h.gate.open();
  CHECK(h.synchronize(low) == cudaSuccess);
}

TEST_CASE("a class whose lanes cannot be had goes with another one") {
  Classes h;
  cudaStream_t low = h.stream(0);
  h.stream(-2);
  std::uint64_t slow = 0, quick = 0;
  h.launch(low, &slow, 1);
  CHECK(h.synchronize(low) == cudaSuccess);
  h.cuda.hasNoMemory = true;
  cudaStream_t middle = h.stream(-1);
  h.gated = true;
  h.launch(low, &slow, 2);
  h.gate.arrived();
  h.launch(middle, &quick, 3);
  std::this_thread::sleep_for(5ms);
  CHECK(h.gate.waitingNow() == 1); // both are in one lane, one after the other
  h.gate.open();
  CHECK(h.synchronize(middle) == cudaSuccess);
  CHECK(quick == Harness::mixed(0, 3));
  CHECK(slow == Harness::mixed(Harness::mixed(0, 1), 2));
  CHECK(h.hooks.totals().yields == 0);
}

TEST_CASE("what a class needs of the device is there once its stream is") {
  Classes h;
  h.stream(0);
  h.stream(-2);
  h.stream(-1);
  auto takesMore = [&h, taken = std::size_t{0}](std::uint32_t number) mutable {
    h.hooks.served().engine()->queue().open(number);
    std::unique_lock lock(h.cuda.mutex);
    std::size_t before = std::exchange(taken, h.cuda.allocations.size());
    return before != taken;
  };
  CHECK(takesMore(4)); // than none
  CHECK_FALSE(takesMore(4));
  CHECK_FALSE(takesMore(3));
  CHECK(takesMore(2));
}

TEST_CASE("numbers that are no class, and streams that were of high priority") {
  Classes h;
  cudaStream_t stream = h.stream(0);
  CHECK(h.setClass(stream, 0) == cudaErrorInvalidValue);
  CHECK(h.setClass(stream, 5) == cudaErrorInvalidValue);
  std::uint64_t cell = 0;
  h.launch(stream, &cell, 1, 2); // no other stream is there: high priority
  CHECK(h.setClass(stream, 2) == cudaSuccess);
  h.launch(stream, &cell, 2, 2);
  CHECK(h.synchronize(stream) == cudaSuccess);
  CHECK(cell == Harness::mixed(Harness::mixed(0, 1, 2), 2, 2));
  CHECK(h.hooks.totals().throughVariants == 1);
}
