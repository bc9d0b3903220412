// Writes of the control word that the device makes when it is told to: armed ahead of a wake.
#include "tally/runtime/control_word.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

/// The control stream, and the device's execution of its writes.
struct WaitingStream {
  struct Write {
    std::uint64_t reached, epoch;
  };
  std::mutex mutex;
  std::deque<Write> queue;
  std::vector<std::uint64_t> stored; ///< epochs, in their order
  std::atomic<std::uint64_t> trigger{0};
  std::function<void()> during; ///< called once, while a thread puts a write on the stream
  bool refuses = false;

  Result<void> put(std::uint64_t reached, std::uint64_t word) {
    if (during)
      std::exchange(during, nullptr)();
    if (refuses && reached != 0)
      return Error{"does not wait"};
    std::unique_lock lock(mutex);
    queue.push_back({reached, decodeControl(word).epoch});
    return {};
  }
  /// Executes the writes; returns the newest epoch in the device's memory.
  std::uint64_t run() {
    std::unique_lock lock(mutex);
    for (; !queue.empty() && queue.front().reached <= trigger.load(); queue.pop_front())
      stored.push_back(queue.front().epoch);
    return stored.empty() ? 0 : stored.back();
  }
};

struct WaitingWriter {
  WaitingStream *stream;
  Result<void> operator()(std::uint64_t word) const { return stream->put(0, word); }
  Result<void> whenTriggered(std::uint64_t epoch, std::uint64_t word) const {
    return stream->put(epoch, word);
  }
};

} // namespace

TEST_CASE("an armed wake is a store") {
  WaitingStream stream;
  ControlWord word{WaitingWriter{&stream}};
  REQUIRE(word.arm());
  CHECK(stream.queue.empty()); // without a trigger the stream holds no armed write
  word.setTrigger(&stream.trigger);
  REQUIRE(word.arm());
  REQUIRE(word.arm());
  CHECK(stream.queue.size() == 1);
  CHECK(stream.run() == 0);
  REQUIRE(word.raise());
  CHECK(word.isTold());
  CHECK(stream.run() == 1);
  REQUIRE(word.arm());
  CHECK(stream.queue.empty()); // an open scope leaves no armed write
  REQUIRE(word.withdraw());
  // The next wake comes before the write is armed again.
  REQUIRE(word.raise());
  CHECK(stream.run() == 2);
  REQUIRE(word.withdraw());
  REQUIRE(word.arm());
  REQUIRE(word.advance());
  CHECK(stream.run() == 3);
  CHECK(word.requests() == 3);
  REQUIRE(word.arm());
  word.disarm();
  word.disarm();
  CHECK(stream.run() == 4);
  CHECK(word.requests() == 3);
  CHECK(stream.stored == std::vector<std::uint64_t>{1, 2, 3, 4});
}

TEST_CASE("the request to which a launch yields is told from work that disarm() had yield") {
  WaitingStream stream;
  std::int64_t now = 100;
  auto clock = [&] { return Nanoseconds(now); };
  ControlWord<WaitingWriter, decltype(clock)> word{WaitingWriter{&stream}, clock};
  word.setTrigger(&stream.trigger);
  CHECK(!word.requestAfter(0));
  REQUIRE(word.advance()); // epoch 1
  REQUIRE(word.requestAfter(0));
  CHECK(word.requestAfter(0)->epoch == 1);
  CHECK(word.requestAfter(0)->at == 100ns);
  REQUIRE(word.arm());
  now = 200;
  word.disarm(); // epoch 2
  CHECK(!word.requestAfter(1));
  now = 300;
  REQUIRE(word.advance()); // epoch 3: one request for launches of epochs 1 and 2
  for (std::uint64_t launch : {1u, 2u}) {
    REQUIRE(word.requestAfter(launch));
    CHECK(word.requestAfter(launch)->epoch == 3);
    CHECK(word.requestAfter(launch)->at == 300ns);
  }
  CHECK(!word.requestAfter(3));
  CHECK(word.requests() == 2);
  for (int i = 0; i < 100; ++i)
    REQUIRE(word.advance());
  CHECK(word.requestAfter(0)->epoch == 40); // the oldest known
  CHECK(!word.requestAfter(103));
}

TEST_CASE("wakes that come while a write is armed reach the device") {
  for (int wakes : {1, 2, 3}) {
    WaitingStream stream;
    ControlWord word{WaitingWriter{&stream}};
    word.setTrigger(&stream.trigger);
    stream.during = [&] {
      for (int i = 0; i < wakes; ++i) {
        REQUIRE(word.raise());
        REQUIRE(word.withdraw());
      }
    };
    REQUIRE(word.arm());
    CHECK(stream.run() == word.currentEpoch());
    CHECK(std::is_sorted(stream.stored.begin(), stream.stored.end()));
  }
}

TEST_CASE("a write behind an armed one does not wait for a wake") {
  WaitingStream stream;
  ControlWord word{WaitingWriter{&stream}};
  word.setTrigger(&stream.trigger);
  // A wake leaves its write to the listener while the next write is being armed.
  std::function<void()> once = [&] {
    REQUIRE(word.raise());
    REQUIRE(word.withdraw());
    REQUIRE(word.arm());
  };
  auto pause = [&] {
    if (once)
      std::exchange(once, nullptr)();
  };
  REQUIRE(word.listen(pause));
  CHECK(stream.run() == word.currentEpoch());
}

TEST_CASE("a device that does not wait is written to as before") {
  WaitingStream stream;
  stream.refuses = true;
  ControlWord word{WaitingWriter{&stream}};
  word.setTrigger(&stream.trigger);
  stream.during = [&] { REQUIRE(word.raise()); };
  CHECK(!word.arm());
  CHECK(stream.run() == 1);
  REQUIRE(word.withdraw());
  REQUIRE(word.arm());
  CHECK(!word.isArmed());
  REQUIRE(word.raise());
  CHECK(stream.run() == 2);
}

TEST_CASE("threads: what is armed, fired and written keeps the order, and the last wake arrives") {
  WaitingStream stream;
  ControlWord word{WaitingWriter{&stream}};
  word.setTrigger(&stream.trigger);
  std::atomic<int> running{2};
  auto wake = [&] {
    for (int i = 0; i < 20000; ++i) {
      CHECK(static_cast<bool>(word.raise()));
      if (i % 3 == 0)
        CHECK(static_cast<bool>(word.flush()));
      CHECK(static_cast<bool>(word.withdraw()));
      if (i % 64 == 0)
        std::this_thread::yield();
    }
    --running;
  };
  std::thread one(wake), other(wake);
  int armed = 0;
  for (int turn = 0; running != 0; ++turn) {
    CHECK(static_cast<bool>(word.arm()));
    armed += word.isArmed();
    if (turn % 5 == 0)
      word.disarm();
    CHECK(static_cast<bool>(word.listen([] {})));
    stream.run();
  }
  one.join();
  other.join();
  CHECK(static_cast<bool>(word.flush()));
  CHECK(armed > 0);
  if (!word.isArmed())
    CHECK(stream.run() == word.currentEpoch());
  word.disarm();
  CHECK(stream.run() == word.currentEpoch());
  CHECK(stream.queue.empty());
  CHECK(std::is_sorted(stream.stored.begin(), stream.stored.end()));
}
