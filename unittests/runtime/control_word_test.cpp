// The control word: its coding, epochs that only grow, one write per wake, permits; and the policy.
#include "tally/runtime/control_word.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <functional>
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
