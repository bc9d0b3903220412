// Launches by the thread that owns a stream: an observer never takes a launch in progress for a
// finished call.
#include "requests/request_scope_tracker.h"

#include <doctest/doctest.h>

#include <functional>
#include <thread>
#include <utility>
#include <vector>

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

/// A stream on a device whose answers the test sets, with a clock that the test sets. Calls without
/// own() are another thread's.
struct OwnedStream {
  struct Device final : SignalDevice {
    bool idle = true, fails = false;
    std::function<void()> duringWait = [] {};
    Result<void> writeValue(StreamId, DevicePtr, std::uint64_t) override {
      if (fails)
        return Error{"gone"};
      return {};
    }
    Result<bool> isIdle(StreamId) override { return idle; }
    Result<void> synchronize(StreamId) override {
      duringWait();
      return {};
    }
  } device;
  Nanoseconds now{1s};
  DeviceControl word{ControlWriter{&device, StreamId{}, 0}, ClockFunction([this] { return now; })};
  RequestScopeTracker high{device, word};
  HighStream &stream = **high.adopt(StreamId{});

  RequestScopeTracker::OwnCount counted{};

  OwnedStream() { REQUIRE(stream.isOwnedBy(this)); }

  void beginOwn() {
    counted = high.countOwnLaunch(stream);
    REQUIRE(counted != RequestScopeTracker::OwnCount::No);
  }
  void endOwn() { high.endOwnLaunch(stream, counted); }
  void callOfAnother() {
    REQUIRE(high.beginCall(stream));
    high.endCall(stream);
  }
  /// Returns whether the scope is open after that many looks of the monitor, a millisecond apart.
  bool isOpenAfter(int looks) {
    for (int i = 0; i < looks; ++i) {
      now += 1ms;
      REQUIRE(high.monitor());
    }
    return word.snapshot().highPriorityActive != 0;
  }
};

} // namespace

TEST_CASE("a stream has one owner, the first that asks") {
  HighStream stream;
  int first = 0, second = 0;
  CHECK(stream.isOwnedBy(&first));
  CHECK_FALSE(stream.isOwnedBy(&second));
  CHECK(stream.isOwnedBy(&first));
}

TEST_CASE("while its owner makes a launch a stream is open, whatever the device says") {
  OwnedStream one;
  one.beginOwn();
  CHECK(one.high.isCalling());
  CHECK_FALSE(one.stream.isClosed());
  CHECK(one.isOpenAfter(5));
  one.callOfAnother();
  CHECK(one.isOpenAfter(5));
  std::uint64_t before = one.high.progress();
  one.endOwn();
  CHECK_FALSE(one.high.isCalling());
  CHECK(one.high.progress() == before + 1);
  CHECK_FALSE(one.isOpenAfter(5));
  CHECK(one.stream.isClosed());
}

TEST_CASE("who waits for a stream has not waited for the launch that its owner is making") {
  OwnedStream one;
  one.device.idle = false;
  one.beginOwn();
  one.endOwn();
  SUBCASE("that was begun before the wait, and ends behind it") {
    one.beginOwn();
    REQUIRE(one.high.synchronize(one.stream));
    one.endOwn();
    CHECK(one.isOpenAfter(5));
  }
  SUBCASE("that ends meanwhile") {
    one.beginOwn();
    one.device.duringWait = [&] { one.endOwn(); };
    REQUIRE(one.high.synchronize(one.stream));
    CHECK(one.isOpenAfter(5));
  }
  SUBCASE("that is begun meanwhile") {
    one.device.duringWait = [&] { one.beginOwn(); };
    REQUIRE(one.high.synchronize(one.stream));
    one.endOwn();
    CHECK(one.isOpenAfter(5));
  }
  SUBCASE("but for those before") {
    one.callOfAnother();
    REQUIRE(one.high.synchronize(one.stream));
    CHECK_FALSE(one.isOpenAfter(5));
  }
}

TEST_CASE("the end of a request leaves a stream open while its owner makes a launch") {
  OwnedStream one;
  REQUIRE(one.high.beginRequest());
  one.beginOwn();
  CHECK_FALSE(*one.high.endRequest());
  one.endOwn();
  CHECK_FALSE(one.isOpenAfter(5));
}

TEST_CASE("a launch that wakes makes the write, behind itself, where nobody else has") {
  OwnedStream one;
  REQUIRE(one.word.listen([&, first = true]() mutable {
    if (!std::exchange(first, false))
      return;
    one.beginOwn();
    CHECK_FALSE(one.word.isTold());
    one.endOwn();
    CHECK(one.word.isTold());
  }));
}

TEST_CASE("a launch whose wake the device does not take is not counted") {
  OwnedStream one;
  one.word.setBusy(true);
  one.device.fails = true;
  CHECK(one.high.countOwnLaunch(one.stream) == RequestScopeTracker::OwnCount::No);
  CHECK(one.stream.isClosed());
  CHECK(one.stream.calls().made == 0);
  CHECK(one.word.snapshot().highPriorityActive == 0);
  one.device.fails = false;
  one.beginOwn();
  one.endOwn();
  CHECK(one.stream.calls().made == 1);
}

TEST_CASE("calls that are seen to be made were begun and are over, whoever makes them meanwhile") {
  constexpr std::uint64_t each = 20000;
  OwnedStream one;
  std::atomic<std::uint64_t> begun{0}, ended{0};
  auto make = [&](auto begin, auto end) {
    for (std::uint64_t i = 0; i < each; ++i) {
      begun.fetch_add(1);
      begin();
      end();
      ended.fetch_add(1);
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back(
      make, [&] { one.counted = one.high.countOwnLaunch(one.stream); }, [&] { one.endOwn(); });
  for (int i = 0; i < 2; ++i)
    threads.emplace_back(
        make, [&] { one.high.countCall(one.stream); }, [&] { one.high.endCall(one.stream); });
  std::uint64_t most = 0, looks = 0, wrong = 0;
  while (most < 3 * each) {
    // Every finished call was seen as begun, and every call seen as made had begun by then.
    std::uint64_t over = ended.load();
    HighStream::Calls seen = one.stream.calls();
    std::uint64_t atMost = begun.load();
    wrong += seen.made > atMost || (!seen.isBeingMade && seen.made < over) ? 1 : 0;
    most = std::max(most, over);
    ++looks;
    REQUIRE(one.high.monitor());
  }
  for (std::thread &thread : threads)
    thread.join();
  CHECK(wrong == 0);
  CHECK(looks > 0);
  CHECK(one.stream.calls().made == 3 * each);
  CHECK_FALSE(one.stream.calls().isBeingMade);
  CHECK_FALSE(one.isOpenAfter(5));
}
