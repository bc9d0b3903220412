// A relinked server's requests as other tools see them: best-effort work of another process,
// tally-top, Prometheus, a trace.
#include "hooked_place.h"

#include <doctest/doctest.h>

#include <map>
#include <regex>
#include <sstream>

using namespace tally::runtime;
using tally::test::contents;
using namespace std::chrono_literals;

namespace {

struct Place : HookedPlace {
  std::vector<std::string> server(std::vector<std::string> settings = {}) const {
    std::vector<std::string> all = words("", std::move(settings));
    all.resize(all.size() - 2);
    all.emplace_back(TALLY_SERVER);
    return all;
  }
};

std::uint64_t counted(const Arena &arena, std::uint32_t slotClass, ArenaCounter which) {
  auto slot = slotOf(arena, slotClass);
  return slot ? slot->statistics[static_cast<std::size_t>(which)] : 0;
}
std::uint64_t finished(const Arena &arena) { return counted(arena, 1, ArenaCounter::Launches); }

bool progresses(const Arena &arena) {
  std::uint64_t before = finished(arena);
  return within([&] { return finished(arena) >= before + 2; });
}
/// Waits until the process stops launching; returns whether it stays stopped for 100 ms.
bool rests(const Arena &arena) {
  std::uint64_t last = 0;
  int still = 0;
  return within([&] {
    std::uint64_t now = finished(arena) + counted(arena, 1, ArenaCounter::PhysicalLaunches);
    still = now == last ? still + 1 : 0;
    last = now;
    std::this_thread::sleep_for(5ms);
    return still >= 20;
  });
}
bool isJoined(const Arena &arena) {
  return within([&] { return slotOf(arena, 0).has_value(); });
}

std::string output(const std::string &words) {
  std::string text;
  FILE *pipe = popen((std::string(TALLY_TOP " ") + words + " 2>&1").c_str(), "r");
  REQUIRE(pipe);
  char buffer[4096];
  while (std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe))
    text.append(buffer, got);
  pclose(pipe);
  return text;
}

/// Latencies that a server has measured itself.
struct Served {
  /// The two neighbouring requests around a quantile: definitions of a quantile differ in the value
  /// between them.
  struct Quantile {
    double below = 0, above = 0;
    bool isNear(double shown) const { return shown > 0.98 * below && shown < 1.02 * above; }
  };
  int count = 0, missed = 0;
  Quantile p50, p99;
};
Served serve(Child &server, const char *words) {
  Served served;
  std::istringstream(ask(server, words)) >> served.count >> served.missed >> served.p50.below >>
      served.p50.above >> served.p99.below >> served.p99.above;
  return served;
}

/// As Prometheus' histogram_quantile(): linear within the bucket.
double quantileOf(const std::string &metrics, double fraction) {
  std::map<double, double> below;
  std::regex pattern("tally_request_seconds_bucket\\{[^}]*class=\"high\"[^}]*le=\"([^\"]+)\"\\} "
                     "([0-9.e+]+)");
  for (std::sregex_iterator each(metrics.begin(), metrics.end(), pattern), none; each != none;
       ++each)
    below[(*each)[1] == "+Inf" ? 1e9 : std::stod((*each)[1])] = std::stod((*each)[2]);
  REQUIRE(!below.empty());
  double rank = fraction * below.rbegin()->second, before = 0, from = 0;
  for (auto [to, count] : below) {
    if (count >= rank)
      return from + (to - from) * (rank - before) / (count - before);
    before = count;
    from = to;
  }
  return from;
}

double metric(const std::string &metrics, const std::string &name) {
  std::smatch found;
  REQUIRE(std::regex_search(
      metrics, found, std::regex("\n" + name + "\\{[^}]*class=\"high\"[^}]*\\} ([0-9.e+]+)")));
  return std::stod(found[1]);
}

} // namespace

TEST_CASE("best effort of another process stands aside from begin to end, without work there") {
  Place place;
  auto arena = place.open();
  Child server(place.server()), trainer(place.trainer());
  REQUIRE(isJoined(*arena));
  REQUIRE(progresses(*arena));
  CHECK(ask(server, "begin") == "0 counted");
  CHECK(rests(*arena));
  CHECK(ask(server, "nest") == "0");
  CHECK(ask(server, "end") == "0");
  CHECK(rests(*arena));
  CHECK(ask(server, "end") == "0");
  CHECK(slotOf(*arena, 0)->active == 0);
  CHECK(progresses(*arena));
  // The request began before there was best-effort work.
  CHECK(trainer.finish() == 0);
  CHECK(ask(server, "begin") == "0 counted");
  Child later(place.trainer());
  REQUIRE(within([&] { return slotOf(*arena, 1).has_value(); }));
  CHECK(rests(*arena));
  CHECK(finished(*arena) == 0);
  CHECK(ask(server, "end") == "0");
  CHECK(progresses(*arena));
  // A server that dies in a request holds no process back.
  CHECK(ask(server, "begin") == "0 counted");
  CHECK(rests(*arena));
  server.kill();
  CHECK(progresses(*arena));
  CHECK(later.finish() == 0);
}

TEST_CASE("tally-top and Prometheus show what the server has measured itself, to within 2 %") {
  Place place;
  auto arena = place.open();
  std::string trace = place.path / "trace.json";
  Child server(place.server({"TALLY_TRACE=" + trace})), trainer(place.trainer());
  REQUIRE(isJoined(*arena));
  REQUIRE(progresses(*arena));
  FILE *top = popen(
      (std::string(TALLY_TOP " --json --once --interval=6000 --arena=") + place.file()).c_str(),
      "r");
  REQUIRE(top);
  std::this_thread::sleep_for(500ms); // its first look
  Served own = serve(server, "serve 400 decode 5000 1");
  char buffer[8192] = {};
  std::string json;
  while (std::fgets(buffer, sizeof buffer, top))
    json += buffer;
  pclose(top);
  CAPTURE(json);
  CHECK(own.count == 400);
  CHECK(own.missed > 0);
  std::smatch found;
  REQUIRE(std::regex_search(
      json, found,
      std::regex("\"request_us\":\\{\"count\":400,\"p50\":([0-9.]+),\"p99\":([0-9.]+)\\},"
                 "\"missed_deadlines\":([0-9]+)")));
  // The two bounds are much closer than that.
  CHECK(own.p50.above < 1.03 * own.p50.below);
  CHECK(own.p50.isNear(std::stod(found[1])));
  CHECK(own.p99.isNear(std::stod(found[2])));
  // One process reads the clock a moment later than the other.
  CHECK(std::abs(std::stoi(found[3]) - own.missed) <= 2);
  std::string metrics = output("--prometheus --arena=" + place.file());
  CHECK(metric(metrics, "tally_request_seconds_count") == 400);
  CHECK(metric(metrics, "tally_requests_total") == 400);
  CHECK(metric(metrics, "tally_missed_deadlines_total") == std::stoi(found[3]));
  CHECK(own.p50.isNear(quantileOf(metrics, 0.5) * 1e6));
  CHECK(own.p99.isNear(quantileOf(metrics, 0.99) * 1e6));

  CHECK(ask(server, "begin prefill") == "0 counted");
  CHECK(ask(server, "end") == "0");
  CHECK(server.finish() == 0);
  std::string text = contents(trace);
  auto count = [&](const std::string &part) {
    int all = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at)
      ++all;
    return all;
  };
  CHECK(count("\"name\":\"decode\"") == 800); // begins and ends
  CHECK(count("\"name\":\"prefill\"") == 2);
  CHECK(count("\"missed_deadline\":true") == std::stoi(found[3]));
  CHECK(trainer.finish() == 0);
}

TEST_CASE("a library that is not linked with Tally reaches that of the program") {
  Place place;
  Child server(place.server());
  CHECK(ask(server, "library") == "1000");
  CHECK(ask(server, "best-effort") == "800");
  CHECK(server.finish() == 0);
}

TEST_CASE("a process of best effort has no requests, and goes on") {
  Place place;
  Child trainer(place.server({"TALLY_CLASS=best-effort"}));
  CHECK(ask(trainer, "begin") == "800 nothing");
  CHECK(ask(trainer, "end") == "0");
  CHECK(ask(trainer, "library") == "800");
  CHECK(trainer.finish() == 0);
}
