// The measurements of launches of one shape, and the kind that follows from them for the next
// launch.
#include "harness.h"

#include "planning/kind_choice.h"

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

LaunchPlan way(std::optional<Kind> kind, Nanoseconds saveTime = 0us) {
  LaunchPlan plan;
  plan.kind = kind;
  plan.waves = 10;
  plan.saveTime = saveTime;
  return plan;
}

KindChoice profileOf(Nanoseconds saveTime = 0us) {
  return KindChoice({way(Kind::Persistent), way(Kind::Guard), way(Kind::Checkpoint, saveTime),
                     way(std::nullopt)});
}

/// Returns the choice after a launch whose blocks took that long.
Kind after(KindChoice &profile, Nanoseconds block) {
  profile.pick(20us, false)->blocks->add(block);
  return *profile.pick(20us, false)->kind;
}

} // namespace

TEST_CASE("between blocks while nothing is known; inside of them where they are too long") {
  KindChoice profile = profileOf();
  CHECK(profile.pick(20us, false)->kind == Kind::Persistent);
  CHECK(after(profile, 445us) == Kind::Checkpoint);
  KindChoice brief = profileOf();
  CHECK(after(brief, 12us) == Kind::Persistent);
  CHECK(after(brief, 15us) == Kind::Persistent);
  // A small excess over the bound does not change the choice; the user's bound counts.
  KindChoice slightly = profileOf();
  CHECK(after(slightly, 22us) == Kind::Persistent);
  KindChoice generous = profileOf();
  generous.pick(1ms, false)->blocks->add(500us);
  CHECK(generous.pick(1ms, false)->kind == Kind::Persistent);
}

TEST_CASE(
    "a grid that a guard soon drains goes through it, once its blocks are known to be short") {
  KindChoice profile = profileOf();
  profile.preferGuard();
  CHECK(profile.pick(20us, false)->kind == Kind::Persistent);
  CHECK(after(profile, 12us) == Kind::Guard);
  KindChoice lengthy = profileOf();
  lengthy.preferGuard();
  CHECK(after(lengthy, 445us) == Kind::Checkpoint);
  KindChoice between({way(Kind::Persistent), way(Kind::Guard)});
  between.preferGuard();
  CHECK(between.pick(20us, false)->kind == Kind::Guard);
}

TEST_CASE("what saving takes counts") {
  // A request waits for the poll and until all blocks are saved.
  KindChoice medium = profileOf(256us);
  CHECK(after(medium, 200us) == Kind::Persistent);
  CHECK(after(medium, 300us) == Kind::Persistent);
  KindChoice longer = profileOf(256us);
  CHECK(after(longer, 1ms) == Kind::Checkpoint);
}

TEST_CASE("one bad measurement is made good by the next ones") {
  KindChoice profile = profileOf();
  CHECK(after(profile, 9ms) == Kind::Checkpoint);
  CHECK(profile.pick(20us, false)->blocks->wantsMore(20us));
  CHECK(after(profile, 8us) == Kind::Persistent);
  CHECK(after(profile, 9ms) == Kind::Checkpoint); // two of three
  CHECK(after(profile, 8us) == Kind::Persistent);
  CHECK(after(profile, 8us) == Kind::Persistent);
  CHECK(!profile.pick(20us, false)->blocks->wantsMore(20us));
  CHECK(after(profile, 9ms) == Kind::Persistent); // three of six
}

TEST_CASE("blocks that become shorter or longer") {
  KindChoice profile = profileOf();
  for (int i = 0; i < 20; ++i)
    CHECK(after(profile, 10us) == Kind::Persistent);
  for (int i = 0; i < 4; ++i)
    after(profile, 500us);
  CHECK(profile.pick(20us, false)->kind == Kind::Checkpoint);
  for (int i = 0; i < 4; ++i) // not clearly shorter
    CHECK(after(profile, 32us) == Kind::Checkpoint);
  for (int i = 0; i < 4; ++i)
    after(profile, 15us);
  CHECK(profile.pick(20us, false)->kind == Kind::Persistent);
}

TEST_CASE("what a kind was measured to cost counts") {
  auto chosen = [](Nanoseconds block, Nanoseconds between, Nanoseconds inside) {
    KindChoice profile = profileOf();
    profile.pick(20us, false)->blockCost.add(between);
    after(profile, block);
    for (int i = 0; i < 3; ++i) {
      auto plan = profile.pick(20us, false);
      REQUIRE(plan->kind == Kind::Checkpoint); // until it is known
      plan->blockCost.add(inside);
      plan->blocks->add(block);
    }
    return *profile.pick(20us, false)->kind;
  };
  CHECK(chosen(60us, 100us, 104us) == Kind::Checkpoint);
  CHECK(chosen(60us, 100us, 150us) == Kind::Persistent); // waits a quarter as long
  CHECK(chosen(5ms, 100us, 150us) == Kind::Checkpoint);
}

TEST_CASE("of one wave, what going between blocks costs is found out too") {
  LaunchPlan guard = way(Kind::Guard), checkpoint = way(Kind::Checkpoint);
  guard.waves = checkpoint.waves = 1;
  KindChoice profile({guard, checkpoint, way(std::nullopt)});
  std::map<std::optional<Kind>, int> taken;
  for (int i = 0; i < 1000; ++i) {
    auto plan = profile.pick(20us, false);
    ++taken[plan->kind];
    plan->blocks->add(60us);
    plan->blockCost.add(plan->kind == Kind::Guard ? 100us : 115us);
  }
  CHECK(taken[Kind::Checkpoint] < 40);
  CHECK(taken[Kind::Guard] > 960);
}

TEST_CASE("what cannot be measured is not tried for ever") {
  LaunchPlan guard = way(Kind::Guard), checkpoint = way(Kind::Checkpoint);
  guard.waves = checkpoint.waves = 1;
  KindChoice profile({guard, checkpoint, way(std::nullopt)});
  int between = 0;
  for (int i = 0; i < 10000; ++i) {
    auto plan = profile.pick(20us, false);
    plan->blocks->add(60us);
    if (plan->kind == Kind::Checkpoint)
      plan->blockCost.add(115us);
    else
      ++between, plan->timesAlone += wantsMeasurement(*plan, 20us);
  }
  CHECK(between == 32);
}

TEST_CASE("a block that takes less than can be measured is a short one") {
  LaunchPlan guard = way(Kind::Guard), checkpoint = way(Kind::Checkpoint);
  guard.waves = checkpoint.waves = 1;
  KindChoice profile({guard, checkpoint, way(std::nullopt)});
  CHECK(profile.pick(20us, false)->kind == Kind::Checkpoint);
  CHECK(after(profile, 0us) == Kind::Guard);
  CHECK(profile.blockTime() > 0us);
}

TEST_CASE("what a kind costs is measured by launches that go alone") {
  LaunchPlan plan = way(Kind::Checkpoint);
  plan.blocks = std::make_shared<BlockTimes>();
  CHECK(wantsMeasurement(plan, 20us));
  for (int i = 0; i < 3; ++i)
    plan.blocks->add(60us);
  CHECK(wantsMeasurement(plan, 20us)); // its cost is not known
  for (int i = 0; i < 3; ++i)
    plan.blockCost.add(60us);
  CHECK(!wantsMeasurement(plan, 20us));
  plan.blockCost = {};
  plan.timesAlone = 32; // others are always beside it
  CHECK(!wantsMeasurement(plan, 20us));
}

TEST_CASE("a kind in front is taken whatever blocks take") {
  KindChoice profile({way(Kind::Checkpoint, 1ms), way(Kind::Persistent), way(std::nullopt)});
  for (int i = 0; i < 10; ++i) {
    auto plan = profile.pick(20us, false);
    CHECK(plan->kind == Kind::Checkpoint);
    CHECK(!plan->blocks);
    plan->duration.add(3us);
  }
}

TEST_CASE("a shape that is not known is taken to be like the kernel's others") {
  KindChoice profile = profileOf();
  CHECK(profile.pick(20us, false, 400us)->kind == Kind::Checkpoint);
  CHECK(profile.pick(20us, false, 10us)->kind == Kind::Persistent);
  profile.pick(20us, false)->blocks->add(10us);
  CHECK(profile.pick(20us, false, 400us)->kind == Kind::Persistent);
}

TEST_CASE("launches that are apart from their shape: by their sizes, whatever their addresses") {
  Harness harness(1, {Kind::Persistent, Kind::Checkpoint});
  LoadedKernel &kernel = *harness.kernels[0];
  PlanRules rules;
  rules.kinds = allKinds;
  rules.maxListBytes = rules.maxSaveBytes = 1 << 20;
  rules.maxSavedBlocks = 1 << 10;
  LaunchShape shape{{24, 1, 1}, {64, 1, 1}, 0}, other{{48, 1, 1}, {64, 1, 1}, 0};
  auto planOf = [&](const LaunchShape &of, std::uint64_t address, std::uint64_t size) {
    MixArguments arguments{address, address, Program::words, size};
    return *kernel.plan(harness.device, of, std::as_bytes(std::span(&arguments, 1)), rules);
  };
  constexpr std::uint64_t here = std::uint64_t{1} << 40, there = here + 256;
  auto usual = planOf(shape, here, 768), othersUsual = planOf(other, here, 768);
  CHECK(planOf(shape, here, 50304) == usual);
  MixArguments late{here, here, Program::words, 50304};
  kernel.setApart(shape, std::as_bytes(std::span(&late, 1)));
  auto apart = planOf(shape, here, 50304);
  CHECK(apart != usual);
  CHECK(planOf(shape, there, 50304) == apart);
  CHECK(planOf(shape, here, 768) == usual);
  CHECK(planOf(shape, here, 3072) == usual);
  CHECK(planOf(other, here, 50304) == othersUsual);
  SUBCASE("ever new sizes: the first are as before") {
    for (std::uint64_t size = 0; size < 256; ++size) {
      late.key = 100000 + size;
      kernel.setApart(shape, std::as_bytes(std::span(&late, 1)));
    }
    CHECK(planOf(shape, here, 50304) == usual);
    CHECK(planOf(shape, here, late.key) != usual);
  }
}

TEST_CASE("trials are for kinds between blocks, and for blocks that are short") {
  KindChoice profile = profileOf();
  std::map<std::optional<Kind>, int> taken;
  auto launch = [&](Nanoseconds took) {
    auto plan = profile.pick(20us, true);
    ++taken[plan->kind];
    plan->duration.add(took);
    plan->blocks->add(took / 10);
    if (plan->isTried)
      plan->trial.add(plan->kind == Kind::Guard ? took * 9 / 10 : took);
  };
  for (int i = 0; i < 100; ++i)
    launch(120us);
  REQUIRE(profile.best());
  CHECK(profile.best()->kind == Kind::Guard);
  CHECK(taken[Kind::Checkpoint] == 0);
  for (int i = 0; i < 10; ++i)
    launch(5ms);
  CHECK(taken[Kind::Checkpoint] > 5);
  CHECK(profile.best()->kind == Kind::Guard);
}
