// The profiler: the way that it chooses for a kernel's launches after measurements, and the
// measurements that it keeps on disk.
#include "../support/files.h"
#include "harness.h"

#include "planning/kind_choice.h"
#include "planning/profile_store.h"

#include <filesystem>
#include <fstream>

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

LaunchPlan way(std::optional<Kind> kind, std::uint64_t waves = 10) {
  LaunchPlan plan;
  plan.kind = kind;
  plan.waves = waves;
  return plan;
}

/// Durations of launches, by way.
struct Times {
  Nanoseconds persistent, guard, whole;
  Nanoseconds of(std::optional<Kind> kind) const {
    return !kind ? whole : *kind == Kind::Guard ? guard : persistent;
  }
};

/// Makes and measures launches one after the other; returns the way of the last one.
std::optional<Kind> learn(KindChoice &profile, const Times &times, int launches = 200) {
  std::shared_ptr<LaunchPlan> plan;
  for (; launches > 0; --launches) {
    plan = profile.pick(20us, true);
    plan->duration.add(times.of(plan->kind));
    if (plan->isTried)
      plan->trial.add(times.of(plan->kind));
  }
  return plan->kind;
}

KindChoice threeWays() {
  return KindChoice({way(Kind::Persistent), way(Kind::Guard), way(std::nullopt)});
}

std::optional<Kind> best(const Times &times) {
  KindChoice profile = threeWays();
  std::optional<Kind> found = learn(profile, times);
  REQUIRE(profile.best());
  CHECK(profile.best()->kind == found);
  return found;
}

struct Folder : test::TemporaryFolder {
  std::string file() const { return path / "deeper" / "profile"; }
};

DeviceInfo gpu(std::string name = "a GPU", int driver = 13000) {
  DeviceInfo info;
  info.name = std::move(name);
  info.driverVersion = driver;
  return info;
}

} // namespace

TEST_CASE("without measuring the first way is taken") {
  KindChoice profile = threeWays();
  for (int i = 0; i < 100; ++i)
    CHECK(profile.pick(20us, false)->kind == Kind::Persistent);
  CHECK(!profile.best());
}

TEST_CASE("a shape that runs a few times is not tried in other ways") {
  KindChoice profile = threeWays();
  for (int i = 0; i < 15; ++i)
    CHECK(profile.pick(20us, true)->kind == Kind::Persistent);
}

TEST_CASE("the cheaper way is taken, if it is by more than what is noise") {
  CHECK(best({100us, 90us, 90us}) == Kind::Guard);
  // The user's kernel takes longer than the bound.
  CHECK(best({100us, 99us, 50us}) == Kind::Persistent);
  CHECK(best({100us, 130us, 130us}) == Kind::Persistent);
}

TEST_CASE("the user's kernel as it is, where it is shorter than the bound and so pays") {
  CHECK(best({10us, 9us, 5us}) == std::nullopt);
  CHECK(best({10us, 9us, 8800ns}) == Kind::Guard); // two per cent are not worth a yield
  CHECK(best({19us, 19us, 21us}) == Kind::Persistent);
}

TEST_CASE("the user's kernel is tried with the duration of a variant predicted for it") {
  KindChoice profile = threeWays();
  std::shared_ptr<LaunchPlan> plan;
  for (int i = 0; i < 200 && (!plan || plan->kind); ++i) {
    plan = profile.pick(20us, true);
    if (!plan->kind)
      break;
    plan->duration.add(12us);
    if (plan->isTried)
      plan->trial.add(12us);
  }
  CHECK(!plan->kind);
  CHECK(plan->duration.high() == 12us);
}

TEST_CASE("a way outside of the bound is taken only where there is none inside") {
  // Guards of one wave take 90 us to leave; persistent launches of ten waves take 10 us.
  KindChoice profile({way(Kind::Persistent, 10), way(Kind::Guard, 1)});
  CHECK(learn(profile, {100us, 90us, {}}) == Kind::Persistent);
  KindChoice other({way(Kind::Guard, 1), way(Kind::Persistent, 10)});
  CHECK(learn(other, {100us, 90us, {}}) == Kind::Persistent);
  // Blocks of 5 ms in both kinds: about equally slow, so the choice is the cheaper one.
  KindChoice longBlocks({way(Kind::Persistent, 10), way(Kind::Guard, 10)});
  CHECK(learn(longBlocks, {50ms, 47ms, {}}) == Kind::Guard);
}

TEST_CASE("a host that was stopped during a trial does not decide it") {
  KindChoice profile({way(Kind::Persistent), way(Kind::Guard)});
  int launches = 0;
  for (int i = 0; i < 100; ++i) {
    const auto &plan = profile.pick(20us, true);
    Nanoseconds took = plan->kind == Kind::Guard ? 90us : 100us;
    if (plan->kind == Kind::Guard && ++launches >= 3 && launches <= 6)
      took = 5ms;
    plan->duration.add(took);
    if (plan->isTried)
      plan->trial.add(took);
  }
  REQUIRE(profile.best());
  CHECK(profile.best()->kind == Kind::Guard);
}

TEST_CASE("trials that measure nothing end, and are made again much later") {
  KindChoice profile({way(Kind::Persistent), way(Kind::Guard)});
  int guards = 0;
  for (int i = 0; i < 1000; ++i) // requests all the time: the profiler measures no launch
    guards += profile.pick(20us, true)->kind == Kind::Guard;
  CHECK(guards == 64);
  CHECK(!profile.best());
  CHECK(profile.pick(20us, true)->kind == Kind::Persistent);
  CHECK(learn(profile, {100us, 90us, {}}, 5000) == Kind::Guard);
  CHECK(profile.best());
}

TEST_CASE("slices become as long as the bound allows") {
  LaunchPlan plan = way(Kind::Slice);
  plan.sliceBlocks = 200;
  auto run = [&](Nanoseconds perHundred) {
    for (int i = 0; i < 400; ++i) {
      plan.duration.add(perHundred * plan.sliceBlocks / 100);
      fitSlices(plan, 20us, 100);
    }
    return plan.sliceBlocks;
  };
  CHECK(run(1us) == 800);   // 8 us per launch: a request waits for two
  CHECK(run(10ns) == 6400); // 64 waves
  CHECK(run(4us) == 200);
  CHECK(run(500us) == 100); // one wave at least
}

TEST_CASE("workers of pause stay where blocks are long or not known") {
  auto stayAt = [](Nanoseconds launch) {
    LaunchPlan plan = way(Kind::Pause, 10);
    plan.duration.add(launch);
    return stayOf(plan);
  };
  CHECK(stayOf(way(Kind::Pause)) == 1000);
  CHECK(stayAt(100us) == 0);
  CHECK(stayAt(200us) == 1000);
  CHECK(stayAt(960us) == 1500);
  CHECK(stayAt(50ms) == 2000);
}

TEST_CASE("in the lane: launches are measured as they come, and the best way is kept") {
  Folder folder;
  ProfileStore store(folder.file(), gpu());
  CHECK(store.warning().empty());
  auto run = [&](std::uint64_t seed, std::size_t launches) {
    Harness harness(seed, {Kind::Persistent, Kind::Guard}, {}, 0, &store);
    Program program = Program::launches(launches);
    harness.addStreams(program);
    std::map<std::optional<Kind>, int> blocks;
    harness.device.onBlock = [&](std::optional<Kind> kind) {
      ++blocks[kind];
      harness.now += kind == Kind::Guard ? 3us : 5us;
    };
    for (std::size_t n = 0; n < launches; ++n) {
      REQUIRE(harness.submit(program, n));
      if (n % 20 == 3) { // requests come all the time; the launches that they disturb do not count
        REQUIRE(harness.high->beginRequest());
        harness.dispatcher->step();
        REQUIRE(harness.high->endRequest());
      }
      for (int i = 0; i < 40; ++i) {
        harness.dispatcher->step();
        harness.device.advance();
      }
    }
    for (int i = 0; i < 1000000 && !harness.allFinished(); ++i) {
      harness.dispatcher->step();
      harness.device.advance();
    }
    CHECK((harness.outcome() == runInOrder(program)));
    return blocks;
  };
  auto blocks = run(1, 200);
  CHECK(blocks[std::nullopt] == 0);
  CHECK(blocks[Kind::Persistent] > 24 * 20);
  CHECK(blocks[Kind::Persistent] < 24 * 60);
  CHECK(blocks[Kind::Guard] > 24 * 120);
  REQUIRE(store.save());
  // Another process starts with the results of this one.
  blocks = run(2, 20);
  CHECK(blocks[Kind::Persistent] == 0);
  CHECK(blocks[Kind::Guard] == 24 * 20);
  ProfileStore again(folder.file(), gpu());
  CHECK(again.warning().empty());
  auto found = again.find({77, "mix", LoadedKernel::keyOf({{24, 1, 1}, {64, 1, 1}, 0})});
  REQUIRE(found);
  CHECK(found->kind == Kind::Guard);
}

TEST_CASE("what a policy has learnt is there in the next run of the program") {
  struct Learning : PriorityPolicy {
    std::string learnt;
    std::string memory() const { return learnt; }
    void recall(std::string_view text) { learnt = std::string(text) + "+"; }
  };
  Folder folder;
  for (const char *expected : {"+", "++"}) {
    ProfileStore store(folder.file(), gpu());
    CHECK(store.warning() == "");
    {
      Harness harness(1, {Kind::Guard}, Learning(), 0, &store);
      CHECK(!harness.dispatcher->step());
      harness.now += 2s; // the dispatcher's thread keeps the text while it runs
      CHECK(!harness.dispatcher->step());
      CHECK(store.policyMemory() == expected);
    }
    REQUIRE(store.save());
  }
  ProfileStore last(folder.file(), gpu());
  CHECK(last.policyMemory() == "++");
  last.putPolicyMemory("two\nlines");
  last.putPolicyMemory("");
  CHECK(last.policyMemory() == "++");
}

TEST_CASE("profiles on disk: written whole, with what others have put there, and read back") {
  Folder folder;
  ProfileStore::Key one{1, "one", {1, 2, 3, 4, 5, 6, 0, 0, 0, 7}}, two{~0ull, "two", {9}};
  {
    ProfileStore first(folder.file(), gpu()), second(folder.file(), gpu());
    first.put(one, {Kind::Guard, 5us});
    second.put(two, {std::nullopt, 3us});
    REQUIRE(first.save());
    REQUIRE(second.save());
  }
  ProfileStore read(folder.file(), gpu());
  CHECK(read.warning() == "");
  CHECK(read.find(one) == ProfileStore::Found{Kind::Guard, 5us});
  CHECK(read.find(two) == ProfileStore::Found{std::nullopt, 3us});
  CHECK(!read.find({1, "two", {9}}));
  CHECK(!read.find({1, "one", {}}));
  // The folder has no other file.
  auto parent = std::filesystem::path(folder.file()).parent_path();
  CHECK(std::distance(std::filesystem::directory_iterator(parent), {}) == 1);
  // The store writes the file only when it has new results.
  std::filesystem::remove(folder.file());
  REQUIRE(read.save());
  CHECK(!std::filesystem::exists(folder.file()));
}

TEST_CASE("profiles on disk: what is damaged is ignored, whatever byte it is") {
  Folder folder;
  ProfileStore::Key one{1, "one", {1}};
  {
    ProfileStore store(folder.file(), gpu());
    store.put(one, {Kind::Guard, 5us});
    REQUIRE(store.save());
  }
  std::string good = test::contents(folder.file());
  auto write = [&](const std::string &text) {
    std::ofstream(folder.file(), std::ios::binary | std::ios::trunc) << text;
  };
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    write(bad);
    ProfileStore store(folder.file(), gpu());
    CAPTURE(at);
    CHECK(!store.warning().empty());
    CHECK(!store.find(one));
    write(good.substr(0, at));
    CHECK(!ProfileStore(folder.file(), gpu()).warning().empty());
  }
  write(good);
  CHECK(ProfileStore(folder.file(), gpu()).find(one));
  CHECK(!ProfileStore(folder.file(), gpu("another")).find(one));
  CHECK(!ProfileStore(folder.file(), gpu("a GPU", 13010)).find(one));
  // The store replaces the damaged file at its next save.
  write("nonsense");
  ProfileStore store(folder.file(), gpu());
  store.put(one, {Kind::Persistent, 1us});
  REQUIRE(store.save());
  CHECK(ProfileStore(folder.file(), gpu()).find(one) == ProfileStore::Found{Kind::Persistent, 1us});
}

TEST_CASE("profiles on disk: where they lie") {
  setenv("XDG_CACHE_HOME", "/somewhere", 1);
  std::string path = ProfileStore::defaultPath(gpu());
  CHECK(path.starts_with("/somewhere/tally/profile-"));
  CHECK(path != ProfileStore::defaultPath(gpu("another")));
  CHECK(path != ProfileStore::defaultPath(gpu("a GPU", 13010)));
  CHECK(ProfileStore::defaultPath(gpu("emulator", 0)).empty());
  setenv("XDG_CACHE_HOME", "not/absolute", 1); // the XDG specification ignores a relative path
  setenv("HOME", "/home/somebody", 1);
  CHECK(ProfileStore::defaultPath(gpu()).starts_with("/home/somebody/.cache/tally/"));
  unsetenv("HOME");
  CHECK(ProfileStore::defaultPath(gpu()).empty());
  // A file that cannot be written leads to a warning.
  ProfileStore store("/proc/nowhere/profile", gpu());
  store.put({1, "one", {}}, {Kind::Guard, 1us});
  CHECK(!store.save());
}
