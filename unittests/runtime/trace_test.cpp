// The trace: its events match the work that happened, and its file has the format that Perfetto
// reads.
#include "../support/files.h"
#include "harness.h"
#include "trace/trace.h"

#include <cctype>
#include <filesystem>
#include <fstream>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

using namespace tally;
using namespace tally::runtime;

namespace fs = std::filesystem;

namespace {

std::size_t countOf(const std::string &text, const std::string &what) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size())
    ++count;
  return count;
}

/// Reads one JSON value (RFC 8259) from the front of `text`; false where there is none.
bool skipValue(std::string_view &text);

void skipSpace(std::string_view &text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text[0])) != 0)
    text.remove_prefix(1);
}

bool skip(std::string_view &text, std::string_view what) {
  skipSpace(text);
  if (!text.starts_with(what))
    return false;
  text.remove_prefix(what.size());
  return true;
}

bool skipString(std::string_view &text) {
  if (!skip(text, "\""))
    return false;
  while (!text.empty() && text[0] != '"') {
    if (static_cast<unsigned char>(text[0]) < ' ')
      return false;
    text.remove_prefix(text[0] == '\\' ? 2 : 1);
  }
  return skip(text, "\"");
}

bool skipMembers(std::string_view &text, char end, bool named) {
  if (skip(text, {&end, 1}))
    return true;
  do
    if ((named && (!skipString(text) || !skip(text, ":"))) || !skipValue(text))
      return false;
  while (skip(text, ","));
  return skip(text, {&end, 1});
}

bool skipValue(std::string_view &text) {
  if (skip(text, "{"))
    return skipMembers(text, '}', true);
  if (skip(text, "["))
    return skipMembers(text, ']', false);
  if (skip(text, "true") || skip(text, "false"))
    return true;
  if (!text.empty() && text[0] == '"')
    return skipString(text);
  std::size_t digits = text.find_first_not_of("-0123456789.");
  text.remove_prefix(std::min(digits, text.size()));
  return digits != 0;
}

bool isJson(std::string_view text) {
  if (!skipValue(text))
    return false;
  skipSpace(text);
  return text.empty();
}

TraceEvent eventOf(TraceEvent::Type type, Nanoseconds start, Nanoseconds duration = {}) {
  TraceEvent event;
  event.type = type;
  event.start = start;
  event.duration = duration;
  return event;
}

} // namespace

TEST_CASE("the ring keeps the newest events and says how many are lost") {
  test::TemporaryFolder folder;
  auto trace = Trace::open(folder.file("t.json"), 16);
  REQUIRE(trace);
  for (int i = 0; i < 16; ++i)
    (*trace)->add(eventOf(TraceEvent::Type::Batch, Nanoseconds(i), Nanoseconds(1)));
  CHECK((*trace)->lost() == 0);
  for (int i = 16; i < 40; ++i)
    (*trace)->add(eventOf(TraceEvent::Type::Batch, Nanoseconds(i), Nanoseconds(1)));
  CHECK((*trace)->lost() == 24);
  std::vector<TraceEvent> kept = (*trace)->events();
  REQUIRE(kept.size() == 16);
  CHECK(kept.front().start == Nanoseconds(24));
  CHECK(kept.back().start == Nanoseconds(39));
  REQUIRE((*trace)->write());
  std::string text = test::contents(folder.file("t.json"));
  CHECK(isJson(text));
  CHECK(text.find("\"lost_events\":24,\"capacity\":16") != std::string::npos);
}

TEST_CASE("events come back as they were added, names with them") {
  test::TemporaryFolder folder;
  auto trace = Trace::open(folder.file("t.json"));
  REQUIRE(trace);
  TraceEvent event = eventOf(TraceEvent::Type::Work, Nanoseconds(1234567), Nanoseconds(1001));
  event.lane = 3;
  event.way = TraceEvent::Way::Variant;
  event.kind = Kind::Guard;
  event.resumes = event.yielded = event.isEstimate = true;
  event.name = (*trace)->nameOf("a \"quoted\\ name\n");
  event.value = 0x123456789a;
  CHECK((*trace)->nameOf("a \"quoted\\ name\n") == event.name);
  CHECK((*trace)->nameOf("another") != event.name);
  (*trace)->add(event);
  TraceEvent back = (*trace)->events().at(0);
  CHECK(back.type == event.type);
  CHECK(back.lane == 3);
  CHECK(back.way == event.way);
  CHECK(back.kind == Kind::Guard);
  CHECK((back.resumes && back.yielded && back.isEstimate));
  CHECK(back.name == event.name);
  CHECK(back.start == event.start);
  CHECK(back.duration == event.duration);
  CHECK(back.value == event.value);
  REQUIRE((*trace)->write());
  std::string text = test::contents(folder.file("t.json"));
  CHECK(isJson(text));
  CHECK(text.find("\"name\":\"a \\\"quoted\\\\ name \",\"ts\":1234.567,\"dur\":1.001,\"args\":"
                  "{\"kind\":\"guard\"") != std::string::npos);
  CHECK(countOf(text, "\"yielded\",\"ts\":1235.568") == 1);
  CHECK(countOf(text, "\"resumed\",\"ts\":1234.567") == 1);
}

TEST_CASE("what cannot be written is said at once, and what stood there stays") {
  CHECK(!Trace::open("/nonexistent-folder/t.json"));
  test::TemporaryFolder folder;
  CHECK(!Trace::open(folder.file("t.json"), 15));
  CHECK(!Trace::open(folder.file("t.json"), Trace::mostCapacity + 1));
  std::ofstream(folder.file("t.json")) << "before";
  {
    auto trace = Trace::open(folder.file("t.json"));
    REQUIRE(trace);
    CHECK(test::contents(folder.file("t.json")) == "before");
    // A child inherits the parent's events, and must not write them over the parent's file.
    pid_t child = fork();
    if (child == 0)
      _exit((*trace)->write() ? 0 : 1);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(test::contents(folder.file("t.json")) == "before");
    REQUIRE((*trace)->write());
    CHECK(isJson(test::contents(folder.file("t.json"))));
  }
  auto ofProcess = Trace::open(folder.file("t-%p.json"));
  REQUIRE(ofProcess);
  CHECK((*ofProcess)->path() == folder.file("t-" + std::to_string(getpid()) + ".json"));
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 1);
}

TEST_CASE("threads that add, and one that reads meanwhile") {
  test::TemporaryFolder folder;
  auto trace = Trace::open(folder.file("t.json"), 64);
  REQUIRE(trace);
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (int w = 0; w < 3; ++w)
    writers.emplace_back([&, w] {
      for (int i = 0; i < 20000; ++i) {
        TraceEvent event = eventOf(TraceEvent::Type::Batch, Nanoseconds(i * 3 + w), {});
        event.value = static_cast<std::uint64_t>(i * 3 + w);
        (*trace)->add(event);
      }
    });
  std::thread reader([&] {
    while (!stop)
      for (const TraceEvent &event : (*trace)->events())
        if (event.value != static_cast<std::uint64_t>(event.start.count()))
          FAIL_CHECK("an event of two halves");
  });
  for (std::thread &each : writers)
    each.join();
  stop = true;
  reader.join();
  CHECK((*trace)->lost() >= 60000 - 64);
  CHECK((*trace)->events().size() <= 64);
}

TEST_CASE("a trace of random programs agrees with the statistics") {
  test::TemporaryFolder folder;
  std::uint64_t yields = 0, resumed = 0, waits = 0, nonPreemptible = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    auto trace = Trace::open(folder.file("t.json"));
    REQUIRE(trace);
    Harness harness(seed, {Kind::Persistent, Kind::Guard, Kind::Slice}, {}, 0, nullptr,
                    trace->get());
    Program program = Program::make(harness.random, 1 + seed % 4, 60, 5);
    harness.addStreams(program);
    std::size_t next = 0, begun = 0;
    bool open = false;
    while (next < program.steps.size() || !harness.allFinished() || open) {
      harness.now += Nanoseconds(1 + harness.random() % 3000);
      std::uint64_t pick = harness.random() % 100;
      if (pick < 10 && next < program.steps.size())
        REQUIRE(harness.submit(program, next++));
      else if (pick < 40)
        harness.dispatcher->step();
      else if (pick < 94)
        harness.device.advance();
      else if (!open) {
        REQUIRE(harness.high->beginRequest());
        open = true;
        ++begun;
      } else {
        REQUIRE(harness.high->endRequest());
        open = false;
      }
    }
    Statistics statistics = harness.statistics();
    std::uint64_t launches = 0, yielded = 0, wakes = 0, idles = 0, turnarounds = 0;
    std::map<int, Nanoseconds> busyUntil;
    for (const TraceEvent &event : (*trace)->events()) {
      bool isKernel =
          event.way == TraceEvent::Way::Variant || event.way == TraceEvent::Way::NonPreemptible;
      launches += event.type == TraceEvent::Type::Work && isKernel;
      nonPreemptible +=
          event.type == TraceEvent::Type::Work && event.way == TraceEvent::Way::NonPreemptible;
      yielded += event.type == TraceEvent::Type::Work && event.yielded;
      resumed += event.resumes;
      wakes += event.type == TraceEvent::Type::Wake;
      idles += event.type == TraceEvent::Type::Idle;
      waits += event.type == TraceEvent::Type::Wait;
      turnarounds += event.type == TraceEvent::Type::Turnaround;
      if (event.type == TraceEvent::Type::Batch) {
        // Events of one lane follow one another.
        CHECK(event.start >= busyUntil[event.lane]);
        busyUntil[event.lane] = event.start + event.duration;
      }
    }
    CHECK(launches == statistics.physicalLaunches);
    CHECK(yielded == statistics.yields);
    CHECK(wakes == begun);
    CHECK(idles == begun);
    CHECK(turnarounds == statistics.turnaroundNanoseconds.size());
    CHECK((*trace)->lost() == 0);
    REQUIRE((*trace)->write());
    std::string text = test::contents(folder.file("t.json"));
    CHECK(isJson(text));
    CHECK(countOf(text, "\"name\":\"yielded\"") == yielded);
    CHECK(countOf(text, "\"name\":\"active\"") == begun);
    yields += yielded;
  }
  CHECK(yields > 100);
  CHECK(resumed > 50);
  CHECK(waits > 100);
  CHECK(nonPreemptible > 100);
}
