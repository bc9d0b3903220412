// The control word: coding, epochs that only grow, one write per wake, permits. And the policy.
#include "tally/runtime/control_word.h"

#include <doctest/doctest.h>

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
  // Further back than is kept: the oldest that is.
  CHECK(word.raisedAfter(0) == Nanoseconds(now - 63 * 10));
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
  CHECK(*word.advance());
  CHECK(word.snapshot().highPriorityActive == 0);
  CHECK(!word.lastWake());
  CHECK(word.snapshot().sinceHighPriorityEnded == Nanoseconds::max()); // it is no scope
  // While a wake's write is being issued there is nothing to do.
  std::optional<bool> meanwhile;
  during = [&] { meanwhile = *word.advance(); };
  REQUIRE(word.raise());
  CHECK(meanwhile == false);
  CHECK(word.lastWake() == 1000ns);
  now = 1700;
  CHECK(word.snapshot().activeFor == 700ns);
  CHECK(*word.advance());
  CHECK(word.snapshot().highPriorityActive == 1);
  CHECK(word.snapshot().activeFor == 700ns);
  CHECK(word.raisedAfter(2) == 1700ns);
  broken = true;
  CHECK(!word.advance());
  broken = false;
  REQUIRE(word.withdraw());
  REQUIRE(word.raise());
  CHECK(written == std::vector<std::uint64_t>{1, 2, 3, 5});
}

TEST_CASE("threads: writes come in the order of epochs, no permit under an epoch being raised") {
  std::atomic<std::uint64_t> last{0};
  std::atomic<bool> ordered{true};
  auto write = [&](std::uint64_t word) -> Result<void> {
    std::uint64_t epoch = decodeControl(word).epoch;
    if (last.exchange(epoch) + 1 != epoch)
      ordered = false;
    return {};
  };
  ControlWord word(write);
  std::atomic<bool> stop{false}, sound{true};
  std::atomic<std::uint64_t> permits{0}, advances{0};
  std::thread dispatcher([&] {
    for (std::uint64_t turn = 0; !stop; ++turn) {
      if (turn % 3 == 0)
        if (Result<bool> advanced = word.advance(); advanced && *advanced)
          ++advances;
      if (std::optional<std::uint64_t> epoch = word.permit(PriorityPolicy{})) {
        ++permits;
        // A permit is for an epoch whose write was already issued.
        if (*epoch > last)
          sound = false;
      }
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
  CHECK(sound);
  CHECK(advances > 0);
  CHECK(last == word.currentEpoch());
}
