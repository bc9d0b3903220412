// The busy times that policies see: a wait within a scope tells requests apart.
#include "harness.h"
#include "opened.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

/// Keeps the newest snapshot, and lets no work run.
struct Spy {
  Snapshot *seen = nullptr;
  Decision decide(const Snapshot &now) const {
    *seen = now;
    return {};
  }
};

struct Watched {
  Snapshot seen;
  Harness harness{1, {Kind::Guard}, spy()};
  std::unique_ptr<LaneStream> stream;

  Watched() {
    // Work that waits: so the dispatcher asks the policy in each step.
    stream = std::make_unique<LaneStream>(**harness.dispatcher->assignLane());
    REQUIRE(harness.high->beginRequest());
    Operation operation;
    operation.type = Operation::Type::Call;
    operation.stream = &*stream;
    operation.call = [] {};
    REQUIRE(stream->lane.submit(std::move(operation)));
    harness.dispatcher->step();
  }
  ~Watched() {
    harness.dispatcher.reset();
    stream.reset();
  }
  Spy spy() {
    Spy made;
    made.seen = &seen;
    return made;
  }
  /// Time passes, with looks of the dispatcher.
  void pass(Nanoseconds time) {
    for (Nanoseconds step = 1us; time > 0ns; time -= step) {
      harness.now += std::min(step, time);
      harness.dispatcher->step();
    }
  }
  void wait() {
    harness.high->waits().note(harness.now);
    harness.dispatcher->step();
  }
};

} // namespace

TEST_CASE("a scope without a wait is one busy time") {
  Watched watched;
  watched.pass(70us);
  CHECK(watched.seen.activeFor == 70us);
  CHECK(watched.seen.busyPeriods == 0);
  REQUIRE(watched.harness.high->endRequest());
  watched.pass(30us);
  CHECK(watched.seen.busyPeriods == 1);
  CHECK(watched.seen.busyLast == 70us);
  CHECK(watched.seen.activeFor == 0ns);
}

TEST_CASE("waits within a scope tell its requests apart") {
  Watched watched;
  watched.pass(100us);
  watched.wait();
  CHECK(watched.seen.busyLast == 100us);
  CHECK(watched.seen.activeFor == 0ns);
  watched.pass(250us);
  CHECK(watched.seen.activeFor == 250us);
  watched.wait();
  CHECK(watched.seen.busyPeriods == 2);
  CHECK(watched.seen.busyLast == 250us);
  // The scope is closed some microseconds after the last wait: that is no request.
  watched.pass(12us);
  REQUIRE(watched.harness.high->endRequest());
  watched.pass(5us);
  CHECK(watched.seen.busyPeriods == 2);
  // The next one begins with its wake, not with the wait before.
  watched.pass(1ms);
  REQUIRE(watched.harness.high->beginRequest());
  watched.pass(40us);
  CHECK(watched.seen.activeFor == 40us);
  watched.wait();
  CHECK(watched.seen.busyPeriods == 3);
  CHECK(watched.seen.busyLast == 40us);
  // Work for which the program does not wait counts too.
  watched.pass(90us);
  REQUIRE(watched.harness.high->endRequest());
  watched.pass(1us);
  CHECK(watched.seen.busyPeriods == 4);
  CHECK(watched.seen.busyLast == 90us);
}

TEST_CASE("a busy time in which nobody looked is not recorded") {
  Harness harness(1);
  BusyTimes times;
  Snapshot seen;
  auto look = [&](Nanoseconds time) {
    harness.now += time;
    times.observe(*harness.word, harness.high->waits(), 0);
    seen = harness.word->snapshot();
    times.addTo(seen);
  };
  auto wait = [&] { harness.high->waits().note(harness.now); };
  look(0us);
  REQUIRE(harness.high->beginRequest());
  look(50us);
  wait();
  look(0us);
  REQUIRE(seen.busyPeriods == 1);
  REQUIRE(seen.busyLast == 50us);
  // Nobody closes the scope until the thread looks again.
  times.lookAway();
  harness.now += 5s;
  REQUIRE(harness.high->endRequest());
  look(0us);
  CHECK(seen.busyPeriods == 1);
  REQUIRE(harness.high->beginRequest());
  look(70us);
  CHECK(seen.activeFor == 70us);
  REQUIRE(harness.high->endRequest());
  look(1us);
  CHECK(seen.busyPeriods == 2);
  CHECK(seen.busyLast == 70us);
  // A scope that opened meanwhile: its requests are told apart from the next wait on.
  times.lookAway();
  REQUIRE(harness.high->beginRequest());
  harness.now += 3ms;
  wait();
  look(20us);
  CHECK(seen.activeFor == 20us);
  harness.now += 40us;
  wait();
  look(0us);
  CHECK(seen.busyPeriods == 2);
  harness.now += 60us;
  wait();
  look(0us);
  CHECK(seen.busyPeriods == 3);
  CHECK(seen.busyLast == 60us);
  REQUIRE(harness.high->endRequest());
}

TEST_CASE("a request during which the dispatcher's thread slept has no busy time") {
  /// Strict priority; keeps the number of busy times.
  struct Counting {
    std::atomic<std::uint64_t> *periods;
    Decision decide(const Snapshot &now) const {
      *periods = now.busyPeriods;
      return PriorityPolicy().decide(now);
    }
  };
  std::atomic<std::uint64_t> periods{0};
  RuntimeOptions options;
  options.policy = Counting{&periods};
  Opened opened = openFake(options);
  Stream stream = opened.stream(Class::BestEffort);
  Client server = opened.client(Class::High);
  DevicePtr memory = *opened.runtime->allocate(Program::words * 8);
  auto train = [&] {
    REQUIRE(opened.runtime->launch(stream, opened.kernels[0], {{6, 1, 1}, {64, 1, 1}, 0},
                                   Arguments(memory, memory, std::uint64_t{6}, std::uint64_t{1})));
    REQUIRE(opened.runtime->synchronize(stream));
    return periods.load();
  };
  bool slept = false;
  for (int i = 0; i < 50 && !slept; ++i) { // the thread may still have been awake
    std::uint64_t before = train();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    REQUIRE(opened.runtime->beginRequest(server));
    REQUIRE(opened.runtime->endRequest(server));
    slept = train() == before;
  }
  CHECK(slept);
}

TEST_CASE("two waits one behind the other end one request") {
  Watched watched;
  watched.pass(100us);
  watched.wait();
  watched.pass(2us);
  watched.wait();
  CHECK(watched.seen.busyPeriods == 1);
  CHECK(watched.seen.busyLast == 100us);
  watched.pass(50us);
  watched.wait();
  CHECK(watched.seen.busyPeriods == 2);
  CHECK(watched.seen.busyLast == 50us);
}

TEST_CASE("several waits between two looks share the time") {
  Watched watched;
  watched.harness.now += 90us;
  for (int i = 0; i < 3; ++i)
    watched.harness.high->waits().note(watched.harness.now);
  watched.harness.dispatcher->step();
  CHECK(watched.seen.busyPeriods == 1);
  CHECK(watched.seen.busyLast == 30us);
}

TEST_CASE("waits in other processes tell requests apart as well, also where one has left") {
  struct Others final : Neighbours {
    std::uint64_t waits = 7;
    void setBusy(bool) override {}
    bool isWaitedFor() const override { return false; }
    std::uint64_t waitsElsewhere() const override { return waits; }
    void note(const LaneTotals &) override {}
    void noteTurnaround(Nanoseconds) override {}
  } others;
  Watched watched;
  watched.harness.dispatcher->setNeighbours(&others);
  REQUIRE(watched.harness.high->endRequest());
  watched.pass(10us);
  std::uint64_t before = watched.seen.busyPeriods;
  REQUIRE(watched.harness.high->beginRequest());
  watched.pass(60us);
  CHECK(watched.seen.busyPeriods == before);
  ++others.waits;
  watched.pass(1us);
  CHECK(watched.seen.busyPeriods == before + 1);
  CHECK(watched.seen.busyLast == 61us);
  others.waits = 2; // another process has the slot
  watched.pass(20us);
  CHECK(watched.seen.busyPeriods == before + 1);
  ++others.waits;
  watched.pass(1us);
  CHECK(watched.seen.busyPeriods == before + 2);
  CHECK(watched.seen.busyLast == 21us);
}

TEST_CASE(
    "a wait for a stream counts; a wait for no new calls, and a look of the monitor, do not") {
  Watched watched;
  Result<StreamId> id = watched.harness.device.createStream(StreamPriority::High);
  REQUIRE(id);
  Result<HighStream *> stream = watched.harness.high->adopt(*id);
  REQUIRE(stream);
  std::uint64_t before = watched.harness.high->waits().count();
  for (int i = 0; i < 3; ++i) {
    REQUIRE(watched.harness.high->beginCall(**stream));
    watched.harness.high->endCall(**stream);
    watched.harness.now += 5us;
    REQUIRE(watched.harness.high->synchronize(**stream));
    REQUIRE(watched.harness.high->synchronize(**stream));
    CHECK(watched.harness.high->waits().count() == before + 1 + static_cast<std::uint64_t>(i));
    CHECK(watched.harness.high->waits().last() == watched.harness.now);
  }
  // The monitor sees that a call is over, and the program waits for the call later.
  REQUIRE(watched.harness.high->endRequest());
  REQUIRE(watched.harness.high->beginCall(**stream));
  watched.harness.high->endCall(**stream);
  REQUIRE(watched.harness.device.synchronize(*id));
  watched.pass(100us);
  CHECK((*stream)->isOver());
  CHECK(watched.harness.high->waits().count() == before + 3);
  REQUIRE(watched.harness.high->synchronize(**stream));
  CHECK(watched.harness.high->waits().count() == before + 4);
}
