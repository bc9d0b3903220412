// Several processes in an arena: the effect of one process's requests on another's work, and of a
// process's death.
#include "arena_children.h"

#include "fake_device.h"

#include "tally/runtime/arena_status.h"

#include <doctest/doctest.h>

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

std::vector<std::string> process(const ArenaFolder &folder, const char *mode, const char *name) {
  return {TALLY_ARENA_PROCESS, mode, folder.file(), name};
}

/// Returns the command as the first process of a new PID namespace; empty where the system forbids
/// that.
std::vector<std::string> inNamespace(std::vector<std::string> words) {
  static const bool allowed = std::system("unshare -p -f -r --kill-child true 2>/dev/null") == 0;
  if (!allowed)
    return {};
  for (const char *word : {"--kill-child", "-r", "-f", "-p", "unshare"})
    words.insert(words.begin(), word);
  return words;
}

/// This process as a member of the arena.
struct Member {
  explicit Member(const ArenaFolder &folder) {
    auto device = std::make_unique<FakeDevice>(3);
    bundle::Bundle bundle;
    bundle.kernels.push_back({"kernel", {{0, 8}}, 8, 0, true, {}});
    device->define("kernel", [](const FakeBlock &) {});
    device->startThread();
    RuntimeOptions options;
    options.arena = ArenaOptions{folder.file(), {}};
    device->setUuid("gpu"); // as the folder has it
    auto opened = Runtime::openOn(std::move(device), options);
    REQUIRE_MESSAGE(opened, opened.error().message);
    runtime = std::move(*opened);
    high = *runtime->createClient(Class::High, "tester");
    stream = *runtime->createStream(high);
    kernel = *runtime->kernel(*runtime->load(bundle), "kernel");
  }
  std::unique_ptr<Runtime> runtime;
  Client high{};
  Stream stream{};
  Kernel kernel{};
};

struct Counts {
  std::uint64_t launches, physical, yields;
  friend bool operator==(const Counts &, const Counts &) = default;
};

Counts countsOf(const Arena &arena, const std::string &name) {
  return {counter(arena, name, ArenaCounter::Launches),
          counter(arena, name, ArenaCounter::PhysicalLaunches),
          counter(arena, name, ArenaCounter::Yields)};
}

ClientStatus clientOf(const ArenaFolder &folder, const std::string &name) {
  Result<ArenaStatus> status = readArenaStatus(folder.file());
  REQUIRE(status);
  for (const ClientStatus &each : status->clients)
    if (each.name == name)
      return each;
  return {};
}

/// Returns whether the process now finishes launches.
bool progresses(const Arena &arena, const std::string &name) {
  std::uint64_t before = countsOf(arena, name).launches;
  return within([&] { return countsOf(arena, name).launches >= before + 2; });
}

/// Waits until the process stops launching; returns whether it then stays stopped.
bool rests(const Arena &arena, const std::string &name) {
  Counts last{};
  int still = 0;
  return within([&] {
    Counts now = countsOf(arena, name);
    still = now == last ? still + 1 : 0;
    last = now;
    std::this_thread::sleep_for(5ms);
    return still >= 20;
  });
}

/// Checks that requests of `member` make the process yield, hold it back, and let it go on
/// afterwards.
void checkYields(Member &member, const Arena &arena, const std::string &name) {
  REQUIRE(progresses(arena, name));
  for (std::uint64_t wanted = 1; wanted <= 3; ++wanted) {
    // A request may fall between two launches, so the test repeats it until one falls into a
    // launch.
    REQUIRE(within([&] {
      REQUIRE(member.runtime->beginRequest(member.high));
      bool rested = rests(arena, name);
      REQUIRE(member.runtime->endRequest(member.high));
      REQUIRE(rested);
      REQUIRE(progresses(arena, name));
      return countsOf(arena, name).yields >= wanted;
    }));
  }
}

} // namespace

TEST_CASE("a request in one process makes another's kernel yield, which then goes on") {
  ArenaFolder folder;
  Member member(folder);
  auto arena = folder.open();
  Child trainer(process(folder, "best-effort", "trainer"));
  checkYields(member, *arena, "trainer");
  CHECK(counter(*arena, "tester", ArenaCounter::Requests) >= 3);
  CHECK(trainer.finish() == 0);
  CHECK(within([&] { return !find(*arena, "trainer"); }));
  CHECK(!arena->bestEffortPresent());
}

#ifdef TALLY_ARENA_BUNDLE
TEST_CASE("the same where the kernel is rewritten PTX on the emulator") {
  ArenaFolder folder;
  Member member(folder);
  auto arena = folder.open();
  auto words = process(folder, "best-effort", "trainer");
  words.insert(words.end(), {"emulator", TALLY_ARENA_BUNDLE});
  Child trainer(words);
  checkYields(member, *arena, "trainer");
  CHECK(trainer.finish() == 0);
}
#endif

TEST_CASE("a launch without a scope holds others back until its stream is seen idle") {
  ArenaFolder folder;
  Member member(folder);
  auto arena = folder.open();
  // The member opens its runtime before any other process waits for the end of its work.
  REQUIRE(member.runtime->launch(member.stream, member.kernel, {{1, 1, 1}, {32, 1, 1}, 0},
                                 Arguments(std::uint64_t{0})));
  Child trainer(process(folder, "best-effort", "trainer"));
  for (int round = 0; round < 5; ++round) {
    REQUIRE(progresses(*arena, "trainer"));
    CHECK(within([&] { return find(*arena, "tester")->active == 0; }));
    REQUIRE(member.runtime->launch(member.stream, member.kernel, {{1, 1, 1}, {32, 1, 1}, 0},
                                   Arguments(std::uint64_t{0})));
  }
  CHECK(trainer.finish() == 0);
}

TEST_CASE("processes with both classes do not keep each other awake") {
  ArenaFolder folder;
  Member member(folder);
  auto arena = folder.open();
  Child one(process(folder, "both", "one")), two(process(folder, "both", "two"));
  for (int round = 0; round < 10; ++round) {
    REQUIRE(member.runtime->beginRequest(member.high));
    std::this_thread::sleep_for(2ms);
    REQUIRE(member.runtime->endRequest(member.high));
    CHECK(progresses(*arena, "one"));
    CHECK(progresses(*arena, "two"));
  }
  CHECK(one.finish() == 0);
  CHECK(two.finish() == 0);
}

TEST_CASE("best-effort work makes way for that of a class above it in another process") {
  ArenaFolder folder;
  auto arena = folder.open();
  Child batch(process(folder, "best-effort-2", "batch"));
  REQUIRE(progresses(*arena, "batch"));
  auto above = claimed(arena, 1, "above"), below = claimed(arena, 3, "below");
  below->raise();
  CHECK(progresses(*arena, "batch"));
  above->raise();
  CHECK(rests(*arena, "batch"));
  CHECK(classText(clientOf(folder, "batch")) == "best-effort-2");
  CHECK(clientOf(folder, "batch").state == ClientStatus::State::Waiting);
  above->withdraw();
  CHECK(progresses(*arena, "batch"));
  below->withdraw();
  CHECK(batch.finish() == 0);
}

TEST_CASE("best-effort work is shown to classes below it, while there are any") {
  ArenaFolder folder;
  auto arena = folder.open();
  auto isClaimed = [&] { return find(*arena, "trainer")->active == 1; };
  Child trainer(process(folder, "best-effort", "trainer")),
      same(process(folder, "best-effort", "same"));
  REQUIRE(progresses(*arena, "trainer"));
  REQUIRE(progresses(*arena, "same"));
  CHECK(find(*arena, "trainer")->active == 0); // the two do not hold each other back
  CHECK(find(*arena, "same")->active == 0);
  Child batch(process(folder, "best-effort-2", "batch"));
  REQUIRE(within(isClaimed));
  CHECK(clientOf(folder, "trainer").openScopes == 0);
  CHECK(progresses(*arena, "trainer"));
  CHECK(find(*arena, "batch")->active == 0); // no process is below it
  batch.kill();                              // a process that is held back would not reach its end
  arena->clearDeadBestEffort();
  CHECK(within([&] { return !isClaimed(); }));
  // A process that died with a claim holds no other process back.
  Child another(process(folder, "best-effort-2", "another"));
  REQUIRE(within(isClaimed));
  trainer.kill();
  same.kill();
  CHECK(progresses(*arena, "another"));
  CHECK(another.finish() == 0);
}

TEST_CASE("a process that dies in a request holds nobody back") {
  ArenaFolder folder;
  auto arena = folder.open();
  Child trainer(process(folder, "best-effort", "trainer"));
  REQUIRE(progresses(*arena, "trainer"));
  Child claimer(process(folder, "claim", "claimer"));
  REQUIRE(!claimer.line().empty());
  CHECK(find(*arena, "claimer")->active == 2);
  CHECK(rests(*arena, "trainer"));
  claimer.kill();
  CHECK(progresses(*arena, "trainer"));
  for (const ArenaSlotView &each : arena->view())
    CHECK(each.active == 0);
  CHECK(trainer.finish() == 0);
}

TEST_CASE("a child that outlives its parent does not hold the parent's slot") {
  ArenaFolder folder;
  auto arena = folder.open();
  Child parent(process(folder, "fork", "parent"));
  // The two lines come in either order: the child's "alive" after it has used the slot, and its
  // pid.
  std::string first = parent.line(), second = parent.line();
  if (first != "alive")
    std::swap(first, second);
  REQUIRE(first == "alive");
  int child = std::atoi(second.c_str());
  REQUIRE(child > 0);
  CHECK(find(*arena, "parent")->active == 2);
  CHECK(arena->higherActive(1) != 0);
  std::uint32_t slot = find(*arena, "parent")->index;
  CHECK(!arena->clearIfDead(slot));
  parent.kill();
  CHECK(kill(child, 0) == 0);
  CHECK(within([&] { return arena->clearIfDead(slot); }));
  CHECK(arena->higherActive(1) == 0);
  CHECK(kill(child, SIGKILL) == 0);
}

TEST_CASE("across PID namespaces") {
  ArenaFolder folder;
  auto words = inNamespace(process(folder, "best-effort", "trainer"));
  if (words.empty()) {
    MESSAGE("skipped: new PID namespaces are not permitted here (unshare -p -f -r)");
    return;
  }
  auto arena = folder.open();
  Child trainer(words);
  {
    Member member(folder);
    checkYields(member, *arena, "trainer");
  }
  // Both processes have pid 1, each in its own namespace.
  Child claimer(inNamespace(process(folder, "claim", "claimer")));
  REQUIRE(!claimer.line().empty());
  CHECK(find(*arena, "claimer")->pid == 1);
  CHECK(find(*arena, "trainer")->pid == 1);
  CHECK(rests(*arena, "trainer"));
  claimer.kill();
  CHECK(progresses(*arena, "trainer"));
  CHECK(trainer.finish() == 0);
}
