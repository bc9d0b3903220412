// A wake and its high-priority call: the first write, the threads that do not call the driver, the
// cache lines of the members, and the condition under which the next call is a wake again.
#include "harness.h"
#include "requests/monitor_times.h"

#include <cstddef>
#include <functional>
#include <thread>

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

namespace tally::runtime {

/// Looks into a control word.
struct ControlWordTest {
  static bool isDue(const DeviceControl &word) { return word.due.load(); }
  static std::uintptr_t lineOf(const auto &member) {
    return reinterpret_cast<std::uintptr_t>(&member) / 64;
  }
  static bool keepsApart(const DeviceControl &word) {
    std::uintptr_t last = lineOf(word.raisedAt.back());
    // In the order of their addresses: members of the waking thread, members that it reads, and
    // three lines of the dispatcher's.
    return lineOf(word.active) < lineOf(word.due) && last < lineOf(word.due) &&
           lineOf(word.due) < lineOf(word.listening) &&
           lineOf(word.listening) < lineOf(word.pausing) &&
           lineOf(word.armed) < lineOf(word.writing);
  }
};

} // namespace tally::runtime

namespace {

/// Beside every request everything runs.
struct Permissive {
  Decision decide(const Snapshot &) const { return {.runBestEffort = true}; }
};

/// A device that records the thread of the last write.
struct Written final : SignalDevice {
  std::atomic<std::thread::id> by;
  Result<void> writeValue(StreamId, DevicePtr, std::uint64_t) override {
    by = std::this_thread::get_id();
    return {};
  }
  Result<bool> isIdle(StreamId) override { return true; }
  Result<void> synchronize(StreamId) override { return {}; }
};

/// A high-priority stream on a device whose answers the test sets, with a clock that the test sets.
struct OneStream {
  struct Device final : SignalDevice {
    bool idle = false;
    int asked = 0, writes = 0;
    Result<void> waited;
    std::function<void()> duringWait = [] {};
    Result<void> writeValue(StreamId, DevicePtr, std::uint64_t) override {
      ++writes;
      return {};
    }
    Result<bool> isIdle(StreamId) override {
      ++asked;
      return idle;
    }
    Result<void> synchronize(StreamId) override {
      duringWait();
      return waited;
    }
  } device;
  Nanoseconds now{1s};
  DeviceControl word{ControlWriter{&device, StreamId{}, 0}, ClockFunction([this] { return now; })};
  RequestScopeTracker high{device, word};
  HighStream &stream = **high.adopt(StreamId{});

  void call() {
    REQUIRE(high.beginCall(stream));
    high.endCall(stream);
  }
  /// Makes one look of the monitor at that later time. Returns whether the stream's scope is then
  /// open.
  bool isOpenAfter(Nanoseconds later) {
    now += later;
    REQUIRE(high.monitor());
    return word.snapshot().highPriorityActive != 0;
  }
};

void spin(Nanoseconds time) {
  for (Nanoseconds end = SteadyClock{}() + time; SteadyClock{}() < end;) {
  }
}

} // namespace

TEST_CASE("what launches touch shares no cache line with what the dispatcher's thread writes") {
  Written device;
  DeviceControl word(ControlWriter{&device, StreamId{}, 0}, SteadyClock{});
  CHECK(ControlWordTest::keepsApart(word));
  alignas(64) HighStream stream; // where a line begins
  CHECK(ControlWordTest::lineOf(stream.word) != ControlWordTest::lineOf(stream.lastSeen));
}

TEST_CASE(
    "a call that wakes goes behind the listener's write, if that comes within a microsecond") {
  if (std::thread::hardware_concurrency() < 2)
    return; // with one core the listener does not run meanwhile
  Written device;
  DeviceControl word(ControlWriter{&device, StreamId{}, 0}, SteadyClock{});
  RequestScopeTracker high(device, word);
  HighStream &stream = **high.adopt(StreamId{});
  std::atomic<bool> stop{false};
  std::thread listener([&] {
    while (!stop)
      CHECK(static_cast<bool>(word.listen([] { spin(300ns); })));
  });
  // Returns whether the write had begun when the call was made; nothing where the listener did not
  // make the write.
  auto wake = [&]() -> std::optional<bool> {
    REQUIRE(high.beginCall(stream));
    bool begun = !ControlWordTest::isDue(word);
    spin(2us);
    high.endCall(stream);
    while (!word.isTold())
      std::this_thread::yield();
    high.abandon(stream);
    return device.by.load() == listener.get_id() ? std::optional(begun) : std::nullopt;
  };
  // The system may take the listener's core away at any time, but not every time.
  int best = 0;
  for (Nanoseconds end = SteadyClock{}() + 20s; best < 20 && SteadyClock{}() < end;) {
    int first = 0;
    for (int made = 0; made < 25 && SteadyClock{}() < end;)
      if (std::optional<bool> begun = wake()) {
        ++made;
        first += *begun;
      }
    best = std::max(best, first);
  }
  CHECK(best >= 20);
  stop = true;
  listener.join();
}

TEST_CASE("who wakes does not wait for a listener that does not come, nor where nothing is due") {
  Written device;
  DeviceControl word(ControlWriter{&device, StreamId{}, 0}, SteadyClock{});
  REQUIRE(word.listen([&, first = true]() mutable {
    if (!std::exchange(first, false))
      return;
    REQUIRE(word.raise());
    REQUIRE(ControlWordTest::isDue(word));
    word.letWriteGoFirst();
    CHECK(ControlWordTest::isDue(word));
  }));
  CHECK(word.isTold());
  word.letWriteGoFirst();
  REQUIRE(word.withdraw());
}

TEST_CASE("the dispatcher sends nothing beside the call that has just woken") {
  Harness harness(11, {Kind::Persistent, Kind::Guard, Kind::Slice}, Permissive{});
  Program program;
  do
    program = Program::make(harness.random, 1, 1, 1);
  while (program.steps[0].type != Step::Type::Launch);
  harness.addStreams(program);
  HighStream &stream = **harness.high->adopt(*harness.device.createStream(StreamPriority::High));
  int launches = 0;
  harness.device.onLaunch = [&] { ++launches; };
  auto step = [&](Nanoseconds later) {
    harness.now += later;
    harness.dispatcher->step();
    return launches;
  };
  REQUIRE(harness.high->beginCall(stream));
  REQUIRE(harness.submit(program, 0));
  CHECK(step(1us) == 0);
  CHECK(step(18us) == 0);
  SUBCASE("until the call is over") {
    harness.high->endCall(stream);
    CHECK(step(Nanoseconds(1)) == 1);
  }
  SUBCASE("or takes long") {
    CHECK(step(1us) == 1);
    harness.high->endCall(stream);
  }
  harness.high->abandon(stream);
  for (int i = 0; i < 1000 && !harness.allFinished(); ++i) {
    harness.device.advance();
    step(1us);
  }
  CHECK((harness.outcome() == runInOrder(program)));
}

TEST_CASE("a stream that was synchronised stays open for the next request's first call") {
  OneStream one;
  one.call();
  CHECK(one.isOpenAfter(1ms));
  CHECK(one.high.untilRest() == Nanoseconds::max());
  REQUIRE(one.high.synchronize(one.stream));
  CHECK(one.high.untilRest() == RestTime::longest);
  int asked = one.device.asked;
  SUBCASE("which comes in time, and wakes nobody") {
    for (int requests = 0; requests < 5; ++requests) {
      CHECK(one.isOpenAfter(RestTime::longest - 1ns));
      CHECK(one.high.untilRest() == 1ns);
      one.call();
      CHECK(one.isOpenAfter(1ns)); // at the time when the previous wait would have closed it
      REQUIRE(one.high.synchronize(one.stream));
    }
    CHECK(one.device.writes == 1);
    CHECK(one.word.requests() == 1);
  }
  SUBCASE("which comes too late") {
    CHECK_FALSE(one.isOpenAfter(RestTime::longest));
    CHECK(one.high.untilRest() == Nanoseconds::max());
    one.call();
    CHECK(one.word.requests() == 2);
  }
  CHECK(one.device.asked == asked); // the waiting thread has reported the end
}

TEST_CASE("while a thread waits for a stream the device is not asked whether it is over") {
  OneStream one;
  one.call();
  one.isOpenAfter(1ms);
  one.isOpenAfter(1ms);
  int before = one.device.asked;
  CHECK(before > 0);
  one.device.idle = true; // the device is idle before the thread knows it
  one.device.duringWait = [&] {
    for (int looks = 0; looks < 3; ++looks)
      CHECK(one.isOpenAfter(1ms));
    CHECK(one.device.asked == before);
  };
  SUBCASE("until it is") {
    REQUIRE(one.high.synchronize(one.stream));
    CHECK(one.isOpenAfter(RestTime::longest - 1ns));
    CHECK_FALSE(one.isOpenAfter(1ns));
    CHECK(one.device.asked == before);
  }
  SUBCASE("unless its wait fails") {
    one.device.waited = Error{"refused"};
    REQUIRE_FALSE(one.high.synchronize(one.stream));
    CHECK(one.isOpenAfter(1ms));
    CHECK(one.device.asked == before + 1);
    CHECK_FALSE(one.isOpenAfter(RestTime::longest));
  }
  SUBCASE("nor for what was called behind the wait") {
    one.device.duringWait = [&] { one.call(); };
    REQUIRE(one.high.synchronize(one.stream));
    one.device.idle = false;
    CHECK(one.isOpenAfter(1ms));
    CHECK(one.isOpenAfter(1ms));
    CHECK(one.device.asked == before + 1);
  }
}

TEST_CASE("a stream that the device says is idle comes to rest like one that was waited for") {
  OneStream one;
  one.call();
  one.device.idle = true;
  CHECK(one.isOpenAfter(20us)); // calls may still be coming
  CHECK(one.device.asked == 0);
  CHECK(one.isOpenAfter(20us));
  CHECK(one.device.asked == 1);
  SUBCASE("12 us later") {
    CHECK(one.isOpenAfter(RestTime::longest - 1ns));
    CHECK_FALSE(one.isOpenAfter(1ns));
    CHECK(one.device.asked == 1);
  }
  SUBCASE("unless a call follows") {
    one.call();
    CHECK(one.isOpenAfter(RestTime::longest));
    CHECK(one.word.requests() == 1);
  }
}

TEST_CASE("how long a stream stays open is learnt from when its next calls came") {
  OneStream one;
  // A request whose wait is over, and the next call after `gap`; the monitor looks once per
  // microsecond, or once per `between`.
  auto request = [&](Nanoseconds gap, Nanoseconds between = 1us) {
    one.call();
    REQUIRE(one.high.synchronize(one.stream));
    for (Nanoseconds end = one.now + gap; one.now < end; one.now += between)
      one.high.watch();
    one.call();
    one.high.watch();
    one.now += 1ms;
    one.high.watch();
  };
  auto requests = [&](int count, Nanoseconds gap, Nanoseconds between = 1us) {
    for (int i = 0; i < count; ++i)
      request(gap, between);
    return one.high.restTime();
  };
  one.high.watch();
  CHECK(requests(15, 3us) == RestTime::longest); // too few
  SUBCASE("they came soon") {
    CHECK(requests(1, 3us) == 3us + RestTime::doubt);
    SUBCASE("but for one") { CHECK(requests(1, 9us) == 3us + RestTime::doubt); }
    SUBCASE("and later, too late for that, and are waited for again") {
      CHECK(requests(2, 9us) == 9us + RestTime::doubt);
      CHECK(requests(2, 11us) == RestTime::longest);
      CHECK(requests(62, 3us) == RestTime::longest); // these two still count
      CHECK(requests(2, 3us) == 3us + RestTime::doubt);
    }
    SUBCASE("or never") {
      CHECK(requests(60, 500us) == 3us + RestTime::doubt);
      CHECK(requests(10, 500us) == RestTime::doubt); // nothing is gained by waiting
    }
  }
  SUBCASE("who looked away does not know when they came") {
    CHECK(requests(20, 8us, 8us) == RestTime::longest);
  }
  SUBCASE("of each stream by itself") {
    // Another stream, whose work ends at the same time, gets no next call.
    HighStream &other = **one.high.adopt(StreamId{1});
    auto look = [&](int times) {
      for (int looks = 0; looks < times; ++looks, one.now += 1us)
        one.high.watch();
    };
    for (int i = 0; i < 10; ++i) {
      REQUIRE(one.high.beginCall(other));
      one.high.endCall(other);
      one.call();
      REQUIRE(one.high.synchronize(other));
      REQUIRE(one.high.synchronize(one.stream));
      look(3);
      one.call();
      look(20);
    }
    CHECK(one.high.restTime() == 3us + RestTime::doubt);
  }
  SUBCASE("a scope is closed by what was learnt") {
    requests(5, 3us);
    REQUIRE(one.high.synchronize(one.stream));
    CHECK(one.isOpenAfter(3us));
    CHECK(one.high.untilRest() == RestTime::doubt);
    CHECK_FALSE(one.isOpenAfter(RestTime::doubt));
  }
}

TEST_CASE("the dispatcher goes on when a stream has come to rest, not at its next look") {
  Harness harness(12);
  HighStream &stream = **harness.high->adopt(*harness.device.createStream(StreamPriority::High));
  auto isOpenAfter = [&](Nanoseconds later) {
    harness.now += later;
    harness.dispatcher->step();
    return harness.word->snapshot().highPriorityActive != 0;
  };
  REQUIRE(harness.high->beginCall(stream));
  harness.high->endCall(stream);
  CHECK(isOpenAfter(1ms)); // a look; the next look comes 20 us later
  harness.now += 1us;
  REQUIRE(harness.high->synchronize(stream));
  CHECK(isOpenAfter(RestTime::longest - 1ns));
  CHECK_FALSE(isOpenAfter(1ns));
}
