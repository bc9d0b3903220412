// Streams that a request names: their implicit scopes close with the request or with their work,
// and no later.
#include "requests/request_scope_tracker.h"

#include <doctest/doctest.h>

#include <vector>

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

/// Two streams on a device whose answers the test sets, with a clock that the test sets.
struct Streams {
  struct Device final : SignalDevice {
    bool idle = true;
    int questions = 0;
    Result<void> writeValue(StreamId, DevicePtr, std::uint64_t) override { return {}; }
    Result<bool> isIdle(StreamId) override {
      ++questions;
      return idle;
    }
    Result<void> synchronize(StreamId) override { return {}; }
  } device;
  Nanoseconds now{1s};
  DeviceControl word{ControlWriter{&device, StreamId{}, 0}, ClockFunction([this] { return now; })};
  RequestScopeTracker high{device, word};
  HighStream &stream = **high.adopt(StreamId{}), &other = **high.adopt(StreamId{1});

  void call(HighStream &on) {
    REQUIRE(high.beginCall(on));
    high.endCall(on);
  }
  void wait(HighStream &on) { REQUIRE(high.synchronize(on)); }
  std::uint32_t open() const { return word.snapshot().highPriorityActive; }
  bool end(std::vector<HighStream *> named) {
    Result<bool> last = high.endRequest(named);
    REQUIRE(last);
    return *last;
  }
};

} // namespace

TEST_CASE("work that was waited for ends with the request, though its scope was open before") {
  Streams s;
  s.call(s.stream);
  REQUIRE(s.high.beginRequest());
  s.call(s.stream);
  s.wait(s.stream);
  CHECK(s.open() == 2);
  CHECK(s.end({&s.stream}));
  CHECK(s.open() == 0);
  CHECK(s.device.questions == 0);
}

TEST_CASE("where nobody has named the stream it ends when it has come to rest") {
  Streams s;
  s.call(s.stream);
  REQUIRE(s.high.beginRequest());
  s.wait(s.stream);
  CHECK_FALSE(s.end({}));
  REQUIRE(s.high.monitor());
  CHECK(s.open() == 1);
  s.now += 1ms;
  REQUIRE(s.high.monitor());
  CHECK(s.open() == 0);
}

TEST_CASE("what is left behind ends as soon as the device has done it, without a time to rest") {
  Streams s;
  REQUIRE(s.high.beginRequest());
  s.call(s.stream);
  s.call(s.other);
  s.wait(s.other);
  CHECK_FALSE(s.end({&s.stream, &s.other}));
  CHECK(s.open() == 1);
  s.device.idle = false;
  for (int i = 0; i < 3; ++i) {
    s.now += 1ms;
    REQUIRE(s.high.monitor());
    CHECK(s.open() == 1);
  }
  s.device.idle = true;
  REQUIRE(s.high.monitor());
  CHECK(s.open() == 0);
}

TEST_CASE("a call that is being made at the end, or that nobody has waited for, is not over") {
  Streams s;
  s.call(s.stream);
  s.wait(s.stream);
  REQUIRE(s.high.beginRequest());
  SUBCASE("being made") {
    REQUIRE(s.high.beginCall(s.stream));
    CHECK_FALSE(s.end({&s.stream}));
    CHECK(s.open() == 1);
    s.high.endCall(s.stream);
  }
  SUBCASE("made") {
    s.call(s.stream);
    CHECK_FALSE(s.end({&s.stream}));
  }
  CHECK(s.open() == 1);
  s.device.idle = false;
  REQUIRE(s.high.monitor());
  CHECK(s.open() == 1);
}

TEST_CASE("another request that is open keeps what one that ends has named") {
  Streams s;
  REQUIRE(s.high.beginRequest());
  REQUIRE(s.high.beginRequest());
  s.call(s.stream);
  s.wait(s.stream);
  CHECK_FALSE(s.end({&s.stream}));
  CHECK(s.open() == 1);
  CHECK(s.end({&s.stream}));
  CHECK(s.open() == 0);
}
