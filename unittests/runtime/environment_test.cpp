// The settings: the accepted values of environment variables, the errors for other values, and a
// check that the documented table matches the code.
#include "api/environment.h"
#include "fake_device.h"

#include "tally/runtime/runtime.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

EnvironmentSettings good(const Variables &variables) {
  Result<EnvironmentSettings> read = readEnvironment(variables);
  if (!read)
    FAIL(read.error().message);
  return *read;
}

std::string errorOf(const Variables &variables) {
  Result<EnvironmentSettings> read = readEnvironment(variables);
  return read ? "" : read.error().message;
}

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// Returns the first cells of those table rows in the file that hold a variable.
std::map<std::string, std::string> documentedRows() {
  std::ifstream file(TALLY_SETTINGS_DOC);
  REQUIRE(file);
  std::map<std::string, std::string> rows;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("| `TALLY_"))
      rows[line.substr(3, line.find('`', 3) - 3)] = line;
  return rows;
}

} // namespace

TEST_CASE("what every variable may hold") {
  EnvironmentSettings none = good({});
  CHECK(!none.emulator.isOn);
  CHECK(!none.bestEffort);
  CHECK(none.arena.isJoined);
  CHECK(none.boundMicroseconds == 20);
  CHECK(none.runAheadMicroseconds == 5000);
  CHECK(good({{"TALLY_YIELD_EVERY_US", "50"}}).runAheadMicroseconds == 0);
  CHECK(good({{"TALLY_YIELD_EVERY_US", "50"}, {"TALLY_RUN_AHEAD_US", "7"}}).runAheadMicroseconds ==
        7);
  CHECK(none.drainMilliseconds == 5000);
  CHECK(none.trace.events == 131072);
  CHECK(none.trace.path.empty());
  EnvironmentSettings some = good({{"TALLY_CLASS", "best-effort"},
                                   {"TALLY_DEVICE", "emulator"},
                                   {"TALLY_STATS", "1"},
                                   {"TALLY_LAUNCH", "runtime"},
                                   {"TALLY_PROFILE", "on"},
                                   {"TALLY_BOUND_US", "1000000"},
                                   {"TALLY_DRAIN_MS", "0"},
                                   {"TALLY_KINDS", "pause,guard"},
                                   {"TALLY_PAUSE_DEADLINE_US", "500"},
                                   {"TALLY_PAUSE_RESERVE", "40"},
                                   {"TALLY_BEST_EFFORT_STREAMS", "3"},
                                   {"TALLY_BEST_EFFORT_CLASS", "2"},
                                   {"TALLY_MEMORY_QUOTA", "3G"},
                                   {"TALLY_MEMORY_RESERVE", "7%"},
                                   {"TALLY_TRACE", "t.json"},
                                   {"TALLY_STREAM_WAITS", "off"},
                                   {"TALLY_TRACE_EVENTS", "16"},
                                   {"TALLY_EMULATOR_SMS", "3"},
                                   {"TALLY_EMULATOR_UUID", "00112233-44556677-8899aabb-ccddeeff"},
                                   {"TALLY_POLICY", "slo:target-us=2000"},
                                   {"OTHER", "x"}});
  CHECK(some.emulator.isOn);
  CHECK(some.bestEffort);
  CHECK(some.statistics);
  CHECK(none.launchesByDriver);
  CHECK(!some.launchesByDriver);
  CHECK(!none.streamWaits);
  CHECK(!some.streamWaits);
  CHECK(good({{"TALLY_STREAM_WAITS", "on"}}).streamWaits);
  CHECK(!none.greenContexts);
  CHECK(good({{"TALLY_GREEN_CONTEXTS", "off"}}).greenContexts == false);
  CHECK(good({{"TALLY_GREEN_CONTEXTS", "on"}}).greenContexts == true);
  CHECK(good({{"TALLY_DEVICE", "emulator"}}).streamWaits);
  CHECK(some.variants.areProfiled);
  CHECK(some.boundMicroseconds == 1000000);
  CHECK(some.drainMilliseconds == 0);
  CHECK(some.variants.kinds == std::vector{Kind::Pause, Kind::Guard});
  CHECK(some.pause.deadlineMicroseconds == 500);
  CHECK(some.pause.reserve == 40);
  CHECK(some.bestEffortStreams == 3);
  CHECK(some.bestEffortClass == 2);
  CHECK(good({{"TALLY_KINDS", "none"}}).variants.kinds.empty());
  CHECK(some.memory.quota.of(0) == std::uint64_t{3} << 30);
  CHECK(some.memory.reserve.of(1000) == 70);
  CHECK(some.trace.path == "t.json");
  CHECK(some.trace.events == 16);
  CHECK(some.emulator.sms == 3);
  REQUIRE(some.emulator.uuid);
  CHECK((*some.emulator.uuid)[1] == 0x11);
  CHECK(good({{"TALLY_BEST_EFFORT_SMS", "25%"}}).nonPreemptibleSms.of(132) == 33);
  CHECK(good({{"TALLY_BEST_EFFORT_SMS", "16"}}).nonPreemptibleSms.of(132) == 16);
  CHECK(!good({{"TALLY_ARENA", "off"}}).arena.isJoined);
  CHECK(!good({{"TALLY_DEVICE", "emulator"}}).arena.isJoined);
  CHECK(good({{"TALLY_DEVICE", "emulator"}, {"TALLY_ARENA", "/f"}}).arena.isJoined);
  CHECK(good({{"TALLY_CLASS", ""}}).bestEffort == false);
}

TEST_CASE("what is not understood is an error that says what is allowed") {
  const std::vector<std::pair<std::string, std::vector<std::string>>> wrong = {
      {"TALLY_CLASS", {"besteffort", "Best-Effort", "1"}},
      {"TALLY_DEVICE", {"gpu"}},
      {"TALLY_DISABLE", {"yes"}},
      {"TALLY_STATS", {"on"}},
      {"TALLY_LAUNCH", {"on"}},
      {"TALLY_PROFILE", {"1"}},
      {"TALLY_BOUND_US", {"0", "1000001", "20us", "-1", " 20"}},
      {"TALLY_DRAIN_MS", {"600001"}},
      {"TALLY_KINDS", {"pauses", "pause,", "pause,pause", "all"}},
      {"TALLY_PAUSE_DEADLINE_US", {"9", "2ms"}},
      {"TALLY_PAUSE_RESERVE", {"-1", "91", "25%"}},
      {"TALLY_BEST_EFFORT_STREAMS", {"0", "5", "two"}},
      {"TALLY_BEST_EFFORT_CLASS", {"0", "5", "low"}},
      {"TALLY_YIELD_EVERY_US", {"often"}},
      {"TALLY_BEST_EFFORT_SMS", {"0", "0%", "101%", "half"}},
      {"TALLY_MEMORY_QUOTA", {"0", "1X", "K", "%", "101%", "1048577G"}},
      {"TALLY_MEMORY_RESERVE", {"much"}},
      {"TALLY_STREAM_WAITS", {"yes", "1"}},
      {"TALLY_GREEN_CONTEXTS", {"8"}},
      {"TALLY_TRACE_EVENTS", {"15", "16777217"}},
      {"TALLY_EMULATOR_SMS", {"0", "257"}},
      {"TALLY_EMULATOR_UUID", {"0011", "0011223344556677889900112233445g"}},
  };
  for (const auto &[name, values] : wrong)
    for (const std::string &value : values) {
      CAPTURE(name);
      CAPTURE(value);
      std::string error = errorOf({{name, value}, {"TALLY_TRACE", "t"}});
      CHECK(has(error, name + "=" + value + ": allowed are "));
    }
  CHECK(has(errorOf({{"TALLY_POLICY", "fair"}}), "TALLY_POLICY=fair: "));
  // One error names all wrong variables.
  std::string both = errorOf({{"TALLY_CLASS", "x"}, {"TALLY_BOUND_US", "y"}});
  CHECK((has(both, "TALLY_CLASS=x: allowed are high or best-effort") &&
         has(both, "TALLY_BOUND_US=y")));
}

TEST_CASE("unknown variables are errors, unless tally is left out") {
  CHECK(errorOf({{"TALLY_CLAS", "high"}}) ==
        "TALLY_CLAS is no setting of tally's (did you mean TALLY_CLASS?)");
  CHECK(has(errorOf({{"TALLY_SOMETHING_ELSE", "1"}}), "there are TALLY_ARENA, TALLY_ARENA_GROUP"));
  CHECK(errorOf({{"TALLYHO", "1"}}).empty());
  CHECK(good({{"TALLY_DISABLE", "1"}, {"TALLY_CLAS", "x"}, {"TALLY_BOUND_US", "x"}}).disabled);
}

TEST_CASE("settings that contradict each other are errors") {
  CHECK(has(errorOf({{"TALLY_MEMORY_QUOTA", "1G"}}), "counts with TALLY_CLASS=best-effort only"));
  CHECK(has(errorOf({{"TALLY_MEMORY_RESERVE", "1G"}}), "counts with TALLY_CLASS=best-effort only"));
  CHECK(has(errorOf({{"TALLY_EMULATOR_SMS", "2"}}), "counts with TALLY_DEVICE=emulator only"));
  CHECK(has(errorOf({{"TALLY_ARENA", "off"}, {"TALLY_ARENA_GROUP", "g"}}),
            "TALLY_ARENA_GROUP means nothing with TALLY_ARENA=off"));
  CHECK(has(errorOf({{"TALLY_ARENA", "off"}, {"TALLY_BEST_EFFORT_CLASS", "2"}}),
            "TALLY_BEST_EFFORT_CLASS means nothing with TALLY_ARENA=off"));
  CHECK(has(errorOf({{"TALLY_TRACE_EVENTS", "100"}}), "means nothing without TALLY_TRACE"));
  CHECK(has(errorOf({{"TALLY_DEVICE", "emulator"}, {"TALLY_BEST_EFFORT_SMS", "1"}}),
            "TALLY_BEST_EFFORT_SMS means nothing with TALLY_DEVICE=emulator"));
  CHECK(
      has(errorOf({{"TALLY_POLICY", "share"}}), "TALLY_POLICY is for several best-effort clients"));
}

TEST_CASE("the documented table is the real one") {
  std::map<std::string, std::string> rows = documentedRows();
  std::set<std::string> known;
  for (const Variable &each : allVariables()) {
    std::string name(each.name);
    CAPTURE(name);
    known.insert(name);
    REQUIRE(rows.contains(name));
    CHECK(has(rows[name], "| " + std::string(each.allowed) + " |"));
  }
  for (const auto &[name, row] : rows) {
    CAPTURE(name);
    CHECK(known.contains(name));
  }
}

TEST_CASE("a runtime opens with settings that are right, and says what is wrong with others") {
  auto open = [](const RuntimeOptions &options) {
    auto runtime = Runtime::openOn(std::make_unique<FakeDevice>(1), options);
    return runtime ? std::string() : runtime.error().message;
  };
  CHECK(open({}).empty());
  setenv("TALLY_ARENAS", "/x", 1);
  CHECK(open({}) == "TALLY_ARENAS is no setting of tally's (did you mean TALLY_ARENA?)");
  unsetenv("TALLY_ARENAS");
  RuntimeOptions options;
  options.bound = 999ns;
  CHECK(open(options) == "the option bound is 999 ns; allowed are 1 us to 1 s");
  options = {};
  options.profilePath = "/x";
  CHECK(has(open(options), "profilePath means nothing without"));
  for (Sharing sharing : {Sharing::LowPriority, Sharing::SamePriority}) {
    options = {};
    options.sharing = sharing;
    CHECK(open(options).empty());
    options.trace = "/tmp/x";
    CHECK(has(open(options), "trace is for Sharing::Tally only"));
    options.trace.clear();
    options.smsOfNonPreemptible = 1;
    CHECK(has(open(options), "smsOfNonPreemptible is for Sharing::Tally only"));
    options.smsOfNonPreemptible = 0;
    options.arena.emplace();
    CHECK(has(open(options), "arena is for Sharing::Tally only"));
    options.arena.reset();
    options.profiling = Profiling::On;
    CHECK(has(open(options), "profiling is for Sharing::Tally only"));
  }
  options = {};
  options.trace = "/tmp/x";
  options.traceEvents = 3;
  CHECK(has(open(options), "from 16 to 16777216"));
}
