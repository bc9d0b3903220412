#include "yield_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

using namespace tally;
using namespace tally::verify;

namespace {

std::size_t count(const std::vector<YieldPlan> &plans, RequestKind request) {
  return static_cast<std::size_t>(
      std::ranges::count(plans, request, [](const YieldPlan &plan) { return plan.request; }));
}

} // namespace

TEST_CASE("every: each poll once in each way, all polls, and twenty random runs") {
  PlanShape shape{.blocks = 6, .wave = 3, .polls = 9};
  for (Kind kind : {Kind::Guard, Kind::Persistent}) {
    auto plans = plansFor(kind, {}, shape);
    CHECK(count(plans, RequestKind::At) == 9);
    CHECK(count(plans, RequestKind::RaisedAndWithdrawn) == (kind == Kind::Persistent ? 18 : 9));
    CHECK(count(plans, RequestKind::Always) == 1);
    CHECK(count(plans, RequestKind::Random) == randomRuns);
    CHECK(count(plans, RequestKind::Widths) == (kind == Kind::Persistent ? randomRuns : 0));
    CHECK(count(plans, RequestKind::LateWrite) == 3);
    std::set<std::uint64_t> polls, seeds;
    for (const YieldPlan &plan : plans) {
      if (plan.request == RequestKind::At)
        polls.insert(plan.poll);
      if (plan.request == RequestKind::Random)
        seeds.insert(plan.schedule.seed);
      CHECK(plan.workers >= 1);
      CHECK(plan.schedule.residentBlocks >= 1);
    }
    CHECK(polls.size() == 9);
    CHECK(*polls.rbegin() == 8);
    CHECK(seeds.size() == randomRuns);
    CHECK_FALSE(seeds.contains(0));
  }
}

TEST_CASE("slice: a run for each size of slice, and twenty random ones") {
  auto plans = plansFor(Kind::Slice, {}, {.blocks = 6, .wave = 3});
  REQUIRE(plans.size() == 6 + randomRuns);
  for (std::uint32_t i = 0; i < 6; ++i)
    CHECK(plans[i].sliceBlocks == i + 1);
}

TEST_CASE("single runs") {
  PlanShape shape{.blocks = 6, .wave = 3, .polls = 9};
  auto at = plansFor(Kind::Guard, *parseYieldMode("4"), shape);
  REQUIRE(at.size() == 1);
  CHECK(at[0].request == RequestKind::At);
  CHECK(at[0].poll == 4);
  CHECK(toText(at[0], Kind::Guard) == "a request at poll 4, schedule seed 0, 3 resident blocks");
  auto random = plansFor(Kind::Persistent, *parseYieldMode("random:11"), shape);
  REQUIRE(random.size() == 1);
  CHECK(random[0].request == RequestKind::Random);
  CHECK(random[0].schedule.seed == 11);
}

TEST_CASE("a device without a microscope gets storms and one sure request") {
  PlanShape shape{.blocks = 6, .wave = 3, .polls = 0, .isMicroscope = false};
  auto plans = plansFor(Kind::Guard, {}, shape);
  CHECK(count(plans, RequestKind::Storm) == randomRuns);
  CHECK(count(plans, RequestKind::Early) == 1);
  CHECK(plans.size() == randomRuns + 1);
}

TEST_CASE("a wave is smaller than any grid that has two") {
  CHECK(waveOf(1) == 1);
  CHECK(waveOf(2) == 1);
  CHECK(waveOf(5) == 2);
  CHECK(waveOf(1000) == 4);
}

TEST_CASE("every plan has a name of its own") {
  PlanShape shape{.blocks = 6, .wave = 3, .polls = 5};
  std::set<std::string> names;
  auto plans = plansFor(Kind::Persistent, {}, shape);
  for (const YieldPlan &plan : plans)
    names.insert(toText(plan, Kind::Persistent));
  CHECK(names.size() == plans.size());
}

TEST_CASE("pause: pauses at each poll, with and without a new epoch, and random modes") {
  PlanShape shape{.blocks = 6, .wave = 3, .polls = 5};
  auto plans = plansFor(Kind::Pause, {}, shape);
  CHECK(count(plans, RequestKind::Pause) == 10);
  CHECK(count(plans, RequestKind::PauseAndRaise) == 10);
  CHECK(count(plans, RequestKind::Modes) == randomRuns);
  for (std::uint64_t k = 0; k != 5; ++k)
    CHECK(std::ranges::any_of(plans, [&](const YieldPlan &each) {
      return each.request == RequestKind::Pause && each.poll == k;
    }));
  shape.polls = 1000; // polls of loops: plans use some of them
  CHECK(count(plansFor(Kind::Pause, {}, shape), RequestKind::Pause) == 128);
  CHECK(count(plansFor(Kind::Persistent, {}, shape), RequestKind::Pause) == 0);
}
