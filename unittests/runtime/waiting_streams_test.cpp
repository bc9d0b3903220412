// Operations that cannot be revoked, sent ahead behind launches that can yield: copies, fills and
// kernels without variants wait on the device until the launch ahead of them is done, however often
// it yields. The defects that it guards against: a copy ahead of a kernel that is resumed, a fill
// between its two halves, a state that reports its end too early, and a stream that waits for ever.
#include "harness.h"

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t nonPreemptibleKernel = 4;

/// Kernels with operations between them that cannot yield.
Program mixedChain() {
  Program program;
  program.streams = 1;
  auto add = [&](Step::Type type, std::size_t kernel = 0) {
    std::uint64_t n = program.steps.size();
    program.steps.push_back({type, 0, kernel, n % 2, (n + 1) % 2, {6, 4, 1}, mixed(n), 0});
  };
  for (int round = 0; round < 2; ++round) {
    add(Step::Type::Launch);
    add(Step::Type::CopyOut);
    add(Step::Type::Launch);
    add(Step::Type::Launch);
    add(Step::Type::Launch, nonPreemptibleKernel);
    add(Step::Type::Fill);
    add(Step::Type::Launch);
    add(Step::Type::CopyIn);
  }
  add(Step::Type::Launch);
  for (std::size_t n = 0; n < program.steps.size(); ++n) {
    program.hostIn.emplace_back(Program::words);
    for (std::size_t word = 0; word < Program::words; ++word)
      program.hostIn[n][word] = mixed(1000 * n + word);
  }
  return program;
}

void submitAll(Harness &harness, const Program &program) {
  harness.addStreams(program);
  for (std::size_t n = 0; n < program.steps.size(); ++n)
    REQUIRE(harness.submit(program, n));
}

void turn(Harness &harness) {
  harness.now += Nanoseconds(100);
  harness.dispatcher->step();
  harness.device.advance();
}

/// Runs the program, and calls `before` before each turn. Returns whether the result is the
/// sequential one.
template <class Before> bool run(Harness &harness, const Program &program, const Before &before) {
  submitAll(harness, program);
  for (int i = 0; i < 100000 && !harness.allFinished(); ++i) {
    before();
    turn(harness);
  }
  for (const auto &stream : harness.streams)
    if (stream->failed)
      return false;
  return harness.allFinished() && harness.outcome() == runInOrder(program);
}

} // namespace

TEST_CASE("a request at each poll, while copies and non-preemptible kernels wait behind launches") {
  Program program = mixedChain();
  for (Kind kind : {Kind::Guard, Kind::Persistent, Kind::Checkpoint}) {
    std::uint64_t waits = 0, yields = 0, last = 0;
    for (std::uint64_t raisedAt = 0; raisedAt <= last + 1 && raisedAt < 1000; raisedAt += oneIn) {
      Harness harness(raisedAt + 1, {kind});
      // Whether the markers are on a separate stream.
      harness.device.streamsAreApart = raisedAt % 2 == 0;
      int turnsLeft = -1; // of the request
      harness.device.onPoll = [&](std::uint64_t poll) {
        last = std::max(last, poll);
        if (poll != raisedAt)
          return;
        turnsLeft = static_cast<int>(raisedAt % 40);
        REQUIRE(harness.high->beginRequest());
      };
      bool right = run(harness, program, [&] {
        if (turnsLeft >= 0 && turnsLeft-- == 0)
          REQUIRE(harness.high->endRequest());
      });
      if (turnsLeft >= 0)
        REQUIRE(harness.high->endRequest());
      CAPTURE(raisedAt);
      CAPTURE(name(kind));
      CHECK(right);
      waits += harness.device.wordWaits();
      yields += harness.statistics().yields;
    }
    CHECK(last > 100);
    CHECK(yields > last / (2 * oneIn));
    CHECK(waits > last / (4 * oneIn));
  }
}

TEST_CASE("where nothing moves what a stream waits for is said once") {
  Program program;
  program.streams = 1;
  program.steps.push_back({Step::Type::Launch, 0, 0, 0, 1, {6, 4, 1}, 1, 0});
  program.steps.push_back({Step::Type::CopyOut, 0, 0, 1, 0, {6, 4, 1}, 2, 0});
  program.hostIn.resize(2);
  Harness harness(1, {Kind::Guard});
  submitAll(harness, program);
  auto stand = [&](Nanoseconds time) {
    harness.now += time;
    harness.dispatcher->step();
  };
  for (int i = 0; i < 10; ++i)
    stand(1us);
  stand(4s);
  CHECK(harness.warnings.empty());
  for (int i = 0; i < 3; ++i)
    stand(6s);
  REQUIRE(harness.warnings.size() == 1);
  CHECK(harness.warnings[0].find("for 5 s: its stream waits on the device for " + mixNames[0]) !=
        std::string::npos);
  for (int i = 0; i < 1000 && !harness.allFinished(); ++i)
    turn(harness);
  CHECK(harness.allFinished());
  CHECK(harness.outcome() == runInOrder(program));
}

TEST_CASE("requests come and go at random, while random programs wait on several streams") {
  std::uint64_t waits = 0;
  for (std::uint64_t seed = 1; seed <= 300; seed += oneIn) {
    std::vector<Kind> kinds = {Kind::Persistent, Kind::Guard, Kind::Checkpoint, Kind::Slice};
    Harness harness(seed, kinds);
    harness.device.streamsAreApart = seed % 2 == 0;
    Program program = Program::make(harness.random, 1 + seed % 3, 30, mixNames.size());
    bool open = false;
    harness.device.onPoll = [&](std::uint64_t) {
      if (harness.random() % (open ? 3 : 25) != 0)
        return;
      if (!open)
        REQUIRE(harness.high->beginRequest());
      else
        REQUIRE(harness.high->endRequest());
      open = !open;
    };
    bool right = run(harness, program, [&] {
      if (open && harness.random() % 20 == 0) {
        open = false;
        REQUIRE(harness.high->endRequest());
      }
    });
    if (open)
      REQUIRE(harness.high->endRequest());
    CAPTURE(seed);
    CHECK(right);
    waits += harness.device.wordWaits();
  }
  CHECK(waits > 300 / oneIn);
}

TEST_CASE("once nothing is sent any more what a stream waits for is finished all the same") {
  std::uint64_t waits = 0;
  for (std::uint64_t turns = 1; turns <= 200; ++turns) {
    Harness harness(turns, {Kind::Persistent});
    Program program = mixedChain();
    submitAll(harness, program);
    for (std::uint64_t i = 0; i < turns; ++i)
      turn(harness);
    REQUIRE(harness.high->beginRequest()); // and never ends
    for (std::uint64_t i = 0; i < turns % 30; ++i)
      turn(harness);
    harness.dispatcher->stopSending();
    for (int i = 0; i < 5000 && !harness.dispatcher->isAtRest(); ++i)
      turn(harness);
    CAPTURE(turns);
    CHECK(harness.dispatcher->isAtRest());
    for (int i = 0; i < 500 && harness.device.hasWork(); ++i)
      harness.device.advance();
    CHECK(!harness.device.hasWork());
    waits += harness.device.wordWaits();
    REQUIRE(harness.high->endRequest());
  }
  CHECK(waits > 10);
}

TEST_CASE("lanes are given up while streams wait") {
  std::uint64_t waits = 0;
  for (std::uint64_t turns = 1; turns <= 200; ++turns) {
    Harness harness(turns, {Kind::Persistent});
    Program program = mixedChain();
    submitAll(harness, program);
    bool asked = false;
    for (std::uint64_t i = 0; i < turns; ++i) {
      if (i > turns / 2 && !std::exchange(asked, true))
        REQUIRE(harness.high->beginRequest());
      turn(harness);
    }
    harness.dispatcher->close();
    if (asked)
      REQUIRE(harness.high->endRequest());
    waits += harness.device.wordWaits();
  }
  CHECK(waits > 10);
}
