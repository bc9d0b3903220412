// Two relinked programs share the emulated GPU: the best-effort program makes way while the other
// has work, and goes on when the other is idle, ends or dies.
#include "hooked_place.h"

#include <doctest/doctest.h>

#include <array>
#include <fstream>

using namespace tally::runtime;
using tally::test::contents;
using namespace std::chrono_literals;

namespace {

using Place = HookedPlace;

std::array<std::uint64_t, 3> countsOf(const Arena &arena) {
  auto slot = slotOf(arena, 1);
  auto count = [&](ArenaCounter which) {
    return slot ? slot->statistics[static_cast<std::size_t>(which)] : 0;
  };
  return {count(ArenaCounter::Launches), count(ArenaCounter::PhysicalLaunches),
          count(ArenaCounter::Yields)};
}
std::uint64_t yields(const Arena &arena) { return countsOf(arena)[2]; }

/// Returns whether the best-effort process now finishes launches.
bool progresses(const Arena &arena) {
  std::uint64_t before = countsOf(arena)[0];
  return within([&] { return countsOf(arena)[0] >= before + 2; });
}

/// Waits until the process stops launching; returns whether it then stays stopped.
bool rests(const Arena &arena) {
  std::array<std::uint64_t, 3> last{};
  int still = 0;
  return within([&] {
    auto now = countsOf(arena);
    still = now == last ? still + 1 : 0;
    last = now;
    std::this_thread::sleep_for(5ms);
    return still >= 20;
  });
}

/// Checks that work of the other process makes the trainer yield, holds it back, and lets it go on
/// afterwards.
void checkYields(Child &server, const Arena &arena) {
  REQUIRE(progresses(arena));
  std::uint64_t before = yields(arena);
  // The work may begin between two launches.
  CHECK(within([&] {
    REQUIRE(ask(server, "begin") == "done");
    REQUIRE(rests(arena));
    REQUIRE(ask(server, "end") == "done");
    REQUIRE(progresses(arena));
    return yields(arena) >= before + 2;
  }));
}

} // namespace

TEST_CASE("a best-effort process yields while another has work, and goes on when it rests") {
  Place place;
  auto arena = place.open();
  Child server(place.words("obey")), trainer(place.trainer());
  checkYields(server, *arena);
  CHECK(server.finish() == 0);
  CHECK(progresses(*arena));
  CHECK(trainer.finish() == 0);
}

TEST_CASE("the order of starting does not matter, nor does work from before the other came") {
  Place place;
  auto arena = place.open();
  Child server(place.words("obey"));
  REQUIRE(ask(server, "begin") == "done");
  REQUIRE(within([&] {
    auto slot = slotOf(*arena, 0);
    return slot && slot->active != 0;
  }));
  Child trainer(place.trainer());
  REQUIRE(within([&] { return slotOf(*arena, 1).has_value(); }));
  CHECK(rests(*arena));
  CHECK(countsOf(*arena)[0] == 0);
  REQUIRE(ask(server, "end") == "done");
  CHECK(progresses(*arena));
  checkYields(server, *arena);
  CHECK(trainer.finish() == 0);
  CHECK(server.finish() == 0);
}

TEST_CASE("a process that is killed with work under way holds nobody back") {
  Place place;
  auto arena = place.open();
  Child server(place.words("obey")), trainer(place.trainer());
  checkYields(server, *arena);
  REQUIRE(ask(server, "begin") == "done");
  REQUIRE(rests(*arena));
  server.kill();
  CHECK(progresses(*arena));
  for (const ArenaSlotView &each : arena->view())
    CHECK(each.active == 0);
  CHECK(trainer.finish() == 0);
}

TEST_CASE("a reset of the device gives the slot back, and work after it is seen again") {
  Place place;
  auto arena = place.open();
  Child server(place.words("obey")), trainer(place.trainer());
  checkYields(server, *arena);
  REQUIRE(ask(server, "reset") == "done");
  CHECK(!slotOf(*arena, 0));
  CHECK(progresses(*arena));
  checkYields(server, *arena);
  CHECK(trainer.finish() == 0);
}

TEST_CASE("a forked child exits at once, and has no part in the arena") {
  Place place;
  auto arena = place.open();
  for (const char *which : {"high", "best-effort"}) {
    Child parent(place.words("obey", {std::string("TALLY_CLASS=") + which}));
    REQUIRE(ask(parent, "begin") == "done");
    REQUIRE(within([&] { return !arena->view().empty(); }));
    std::size_t slots = arena->view().size();
    CHECK(ask(parent, "fork") == "exited");
    CHECK(arena->view().size() == slots);
    CHECK(ask(parent, "end") == "done");
    CHECK(parent.finish() == 0);
  }
}

TEST_CASE("emulators without a UUID meet in the folder that they are given") {
  Place place;
  auto arena = *Arena::open({place.path / "tally-emulator", "", {}, false});
  auto words = [&](const char *role, const char *which) {
    auto all = place.words(role, {"TALLY_ARENA=" + place.path.string(), which});
    std::erase_if(all,
                  [](const std::string &word) { return word.starts_with("TALLY_EMULATOR_UUID="); });
    return all;
  };
  Child server(words("obey", "TALLY_CLASS=high")),
      trainer(words("train", "TALLY_CLASS=best-effort"));
  checkYields(server, *arena);
  CHECK(server.finish() == 0);
  CHECK(trainer.finish() == 0);
}

TEST_CASE("who says so stays alone") {
  Place place;
  auto arena = place.open();
  Child server(place.words("obey", {"TALLY_ARENA=off"}));
  Child trainer(place.trainer());
  REQUIRE(ask(server, "begin") == "done");
  CHECK(progresses(*arena));
  CHECK(!slotOf(*arena, 0));
  CHECK(ask(server, "end") == "done");
  CHECK(server.finish() == 0);
  CHECK(trainer.finish() == 0);
  CHECK(!std::ifstream("off"));

  Child disabled(place.words("train", {"TALLY_DISABLE=1"}));
  disabled.kill();
}

TEST_CASE("an arena that cannot be had is warned about once, and work goes on alone") {
  Place place;
  std::ofstream(place.file()) << "no arena\n";
  std::string errors = place.path / "errors";
  for (const char *which : {"high", "best-effort"}) {
    auto words = place.words("obey", {std::string("TALLY_CLASS=") + which});
    Child alone(withErrorsIn(errors, words));
    for (int round = 0; round < 3; ++round) {
      REQUIRE(ask(alone, "begin") == "done");
      REQUIRE(ask(alone, "end") == "done");
    }
    CHECK(within([&] { return !contents(errors).empty(); }));
    CHECK(alone.finish() == 0);
    std::string said = contents(errors);
    CHECK(said.find("tally: " + place.file()) == 0);
    CHECK(said.find("do not see each other\n") == said.size() - 22);
  }
  CHECK(contents(place.file()) == "no arena\n");
}

TEST_CASE("across PID namespaces") {
  Place place;
  auto words = inNamespace(place.trainer());
  if (words.empty()) {
    MESSAGE("skipped: new PID namespaces are not permitted here (unshare -p -f -r)");
    return;
  }
  auto arena = place.open();
  Child trainer(words);
  Child server(inNamespace(place.words("obey")));
  checkYields(server, *arena);
  CHECK(slotOf(*arena, 0)->pid == 1);
  CHECK(slotOf(*arena, 1)->pid == 1);
  REQUIRE(ask(server, "begin") == "done");
  CHECK(rests(*arena));
  server.kill();
  CHECK(progresses(*arena));
  CHECK(trainer.finish() == 0);
}
