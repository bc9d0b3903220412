// The control word: its coding, epochs that only grow, one write per wake, permits; and the policy.
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

struct FakeClock {
  std::int64_t *now;
  Nanoseconds operator()() const { return Nanoseconds(*now); }
};

} // namespace

TEST_CASE("the word is coded as the ABI says") {
  CHECK(encodeControl({.epoch = 1, .workers = 2, .mode = TALLY_CONTROL_PAUSE}) == 0x1000202);
  ControlFields most{TALLY_CONTROL_EPOCH_MAX, 0xffff, TALLY_CONTROL_CHECKPOINT};
  CHECK(decodeControl(encodeControl(most)) == most);
  CHECK(decodeControl(encodeControl({})) == ControlFields{0, 0xffff, TALLY_CONTROL_RUN});
}

TEST_CASE("priority policy") {
  PriorityPolicy strict;
  CHECK(strict.decide({0, 0ns}).runBestEffort);
  CHECK_FALSE(strict.decide({1, 1h}).runBestEffort);
  PriorityPolicy patient{100us};
  CHECK_FALSE(patient.decide({0, 99us}).runBestEffort);
  CHECK(patient.decide({0, 100us}).runBestEffort);
  CHECK_FALSE(patient.decide({2, 100us}).runBestEffort);
}

TEST_CASE("a wake that is not noted yet has lasted for no time") {
  std::function<void()> look;
  auto clock = [&] {
    // raise() reads the time between the increment of the count and the note of it.
    if (std::function<void()> once = std::exchange(look, nullptr))
      once();
    return Nanoseconds(1000);
  };
  auto write = [](std::uint64_t) -> Result<void> { return {}; };
  ControlWord word(write, clock);
  std::vector<Snapshot> seen;
  look = [&] { seen.push_back(word.snapshot()); };
  REQUIRE(word.raise());
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].highPriorityActive == 1);
  CHECK(seen[0].activeFor == 0ns);
}

TEST_CASE("one write per wake, epochs grow, permits follow the policy") {
  std::vector<std::uint64_t> written;
  std::int64_t now = 1000;
  auto write = [&](std::uint64_t word) -> Result<void> {
    written.push_back(decodeControl(word).epoch);
    return {};
  };
  ControlWord word(write, FakeClock{&now});
  PriorityPolicy patient{50ns};
  CHECK(decodeControl(word.initialWord()).epoch == 0);
  CHECK(word.permit(patient) == 0);
  REQUIRE(word.raise());
  CHECK_FALSE(word.permit(patient));
  CHECK(word.raisedAfter(0) == 1000ns);
  now = 2000;
  REQUIRE(word.raise());
  CHECK(written == std::vector<std::uint64_t>{1});
  CHECK_FALSE(*word.withdraw());
  CHECK_FALSE(word.permit(PriorityPolicy{}));
  CHECK(*word.withdraw());
  CHECK(word.permit(PriorityPolicy{}) == 1);
  CHECK_FALSE(word.permit(patient));
  now = 2050;
  CHECK(word.permit(patient) == 1);
  for (int i = 0; i < 100; ++i) {
    now += 10;
    REQUIRE(word.raise());
    REQUIRE(word.withdraw());
  }
  CHECK(written.size() == 101);
  CHECK(written.back() == 101);
  CHECK(word.raisedAfter(100) == Nanoseconds(now));
  CHECK(word.raisedAfter(99) == Nanoseconds(now - 10));
  // An epoch older than the stored ones: the result is the oldest stored one.
  CHECK(word.raisedAfter(0) == Nanoseconds(now - 63 * 10));
}

TEST_CASE("a write is left to the thread that listens, and left out while nothing runs") {
  std::vector<std::uint64_t> written;
  auto write = [&](std::uint64_t word) -> Result<void> {
    written.push_back(decodeControl(word).epoch);
    return {};
  };
  ControlWord word(write);
  // The listener makes the write at its next look.
  std::size_t looks = 0, before = 0;
  REQUIRE(word.listen([&] {
    if (++looks != 3)
      return;
    REQUIRE(word.raise());
    before = written.size();
  }));
  CHECK(looks == 3);
  CHECK(before == 0);
  CHECK(written == std::vector<std::uint64_t>{1});
  REQUIRE(word.flush());
  REQUIRE(word.withdraw());
  // Where the listener is slow, the waking thread makes the write; each epoch is written once.
  REQUIRE(word.listen([&] {
    if (written.size() == 2)
      return;
    REQUIRE(word.raise());
    REQUIRE(word.flush());
  }));
  CHECK(written == std::vector<std::uint64_t>{1, 2});
  REQUIRE(word.withdraw());
  // The next request overtakes a request that ended before its write.
  REQUIRE(word.listen([&, made = false]() mutable {
    for (int i = 0; i < 2 && !made; ++i) {
      REQUIRE(word.raise());
      REQUIRE(word.withdraw());
    }
    made = true;
  }));
  CHECK(written == std::vector<std::uint64_t>{1, 2, 4});
  word.setBusy(false);
  REQUIRE(word.raise());
  REQUIRE(word.withdraw());
  CHECK(written.size() == 3);
  CHECK(word.permit(PriorityPolicy{}) == 5);
  word.setBusy(true);
  REQUIRE(word.raise());
  CHECK(written.back() == 6);
}

TEST_CASE(
    "writes of several threads and a listener stay in the order of epochs, the last one too") {
  std::vector<std::uint64_t> written;
  auto write = [&](std::uint64_t word) -> Result<void> {
    written.push_back(decodeControl(word).epoch);
    return {};
  };
  ControlWord word(write);
  std::atomic<int> running{2};
  auto wake = [&] {
    for (int i = 0; i < 20000; ++i) {
      CHECK(static_cast<bool>(word.raise()));
      if (i % 3 == 0)
        CHECK(static_cast<bool>(word.flush()));
      CHECK(static_cast<bool>(word.withdraw()));
    }
    --running;
  };
  std::thread one(wake), other(wake);
  while (running != 0)
    CHECK(static_cast<bool>(word.listen([] {})));
  one.join();
  other.join();
  CHECK(std::is_sorted(written.begin(), written.end()));
  CHECK(written.back() == word.currentEpoch());
}

TEST_CASE("a request that comes while another thread writes is written by that thread") {
  std::vector<std::uint64_t> written;
  std::atomic<int> inWrite{0};
  auto write = [&](std::uint64_t word) -> Result<void> {
    written.push_back(decodeControl(word).epoch);
    if (inWrite.fetch_add(1) == 0)
      while (inWrite.load() != 2)
        std::this_thread::yield();
    return {};
  };
  ControlWord word(write);
  std::thread slow([&] {
    CHECK(static_cast<bool>(word.raise()));
    CHECK(static_cast<bool>(word.withdraw()));
  });
  while (inWrite.load() == 0)
    std::this_thread::yield();
  // The scope closes here, so that the next request wakes again.
  REQUIRE(word.withdraw());
  REQUIRE(word.raise());
  CHECK(written == std::vector<std::uint64_t>{1});
  inWrite = 2;
  slow.join();
  CHECK(written == std::vector<std::uint64_t>{1, 2});
}

TEST_CASE("who has no call to make first does not rely on a listener") {
  std::vector<std::uint64_t> written;
  bool broken = false;
  auto write = [&](std::uint64_t word) -> Result<void> {
    if (broken)
      return Error{"lost"};
    written.push_back(decodeControl(word).epoch);
    return {};
  };
  ControlWord word(write);
  REQUIRE(word.listen([&, first = true]() mutable {
    // Acts as if the thread lost its core here until the notification.
    if (!std::exchange(first, false))
      return;
    REQUIRE(word.raiseAndTell());
    CHECK(written == std::vector<std::uint64_t>{1});
    REQUIRE(word.withdraw());
    broken = true;
    CHECK_FALSE(static_cast<bool>(word.raiseAndTell()));
    CHECK(word.snapshot().highPriorityActive == 0);
  }));
}

TEST_CASE("a wake between the two reads of a permit leaves it under the old epoch") {
  auto write = [](std::uint64_t) -> Result<void> { return {}; };
  ControlWord word(write);
  struct Interrupted {
    ControlWord<decltype(write)> &word;
    Decision decide(const Snapshot &now) const {
      Decision decision = PriorityPolicy{}.decide(now);
      CHECK(word.raise());
      return decision;
    }
  };
  CHECK(word.permit(Interrupted{word}) == 0);
  CHECK(word.currentEpoch() == 1);
}

TEST_CASE("a wake whose write fails is not counted") {
  bool broken = true;
  auto write = [&](std::uint64_t) -> Result<void> {
    return broken ? Result<void>(Error{"lost"}) : Result<void>();
  };
  ControlWord word(write);
  Result<void> failed = word.raise();
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message == "lost");
  CHECK(word.snapshot().highPriorityActive == 0);
  broken = false;
  CHECK(word.raise());
  CHECK(word.snapshot().highPriorityActive == 1);
}

TEST_CASE("what was let run beside a scope can be told to yield as well") {
  std::vector<std::uint64_t> written;
  std::int64_t now = 1000;
  bool broken = false;
  std::function<void()> during;
  auto write = [&](std::uint64_t word) -> Result<void> {
    if (broken)
      return Error{"lost"};
    written.push_back(decodeControl(word).epoch);
    if (during)
      std::exchange(during, nullptr)();
    return {};
  };
  ControlWord word(write, FakeClock{&now});
  REQUIRE(word.advance());
  CHECK(word.snapshot().highPriorityActive == 0);
  CHECK(!word.lastWake());
  CHECK(word.snapshot().sinceHighPriorityEnded == Nanoseconds::max()); // it is no scope
  // While a thread issues a wake's write, other threads leave the write to it.
  during = [&] { REQUIRE(word.advance()); };
  REQUIRE(word.raise());
  CHECK(word.lastWake() == 1000ns);
  now = 1700;
  CHECK(word.snapshot().activeFor == 700ns);
  REQUIRE(word.advance());
  CHECK(word.snapshot().highPriorityActive == 1);
  CHECK(word.snapshot().activeFor == 700ns);
  CHECK(word.raisedAfter(3) == 1700ns);
  broken = true;
  CHECK(!word.advance());
  broken = false;
  REQUIRE(word.withdraw());
  REQUIRE(word.raise());
  CHECK(written == std::vector<std::uint64_t>{1, 2, 3, 4, 6});
}

TEST_CASE("threads: writes come in the order of epochs, the newest too") {
  std::atomic<std::uint64_t> last{0};
  std::atomic<bool> ordered{true};
  auto write = [&](std::uint64_t word) -> Result<void> {
    std::uint64_t epoch = decodeControl(word).epoch;
    if (last.exchange(epoch) > epoch)
      ordered = false;
    return {};
  };
  ControlWord word(write);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> permits{0}, advances{0};
  std::thread dispatcher([&] {
    for (std::uint64_t turn = 0; !stop; ++turn) {
      if (turn % 3 == 0)
        advances += static_cast<bool>(word.advance());
      permits += word.permit(PriorityPolicy{}).has_value();
    }
  });
  std::vector<std::thread> requests;
  for (int t = 0; t < 3; ++t)
    requests.emplace_back([&] {
      for (int i = 0; i < 3000; ++i) {
        bool fine = static_cast<bool>(word.raise());
        fine = fine && static_cast<bool>(word.withdraw());
        if (!fine)
          ordered = false;
        if (i % 16 == 0)
          std::this_thread::yield();
      }
    });
  for (std::thread &each : requests)
    each.join();
  while (permits == 0)
    std::this_thread::yield();
  stop = true;
  dispatcher.join();
  CHECK(ordered);
  CHECK(advances > 0);
  CHECK(last == word.currentEpoch());
}

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
  ControlWord<WaitingWriter, FakeClock> word{WaitingWriter{&stream}, FakeClock{&now}};
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
