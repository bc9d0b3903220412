// The number of SMs for best-effort work beside requests: the control, and the policies slo and
// partition.
#include "tally/policy/partition_policy.h"
#include "tally/policy/slo_policy.h"

#include <doctest/doctest.h>

#include <cmath>
#include <tuple>
#include <utility>

using namespace tally;
using namespace std::chrono_literals;

namespace {

/// An H100 with fifty requests a second. A request takes `alone`, and `slowdown` of that longer
/// when best-effort work has all SMs.
struct Served {
  std::chrono::nanoseconds alone{2ms}, period{20ms};
  double slowdown = 0.5;
  int heavyEvery = 0; ///< every so many requests one takes `heavy`; 0: none
  std::chrono::nanoseconds heavy{16ms};
  bool isTraining = true; ///< best-effort work is ready
  Snapshot now;

  Served() {
    now.smCount = 132;
    now.leastSms = 8;
  }
  /// Serves `count` requests; returns the number of SMs afterwards.
  std::uint32_t serve(SmControl &control, const SmControl::Goal &goal, int count) {
    std::uint32_t sms = control.update(now, goal);
    for (int i = 0; i < count; ++i) {
      std::chrono::nanoseconds took{0};
      if (heavyEvery != 0 && ++served % heavyEvery == 0)
        took = heavy;
      else
        took = std::chrono::nanoseconds(static_cast<std::int64_t>(
            static_cast<double>(alone.count()) * (1 + slowdown * sms / now.smCount)));
      now.highPriorityActive = 1;
      pass(control, goal, took, sms != 0);
      now.highPriorityActive = 0;
      now.activeFor = 0ns;
      ++now.busyPeriods;
      now.busyLast = now.busyMean = took;
      sms = pass(control, goal, period - took, true);
    }
    return sms;
  }

private:
  int served = 0;

  /// Lets time pass with frequent updates of the control; returns the number of SMs.
  std::uint32_t pass(SmControl &control, const SmControl::Goal &goal, std::chrono::nanoseconds time,
                     bool mayTrain) {
    std::uint32_t sms = 0;
    for (std::chrono::nanoseconds look = 500us; time > 0ns; time -= look) {
      look = std::min(look, time);
      now.now += look;
      now.activeFor += now.highPriorityActive != 0 ? look : 0ns;
      now.bestEffortRan += isTraining && mayTrain ? look : 0ns;
      sms = control.update(now, goal);
    }
    return sms;
  }
};

} // namespace

TEST_CASE(
    "SMs beside requests: none before two windows alone, then as many as the slowdown allows") {
  Served served;
  SmControl control;
  SmControl::Goal goal;
  goal.factor = 1.25; // the goal is 1.175, and 1.155 with a queue for a tenth of the time
  CHECK(served.serve(control, goal, 63) == 0);
  CHECK(served.serve(control, goal, 1) == 32); // twice the time of two yields
  std::uint32_t sms = served.serve(control, goal, 600);
  CHECK(sms == 40); // with 48 SMs requests would take 1.18 times as long, with 40 SMs 1.15 times
  // The load grows: requests take longer, and the number of SMs shrinks within a window.
  served.slowdown = 0.8;
  CHECK(served.serve(control, goal, 64) < sms);
}

TEST_CASE(
    "SMs beside requests: no first trial where the usual harm of so many SMs is not allowed") {
  for (auto [factor, most] : {std::pair(1.1, 0u), std::pair(1.25, 32u)}) {
    Served served;
    served.slowdown = 0; // the control does not know
    SmControl control;
    control.most = 0.25;
    // 32 SMs, the fewest that are worth a trial, are taken to slow requests down to 1.14. The goals
    // are 1.06 and 1.155.
    CHECK(served.serve(control, {factor, 0ns, true}, 1000) == most);
  }
}

TEST_CASE("SMs beside requests: fewer where requests queue half of the time") {
  for (auto [queues, sms] : {std::pair(true, 0), std::pair(false, 40)}) {
    Served served;
    served.period = 4ms;
    SmControl control;
    // The goal with a queue is 1.08; with 32 SMs requests take 1.12 times as long.
    SmControl::Goal goal{1.25, 0ns, queues};
    CHECK(served.serve(control, goal, 1000) == static_cast<std::uint32_t>(sms));
  }
}

TEST_CASE("SMs beside requests: what a server does at its start says nothing of its requests") {
  Served served;
  SmControl control;
  SmControl::Goal goal{1.1, 0ns, true};
  // Once it was busy for 6 s. Beside such a time the slowdown of requests would not count.
  served.now.now += 6s;
  ++served.now.busyPeriods;
  served.now.busyLast = 6s;
  int shared = 0;
  for (int i = 0; i < 1000; ++i)
    shared += served.serve(control, goal, 1) != 0 ? 1 : 0;
  CHECK(shared == 0);
}

TEST_CASE("SMs beside requests: a server that became faster is measured alone again") {
  Served served;
  SmControl control;
  SmControl::Goal goal{1.25, 0ns, true};
  served.alone = 3ms;
  REQUIRE(served.serve(control, goal, 64) != 0);
  served.alone = 2ms;
  CHECK(served.serve(control, goal, 600) == 40); // as beside a server that always took 2 ms
}

TEST_CASE("SMs beside requests: none where sharing costs best-effort work more than it brings") {
  Served served;
  served.slowdown = 1.5;
  SmControl control;
  SmControl::Goal goal;
  goal.factor = 3;
  static_cast<void>(served.serve(control, goal, 64));
  CHECK(served.serve(control, goal, 32) == 0);
  // The control tries more SMs again after 400 times as many requests, for one window.
  int tried = 0;
  for (int i = 0; i < 300 * 64; ++i)
    tried += served.serve(control, goal, 1) != 0 ? 1 : 0;
  CHECK(tried == 32);
}

TEST_CASE("SMs beside requests: no trial under a load that would make a queue grow") {
  Served served;
  served.period = 2200us;
  SmControl control;
  SmControl::Goal goal;
  goal.factor = 2;
  CHECK(served.serve(control, goal, 1000) == 0);
  goal.queues = false;
  CHECK(served.serve(control, goal, 1000) != 0);
}

TEST_CASE("SMs beside requests: a training that has nothing to do says nothing of more SMs") {
  Served served;
  SmControl control;
  SmControl::Goal goal{1.25, 0ns, true};
  REQUIRE(served.serve(control, goal, 64) == 32);
  served.isTraining = false;
  served.slowdown = 0;
  CHECK(served.serve(control, goal, 1000) == 32);
}

TEST_CASE("SMs beside requests: a busy time without an end takes them back") {
  Served served;
  SmControl control;
  SmControl::Goal goal;
  goal.factor = 1.25;
  REQUIRE(served.serve(control, goal, 100) != 0);
  served.now.highPriorityActive = 1;
  served.now.activeFor = 2600us;
  CHECK(control.update(served.now, goal) != 0);
  served.now.activeFor = 3000us; // a heavy one: its rest has no best-effort work beside it
  CHECK(control.update(served.now, goal) == 0);
  served.now.activeFor = 14ms;
  CHECK(control.update(served.now, goal) == 0);
  served.now.activeFor = 0ns;
  CHECK(control.update(served.now, goal) != 0);
}

TEST_CASE("SMs beside requests: heavy ones are slowed until they are known, and that is allowed "
          "for") {
  for (auto [heavyEvery, factor, queues, sms] :
       {std::tuple(0, 1.15, true, 64), std::tuple(20, 1.1, true, 40), std::tuple(5, 1.1, true, 40),
        std::tuple(5, 1.1, false, 48)}) {
    CAPTURE(heavyEvery);
    CAPTURE(queues);
    Served served;
    served.heavyEvery = heavyEvery;
    served.slowdown = 0.1;
    SmControl control;
    control.cost = 0ns;
    SmControl::Goal goal{factor, 0ns, queues};
    CHECK(served.serve(control, goal, 3000) == static_cast<std::uint32_t>(sms));
  }
}

TEST_CASE("SMs beside requests: of two kinds of requests more are needed to know the slowdown") {
  Served served;
  served.heavyEvery = 2; // of the middle half as well
  SmControl control;
  SmControl::Goal goal{1.25, 0ns, false};
  CHECK(served.serve(control, goal, 128) == 0);
  CHECK(served.serve(control, goal, 2048) != 0);
}

TEST_CASE("SMs beside requests: another load is learnt anew") {
  SmControl::Goal goal{1.25, 0ns, true};
  SmControl control;
  Served served;
  served.slowdown = 0.3;
  std::uint32_t before = served.serve(control, goal, 300);
  REQUIRE(before > 32);
  served.alone = 8ms;
  served.period = 80ms;
  int aside = 0; // far too late: nothing is known of such requests
  for (int i = 0; i < 64; ++i)
    aside += served.serve(control, goal, 1) == 0 ? 1 : 0;
  CHECK(aside >= 32);
  CHECK(served.serve(control, goal, 300) == before); // the old load's failure does not count
}

TEST_CASE("SMs beside requests: a later run begins with the number that was found") {
  SmControl::Goal loose{1.25, 0ns, true}, tight{1.1, 0ns, true};
  SmControl control;
  Served first;
  first.slowdown = 0.3;
  std::uint32_t found = first.serve(control, loose, 1000);
  REQUIRE(found > 32);
  CHECK(control.memory() != "");
  for (auto [goal, sms] : {std::pair(loose, found), std::pair(tight, 24u)}) {
    SmControl again;
    again.cost = 100us; // so that fewer SMs are worth a trial
    again.recall(control.memory());
    Served later;
    later.slowdown = 0.3;
    CHECK(later.serve(again, goal, 64) == sms);
  }
  // Requests of another length are others.
  SmControl other;
  other.recall(control.memory());
  Served longer;
  longer.alone = 4ms;
  longer.period = 40ms;
  CHECK(longer.serve(other, loose, 64) == 16);
  // A number that turns out to be too large is not kept.
  Served worse;
  worse.slowdown = 4;
  SmControl wrong;
  wrong.recall(control.memory());
  CHECK(worse.serve(wrong, loose, 64) == found);
  CHECK(worse.serve(wrong, loose, 32) == 0);
  CHECK(wrong.memory() == "");
}

TEST_CASE("found numbers of SMs: the text is read as it was written, and another one ignored") {
  FoundSms found;
  CHECK(found.text() == "");
  found.note(2e6, {40, 1.08});
  found.note(1e6, {16, 1});
  CHECK(found.text() == "2000000 40 1080000;1000000 16 1000000;");
  FoundSms read(found.text());
  REQUIRE(read.find(2.1e6));
  CHECK(read.find(2.1e6)->sms == 40);
  CHECK(read.find(2.1e6)->slowdown == 1.08);
  CHECK(!read.find(2.3e6));
  read.limit(2e6, 20);
  CHECK(read.find(2e6)->slowdown == doctest::Approx(1.04));
  read.limit(1e6, 0);
  CHECK(read.text() == "2000000 20 1040000;");
  for (int i = 0; i < 20; ++i) // eight at most
    read.note(1e6 * std::pow(2, i), {8, 1});
  CHECK(!read.find(1e6));
  CHECK(FoundSms(read.text()).text() == read.text());
  for (const char *text : {"x", "1", "1 2", "1 2 3", "1 2 1000000", "0 8 1000000;", "5 0 1000000;",
                           "5 8 999999;", "5 70000 1000000;", "5 8 1000000;5", "-5 8 1000000;"}) {
    CAPTURE(text);
    CHECK(FoundSms(text).text() == "");
  }
}

TEST_CASE("a window of busy times: what it says of usual and of heavy ones") {
  BusyWindow window;
  for (double each : {3.0, 1.0, 2.0, 4.0, 5.0, 6.0, 7.0, 14.0})
    window.add(each);
  BusyFacts facts = window.facts(2);
  CHECK(facts.middle == 4.5);
  CHECK(facts.usual == 6);
  CHECK(facts.longest == 14);
  CHECK(window.facts(2, 13).longest == 7);
  CHECK(window.facts(2, 0.5).longest == 14);
  CHECK(facts.error == doctest::Approx(1.5 * std::sqrt(1.25 / 4) / 4.5));
  CHECK(facts.heavyNumber == 1.0 / 8);
  CHECK(facts.heavyPart == doctest::Approx(14.0 / 42));
  CHECK(facts.unseenPart == doctest::Approx(12.0 / 42));
  window.clear();
  CHECK(window.size() == 0);
}

TEST_CASE("SMs beside requests: a target for busy times") {
  Served served;
  SmControl control;
  SmControl::Goal goal;
  goal.target = 2460us; // the goal is 1.161, and 1.143 with a queue; with 32 SMs requests take 1.12
                        // times as long, with 40 SMs 1.15 times
  std::uint32_t sms = served.serve(control, goal, 1000);
  CHECK(sms == 32);
  goal.target = 2020us;
  CHECK(served.serve(control, goal, 200) == 0);
  // The runtime cannot confine work.
  served.now.leastSms = 0;
  CHECK(served.serve(control, goal, 1000) == 0);
}

TEST_CASE("partition: the training has the server's SMs as far as requests do not suffer, and "
          "always its own") {
  Served served;
  served.slowdown = 0.5;
  PartitionPolicy policy(0.25, 0.5);
  auto beside = [&] {
    served.now.highPriorityActive = 1;
    Decision decision = policy.decide(served.now);
    served.now.highPriorityActive = 0;
    CHECK(decision.runBestEffort);
    CHECK(decision.longestUnconfined == 50us);
    return decision.sms;
  };
  policy.beside.least = 0.25;
  SmControl::Goal goal{1.1, 0ns, true};
  CHECK(beside() == 32);
  static_cast<void>(served.serve(policy.beside, goal, 1000));
  CHECK(beside() == 48); // with 56 SMs requests would take 1.08 times as long as with 32
  served.slowdown = 2;   // requests suffer
  static_cast<void>(served.serve(policy.beside, goal, 1000));
  CHECK(beside() == 32);
  CHECK(policy.decide(served.now).sms == allSms);
}

TEST_CASE("slo: with a factor, best-effort work has the control's SMs beside requests") {
  Served served;
  SloPolicy policy;
  policy.factor = 1.25;
  SmControl::Goal goal{policy.factor, policy.target, true};
  static_cast<void>(served.serve(policy.beside, goal, 600));
  served.now.highPriorityActive = 1;
  Decision decision = policy.decide(served.now);
  CHECK(decision.runBestEffort);
  CHECK(decision.sms == 40);
  CHECK(decision.longest == anyDuration);
  CHECK(decision.longestUnconfined == decision.longestNonPreemptible);
  CHECK(decision.longestUnconfined > 100us); // a quarter of a quarter of a request
  CHECK(decision.longestUnconfined < 160us);
  served.now.highPriorityActive = 0;
  served.now.sinceHighPriorityEnded = 1ms;
  CHECK(policy.decide(served.now).sms == allSms);
  CHECK(policy.decide(served.now).longestNonPreemptible == anyDuration);
}
