// The state of an arena as a reader without a slot sees it.
#include "arena_folder.h"
#include "requests/request_times.h"

#include "tally/runtime/arena_status.h"

#include <doctest/doctest.h>

#include <fstream>
#include <thread>
#include <unistd.h>

using namespace tally::runtime;
using namespace std::chrono_literals;
using State = ClientStatus::State;

namespace {

ArenaStatus read(const ArenaFolder &folder) {
  auto status = readArenaStatus(folder.file());
  REQUIRE(status);
  return std::move(*status);
}

ClientStatus client(const ArenaFolder &folder, std::size_t index) {
  auto status = read(folder);
  REQUIRE(status.clients.size() > index);
  return status.clients[index];
}

std::optional<std::chrono::nanoseconds> tookUntil(RequestTimes &times, Nanoseconds now) {
  std::optional<RequestTimes::Ended> ended = times.end(now);
  return ended ? std::optional(ended->took) : std::nullopt;
}

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE_TEMPLATE("histogram: each duration is in a bucket that holds it", Times, Histogram,
                   RequestHistogram) {
  CHECK(Times::bucketOf(-1ns) == 0);
  CHECK(Times::bucketOf(0ns) == 0);
  std::uint32_t last = 0;
  for (std::int64_t ns = Times::lowerBound(0).count(); ns < 50'000'000'000; ns += ns / 97 + 1) {
    std::uint32_t bucket = Times::bucketOf(std::chrono::nanoseconds(ns));
    CHECK(bucket >= last);
    CHECK(Times::lowerBound(bucket).count() <= ns);
    if (bucket + 1 < Times::buckets)
      CHECK(Times::lowerBound(bucket + 1).count() > ns);
    last = bucket;
  }
  CHECK(last == Times::buckets - 1);
  CHECK(Times::bucketOf(std::chrono::nanoseconds::max()) == Times::buckets - 1);
  for (std::uint32_t bucket = 1; bucket < Times::buckets; ++bucket) {
    CHECK(Times::bucketOf(Times::lowerBound(bucket)) == bucket);
    CHECK(Times::bucketOf(Times::lowerBound(bucket) - 1ns) == bucket - 1);
  }
}

TEST_CASE("histogram: buckets of requests are less than 2 % wide") {
  for (std::uint32_t bucket = 1; bucket < RequestHistogram::buckets; ++bucket) {
    auto from = static_cast<double>(RequestHistogram::lowerBound(bucket - 1).count());
    CHECK(static_cast<double>(RequestHistogram::lowerBound(bucket).count()) < 1.0196 * from);
  }
}

TEST_CASE("histogram: quantiles, and what came since") {
  Histogram times;
  CHECK(!times.quantile(0.5));
  auto add = [&](std::chrono::nanoseconds time) { ++times.counts[Histogram::bucketOf(time)]; };
  for (int i = 1; i <= 1000; ++i)
    add(std::chrono::microseconds(i));
  CHECK(times.count() == 1000);
  for (double fraction : {0.01, 0.25, 0.5, 0.9, 0.99}) {
    double exact = fraction * 1e6;
    auto got = static_cast<double>(times.quantile(fraction)->count());
    CHECK(got == doctest::Approx(exact).epsilon(0.07));
  }
  Histogram before = times;
  CHECK(times.since(before).count() == 0);
  add(20s);
  Histogram since = times.since(before);
  CHECK(since.count() == 1);
  CHECK(since.quantile(0) == Histogram::lowerBound(Histogram::buckets - 1));
  CHECK(since.quantile(1) == since.quantile(0));
}

TEST_CASE("request times: ends belong to the oldest beginnings; of too many nothing is said") {
  RequestTimes times;
  times.begin(10ns);
  CHECK(tookUntil(times, 25ns) == 15ns);
  times.begin(100ns);
  times.begin(200ns);
  CHECK(tookUntil(times, 260ns) == 160ns);
  CHECK(tookUntil(times, 270ns) == 70ns);
  for (int i = 0; i < 65; ++i)
    times.begin(std::chrono::nanoseconds(1000 + i));
  CHECK(!times.end(2000ns));
  CHECK(tookUntil(times, 2000ns) == 999ns);

  // An end whose begin is not stored yet does not match an older begin.
  RequestTimes early;
  for (int i = 0; i < 64; ++i) {
    early.begin(5ns);
    CHECK(tookUntil(early, 6ns) == 1ns);
  }
  CHECK(!early.end(7ns));
}

TEST_CASE("what each client is doing") {
  ArenaFolder folder;
  auto server = folder.open(), trainer = folder.open();
  auto high = claimed(server, 0, "serv\x1b\"er");
  auto bestEffort = claimed(trainer, 1, "trainer");

  CHECK(client(folder, 0).state == State::Idle);
  CHECK(client(folder, 1).state == State::Idle);
  bestEffort->set(ArenaCounter::HasWork, 1);
  CHECK(client(folder, 1).state == State::Active);
  high->raise();
  std::this_thread::sleep_for(5ms);
  CHECK(client(folder, 0).state == State::Active);
  CHECK(client(folder, 0).openScopes == 1);
  CHECK(client(folder, 0).active >= 5ms);
  CHECK(client(folder, 1).state == State::Waiting);
  high->withdraw();
  ClientStatus rested = client(folder, 0);
  CHECK(rested.state == State::Idle);
  CHECK(rested.active >= 5ms);
  std::this_thread::sleep_for(2ms);
  CHECK(client(folder, 0).active == rested.active);
  CHECK(rested.activations == 1);
  CHECK(client(folder, 1).state == State::Active);

  high->add(ArenaCounter::Requests, 3);
  high->set(ArenaCounter::HighCalls, 4);
  high->addRequest(2ms);
  high->add(ArenaCounter::MissedDeadlines, 2);
  bestEffort->set(ArenaCounter::Launches, 5);
  bestEffort->addTurnaround(30us);
  ArenaStatus status = read(folder);
  CHECK(status.uuid == "gpu");
  CHECK(status.clients[0].name == "serv?\"er");
  CHECK(status.clients[0].pid == static_cast<std::uint32_t>(getpid()));
  CHECK(status.clients[0].clientClass == Class::High);
  CHECK(status.clients[0].requests == 3);
  CHECK(status.clients[0].launches == 4);
  CHECK(status.clients[0].requestTime.count() == 1);
  CHECK(status.clients[0].requestSum == 2ms);
  CHECK(status.clients[0].missedDeadlines == 2);
  CHECK(status.clients[1].clientClass == Class::BestEffort);
  CHECK(status.clients[1].launches == 5);
  CHECK(status.clients[1].turnaround.count() == 1);

  std::string text = prometheusText(std::span(&status, 1));
  std::string first = "{gpu=\"gpu\",class=\"high\",name=\"serv?\\\"er\",pid=\"" +
                      std::to_string(getpid()) + "\",slot=\"0\"";
  CHECK(has(text, "\ntally_requests_total" + first + "} 3\n"));
  CHECK(has(text, "\ntally_request_seconds_bucket" + first + ",le=\"0.002097152\"} 1\n"));
  CHECK(has(text, "\ntally_request_seconds_bucket" + first + ",le=\"0.001048576\"} 0\n"));
  // That octave finely, others not.
  CHECK(has(text, "\ntally_request_seconds_bucket" + first + ",le=\"0.001979448\"} 0\n"));
  CHECK(has(text, "\ntally_request_seconds_bucket" + first + ",le=\"0.00201793\"} 1\n"));
  CHECK(!has(text, ",le=\"0.003958896\"}"));
  CHECK(has(text, "\ntally_missed_deadlines_total" + first + "} 2\n"));
  CHECK(has(text, "\ntally_request_seconds_bucket" + first + ",le=\"1.073741824\"} 1\n"));
  CHECK(has(text, "\ntally_request_seconds_bucket" + first + ",le=\"+Inf\"} 1\n"));
  CHECK(has(text, "\ntally_request_seconds_sum" + first + "} 0.002\n"));
  CHECK(!has(text, "tally_yields_total" + first));

  for (Nanoseconds took :
       std::initializer_list<Nanoseconds>{1us, 100us, 1050us, 10400us, 103ms, 1020ms, 20s}) {
    RequestHistogram before = client(folder, 0).requestTime;
    high->addRequest(took);
    auto shown = client(folder, 0).requestTime.since(before);
    CHECK(shown.count() == 1);
    CHECK(shown.counts[RequestHistogram::bucketOf(took)] == 1);
  }

  // The status does not show a dead process, even one that left data in its slot.
  high->raise();
  bestEffort.reset();
  CHECK(read(folder).clients.size() == 1);
}

TEST_CASE("reading takes no slot, and does not make an arena") {
  ArenaFolder folder;
  CHECK(readArenaStatus(folder.file()).error().message ==
        folder.file() + ": the arena cannot be opened: No such file or directory");
  CHECK(!std::ifstream(folder.file()));
  auto arena = folder.open();
  CHECK(read(folder).clients.empty());
  CHECK(arena->view().empty());
  std::ofstream(folder.file()) << "something else";
  CHECK(has(readArenaStatus(folder.file()).error().message, ": not an arena"));
}

TEST_CASE("arenas are found where they are made") {
  ArenaFolder folder;
  std::string path = folder.path;
  auto first = Arena::open({path + "/tally-a", "a", {}, false});
  auto second = Arena::open({path + "/tally-b", "b", {}, false});
  std::ofstream(path + "/tally-c.new-1") << "";
  std::ofstream(path + "/other") << "";
  using Paths = std::vector<std::string>;
  CHECK(*findArenas({path, {}, {}}) == Paths{path + "/tally-a", path + "/tally-b"});
  CHECK(*findArenas({path + "/x", {}, {}}) == Paths{path + "/x"});
  setenv("TALLY_ARENA", path.c_str(), 1);
  CHECK(findArenas({})->size() == 2);
  setenv("TALLY_ARENA", "off", 1);
  CHECK(findArenas({})->empty());
  unsetenv("TALLY_ARENA");
}
