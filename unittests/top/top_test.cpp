// tally-top: its command line, the comparison of two looks, and the program with real processes.
#include "arena_children.h"
#include "frame.h"
#include "json.h"
#include "options.h"
#include "table.h"

#include <doctest/doctest.h>

#include <regex>

using namespace tally;
using namespace tally::top;
using namespace std::chrono_literals;
using runtime::ArenaFolder;
using runtime::Child;
using runtime::ClientStatus;

namespace {

Result<Options> parse(std::vector<std::string_view> words) { return parseOptions(words); }

/// A look at two clients that have done no work yet.
Look idleLook() {
  runtime::ArenaStatus arena;
  arena.path = "/arena";
  arena.uuid = "gpu-1";
  arena.takenAt = 100s;
  arena.clients.resize(2);
  arena.clients[0].pid = 7;
  arena.clients[0].name = "server";
  arena.clients[1].pid = 8;
  arena.clients[1].slot = 1;
  arena.clients[1].name = "trainer";
  arena.clients[1].clientClass = runtime::Class::BestEffort;
  return {arena};
}

/// A look at the same clients two seconds later.
Look busyLook() {
  Look look = idleLook();
  look[0].takenAt += 2s;
  ClientStatus &server = look[0].clients[0], &trainer = look[0].clients[1];
  server.state = ClientStatus::State::Active;
  server.launches = 300;
  server.requests = 10;
  server.active = 500ms;
  server.requestTime.counts[runtime::RequestHistogram::bucketOf(1ms)] = 10;
  server.missedDeadlines = 3;
  trainer.state = ClientStatus::State::Waiting;
  trainer.launches = 50;
  trainer.launchesByKind = {0, 0, 40, 0, 9};
  trainer.savedBlocks = 77;
  trainer.confinedLaunches = 12;
  trainer.confinedSms = 24;
  trainer.yields = 9;
  trainer.turnaround.counts[runtime::Histogram::bucketOf(20us)] = 9;
  trainer.memoryUsed = std::uint64_t{3} << 29;
  trainer.memoryPeak = trainer.memoryUsed + 1;
  trainer.memoryQuota = std::uint64_t{4} << 30;
  trainer.memoryRefusals = 3;
  trainer.ownStreams = 2;
  trainer.ownBytes = std::uint64_t{5} << 18;
  return look;
}

/// Returns the output of the program.
std::string output(const std::string &words) {
  std::string text;
  FILE *pipe = popen((TALLY_TOP " " + words + " 2>&1").c_str(), "r");
  REQUIRE(pipe);
  char buffer[4096];
  while (std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe))
    text.append(buffer, got);
  pclose(pipe);
  return text;
}

/// Returns the number after the last "name" in the object of the client `name`.
double field(const std::string &json, const std::string &client, const std::string &name) {
  std::smatch found;
  std::regex pattern("\"name\":\"" + client + "\"[^]*?\"" + name +
                     "\":(\\{\"count\":)?([0-9.e+-]+)");
  REQUIRE(std::regex_search(json, found, pattern));
  return std::stod(found[2]);
}

} // namespace

TEST_CASE("the command line") {
  auto options = parse({"--arena=/x", "--interval=250", "--json", "--once"});
  REQUIRE(options);
  CHECK(options->arena == "/x");
  CHECK(options->interval == 250ms);
  CHECK(options->output == Output::Json);
  CHECK(options->once);
  CHECK(parse({"--once", "--help"})->help);
  CHECK(parse({"--interval=9"}).error().message ==
        "--interval takes milliseconds, 10 to 3600000, not '9'");
  CHECK(!parse({"--interval=1s"}));
  CHECK(parse({"--json", "--prometheus"}).error().message ==
        "--json and --prometheus exclude each other");
  CHECK(parse({"--arena="}).error().message == "--arena takes a path");
  CHECK(parse({"top"}).error().message == "unknown option 'top'; --help lists what there is");
}

TEST_CASE("rates and times between two looks") {
  Look before = idleLook(), now = busyLook();
  auto frames = compare(before, before, now);
  REQUIRE(frames.size() == 1);
  CHECK(frames[0].seconds == 2);
  const ClientRow &server = frames[0].clients[0], &trainer = frames[0].clients[1];
  CHECK(server.launchesPerSecond == 150);
  CHECK(server.requestsPerSecond == 5);
  CHECK(server.activeFraction == 0.25);
  CHECK(server.requests.count() == 10);
  CHECK(trainer.launchesPerSecond == 25);
  CHECK(trainer.yieldsPerSecond == 4.5);
  CHECK(trainer.turnaround.count() == 9);

  // The clients did no more work; the histograms cover the longer time.
  auto later = compare(before, now, now);
  CHECK(later[0].clients[0].launchesPerSecond == 0);
  CHECK(later[0].clients[0].requests.count() == 10);
  // A new client in the slot does not get the counts of the slot's previous client.
  Look other = now;
  other[0].clients[1].generation = 1;
  other[0].clients[1].launches = 6;
  other[0].takenAt += 1s;
  CHECK(compare(now, now, other)[0].clients[1].launchesPerSecond == 6);
}

TEST_CASE("a frame for people and for scripts") {
  Look before = idleLook(), now = busyLook();
  auto frames = compare(before, before, now);
  CHECK(toTable(frames) ==
        "GPU gpu-1  /arena\n"
        "     PID  NAME              CLASS          STATE    LAUNCHES/S   "
        "YIELDS/S  REQUESTS/S     P50 us     P99 us  MISSED/S   ACTIVE         MEMORY        OWN\n"
        "       7  server            high           active        150.0          "
        "-        5.0        999        999       1.5   25.0 %              -          -\n"
        "       8  trainer           best-effort    waiting        25.0        "
        "4.5          -       19.5       19.5         -        -      1.5G/4.0G     2 1.2M\n");
  CHECK(
      toJson(frames, 12.5) ==
      "{\"time\":12.500,\"arenas\":[{\"gpu\":\"gpu-1\",\"path\":\"/"
      "arena\",\"seconds\":2,\"clients\":["
      "{\"pid\":7,\"name\":\"server\",\"class\":\"high\",\"state\":\"active\",\"slot\":0,"
      "\"launches\":300,\"launches_per_s\":150,\"open_scopes\":0,\"requests\":10,"
      "\"requests_per_s\":5,\"active_fraction\":0.25,"
      "\"request_us\":{\"count\":10,\"p50\":999.344,\"p99\":999.344},"
      "\"missed_deadlines\":3,\"missed_deadlines_per_s\":1.5,"
      "\"memory_bytes\":0,\"memory_peak_bytes\":0},"
      "{\"pid\":8,\"name\":\"trainer\",\"class\":\"best-effort\",\"state\":\"waiting\",\"slot\":1,"
      "\"launches\":50,\"launches_per_s\":25,"
      "\"launches_by_kind\":{\"persistent\":40,\"checkpoint\":9},\"physical_launches\":0,"
      "\"saved_blocks\":77,\"confined_launches\":12,\"confined_sms\":24,\"yields\":9,"
      "\"yields_per_s\":4.5,\"requests_to_yield\":0,"
      "\"turnaround_us\":{\"count\":9,\"p50\":19.456,\"p99\":19.456},"
      "\"own_streams\":2,\"own_memory_bytes\":1310720,"
      "\"memory_quota_bytes\":4294967296,\"memory_reserve_bytes\":0,\"memory_refused\":3,"
      "\"memory_bytes\":1610612736,\"memory_peak_bytes\":1610612737}]}]}\n");
  now[0].path = "/a \"quoted\" \\ \x01 path";
  CHECK(toJson(compare(before, before, now), 1)
            .find("\"path\":\"/a \\\"quoted\\\" \\\\ \\u0001 path\"") != std::string::npos);
}

TEST_CASE("over real processes") {
  ArenaFolder folder;
  auto arena = folder.open();
  Child server({TALLY_ARENA_PROCESS, "high", folder.file(), "server"});
  Child trainer({TALLY_ARENA_PROCESS, "best-effort", folder.file(), "trainer"});
  auto counted = [&](const char *name, runtime::ArenaCounter which) {
    return runtime::counter(*arena, name, which);
  };
  REQUIRE(runtime::within([&] {
    return counted("server", runtime::ArenaCounter::Requests) > 20 &&
           counted("trainer", runtime::ArenaCounter::Yields) > 2;
  }));
  std::string json = output("--json --once --interval=400 --arena=" + folder.file());
  CAPTURE(json);
  CHECK(field(json, "server", "launches") > 0);
  CHECK(field(json, "server", "requests") > 20);
  CHECK(field(json, "server", "requests_per_s") > 0);
  CHECK(field(json, "server", "request_us") > 0);
  CHECK(field(json, "server", "active_fraction") > 0);
  CHECK(field(json, "trainer", "launches_per_s") > 0);
  CHECK(field(json, "trainer", "yields") > 2);
  CHECK(field(json, "trainer", "turnaround_us") >= 0);
  CHECK(json.find("\"pid\":" + std::to_string(server.id()) + ",\"name\":\"server\"") !=
        std::string::npos);
  std::string table = output("--once --interval=50 --arena=" + folder.file());
  CHECK(table.find("GPU gpu  " + folder.file() + "\n") == 0);
  CHECK(table.find("  trainer           best-effort  ") != std::string::npos);
  std::string metrics = output("--prometheus --arena=" + folder.file());
  CHECK(metrics.find("\ntally_request_seconds_count{gpu=\"gpu\",class=\"high\",name=\"server\"") !=
        std::string::npos);
  // Neither process noticed the reader.
  CHECK(arena->view().size() == 2);
  CHECK(trainer.finish() == 0);
  CHECK(server.finish() == 0);
  std::string after = output("--json --once --interval=10 --arena=" + folder.file());
  CHECK(after.find("\"clients\":[]") != std::string::npos);
  CHECK(output("--once --arena=/none") ==
        "tally-top: error: /none: the arena cannot be opened: No such file or directory\n");
}
