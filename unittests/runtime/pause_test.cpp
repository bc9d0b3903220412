// Work that pauses in place: the values of the control word over time.
#include "../support/files.h"
#include "harness.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <utility>

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

/// Programs of pause launches on one stream, which requests stop.
struct Paused : Harness {
  explicit Paused(std::uint64_t seed, std::size_t steps = 4, std::size_t kernelsUsed = 1,
                  Trace *trace = nullptr)
      : Harness(seed, {Kind::Pause, Kind::Persistent, Kind::Guard, Kind::Slice}, {}, 0, nullptr,
                trace) {
    do
      program = Program::make(random, 1, steps, kernelsUsed);
    while (program.steps[0].type != Step::Type::Launch || program.steps[0].grid.count() < 20);
    addStreams(program);
  }

  void submitAll() {
    for (std::size_t n = 0; n < program.steps.size(); ++n)
      REQUIRE(submit(program, n));
  }
  /// A request that begins and ends at once, so that the runtime expects more.
  void request() {
    REQUIRE(high->beginRequest());
    turn();
    REQUIRE(high->endRequest());
    turn();
  }
  /// Runs until some blocks of the first launch have run and others have not.
  void begin() {
    submitAll();
    for (int i = 0; i < 100 && device.blocksRun() < 5; ++i)
      turn();
    REQUIRE(device.blocksRun() >= 5);
    REQUIRE(!allFinished());
  }
  void turn(Nanoseconds time = 1us) {
    now += time;
    dispatcher->step();
    device.advance();
  }
  ControlFields told() const {
    return decodeControl(*reinterpret_cast<const std::uint64_t *>(wordAddress));
  }
  /// Runs until the device has executed the write of `mode`.
  void land(tally_control_mode mode) {
    for (int i = 0; i < 200 && told().mode != mode; ++i)
      turn(Nanoseconds(1));
    REQUIRE(told().mode == mode);
  }
  /// Runs all possible work for a while; returns the number of blocks that ran.
  std::uint64_t blocksIn(Nanoseconds time) {
    std::uint64_t before = device.blocksRun();
    for (Nanoseconds end = now + time; now < end;)
      turn(time / 500);
    return device.blocksRun() - before;
  }
  void finish() {
    for (int i = 0; i < 100000 && !allFinished(); ++i)
      turn();
    CHECK((outcome() == runInOrder(program)));
  }

  Program program;
};

} // namespace

TEST_CASE("what pauses stays where it is, under its epoch") {
  Paused run(3);
  run.begin();
  std::uint64_t epoch = run.word->currentEpoch();
  REQUIRE(run.high->beginRequest());
  CHECK(run.word->currentEpoch() == epoch);
  run.land(TALLY_CONTROL_PAUSE);
  CHECK(run.told() == ControlFields{epoch, 0xffff, TALLY_CONTROL_PAUSE});
  CHECK(run.blocksIn(1ms) == 0);
  REQUIRE(run.high->endRequest());
  run.land(TALLY_CONTROL_RUN);
  CHECK(run.told() == ControlFields{epoch, 0xffff, TALLY_CONTROL_RUN});
  run.finish();
  CHECK(run.statistics().yields == 0);
  CHECK(run.statistics().pauses == 1);
}

TEST_CASE("random programs give the sequential result when some of it pauses") {
  std::uint64_t pauses = 0, yields = 0, besides = 0;
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    Harness harness(seed, {Kind::Pause, Kind::Persistent, Kind::Guard, Kind::Slice});
    Program program = Program::make(harness.random, 1 + seed % 3, 40, seed % 2 == 0 ? 1 : 5);
    harness.addStreams(program);
    // Requests also come between a permit and its launch.
    harness.device.onLaunch = [&] {
      if (harness.openRequests == 0 && harness.random() % 4 == 0) {
        REQUIRE(harness.high->beginRequest());
        ++harness.openRequests;
      }
    };
    harness.device.onBlock = [&](std::optional<Kind> kind) {
      auto word = decodeControl(*reinterpret_cast<const std::uint64_t *>(harness.wordAddress));
      bool polls = kind == Kind::Persistent || kind == Kind::Guard;
      // The last write of the control word counts, not a write on its way.
      bool paused =
          word == ControlFields{harness.word->currentEpoch(), 0xffff, TALLY_CONTROL_PAUSE};
      besides += polls && harness.openRequests > 0 && paused && harness.word->isPausing();
    };
    runRandomly(harness, program, {5, 25, 65, 2, 3});
    CAPTURE(seed);
    CHECK((harness.outcome() == runInOrder(program)));
    pauses += harness.statistics().pauses;
    yields += harness.statistics().yields;
  }
  CHECK(besides == 0); // blocks of work that cannot pause, though a request has only paused
  CHECK(pauses > 200);
  CHECK(yields > 200);
}

TEST_CASE("what does not pause yields beside it") {
  // The other kernels have no pause variant; the second stream is on another lane.
  Harness harness(11, {Kind::Pause, Kind::Persistent});
  Program program;
  do
    program = Program::make(harness.random, 2, 12, 3);
  while (program.steps[0].type != Step::Type::Launch);
  harness.addStreams(program);
  for (std::size_t n = 0; n < program.steps.size(); ++n)
    REQUIRE(harness.submit(program, n));
  std::uint64_t some = 0;
  for (int i = 0; i < 100000 && !harness.allFinished(); ++i) {
    harness.now += 1us;
    harness.dispatcher->step();
    harness.device.advance();
    if (i % 40 != 0)
      continue;
    std::uint64_t epoch = harness.word->currentEpoch();
    Pausing before = harness.word->whatPauses();
    REQUIRE(harness.high->beginRequest());
    CHECK(harness.word->currentEpoch() == epoch + (before == Pausing::All ? 0 : 1));
    some += before == Pausing::Some;
    for (int k = 0; k < 20; ++k) {
      harness.dispatcher->step();
      harness.device.advance();
    }
    REQUIRE(harness.high->endRequest());
  }
  CHECK(some > 0);
  CHECK((harness.outcome() == runInOrder(program)));
}

TEST_CASE("workers that find no block stay beside those that pause, and leave for a deadline") {
  for (bool isLate : {false, true}) {
    Paused run(3);
    run.request();
    run.submitAll();
    for (int i = 0; i < 10000 && run.device.staying < 2; ++i)
      run.turn();
    REQUIRE(run.device.staying >= 2);
    REQUIRE(run.high->beginRequest());
    run.land(TALLY_CONTROL_PAUSE);
    std::uint64_t staying = run.device.staying;
    run.blocksIn(1ms);
    CHECK(run.device.staying == staying);
    if (isLate) {
      run.blocksIn(1500us);
      CHECK(run.told().mode == TALLY_CONTROL_LEAVE_AT_BLOCK_END);
      CHECK(run.device.staying == 0);
    }
    REQUIRE(run.high->endRequest());
    run.finish();
    CHECK(run.device.staying == 0);
  }
}

TEST_CASE("where no requests come nobody stays") {
  for (Nanoseconds since : {Nanoseconds(1ms), Nanoseconds(30ms)}) {
    Paused run(3);
    run.request();
    run.now += since;
    run.submitAll();
    std::uint64_t most = 0;
    for (int i = 0; i < 10000 && !run.allFinished(); ++i) {
      run.turn(Nanoseconds(1));
      most = std::max<std::uint64_t>(most, run.device.staying);
    }
    run.finish();
    CHECK((most > 0) == (since == 1ms));
  }
}

TEST_CASE("a pause has a deadline without progress") {
  Paused run(4);
  run.begin();
  std::uint64_t epoch = run.word->currentEpoch();
  REQUIRE(run.high->beginRequest());
  run.land(TALLY_CONTROL_PAUSE);
  CHECK(run.blocksIn(1900us) == 0);
  CHECK(run.told().mode == TALLY_CONTROL_PAUSE);
  run.blocksIn(200us);
  // The workers leave before their next block, since the epoch has passed.
  CHECK(run.told() == ControlFields{epoch + 1, 0xffff, TALLY_CONTROL_LEAVE_AT_BLOCK_END});
  CHECK(run.blocksIn(5ms) == 0);
  REQUIRE(run.high->endRequest());
  run.land(TALLY_CONTROL_RUN);
  run.finish();
}

TEST_CASE("for how long nothing pauses doubles with each deadline that is met") {
  PauseBackoff backoff;
  Nanoseconds now = 5s;
  CHECK_FALSE(backoff.holds(now));
  CHECK(backoff.miss(now) == 10ms);
  CHECK(backoff.holds(now + 10ms - 1ns));
  CHECK_FALSE(backoff.holds(now + 10ms));
  for (Nanoseconds expected : {20ms, 40ms, 80ms, 160ms, 320ms, 640ms, 1000ms, 1000ms}) {
    CHECK(backoff.miss(now) == expected);
    CHECK(backoff.holds(now + expected - 1ns));
    CHECK_FALSE(backoff.holds(now + expected));
  }
  backoff.endWell();
  CHECK(backoff.holds(now + 999ms)); // the last decision stays in force
  CHECK(backoff.miss(now) == 10ms);
}

TEST_CASE("none follows soon behind one that met its deadline, and then again") {
  test::TemporaryFolder folder;
  auto trace = Trace::open(folder.file("t.json"));
  REQUIRE(trace);
  Paused run(4, 400, 1, trace->get());
  run.begin();
  // Makes a request of that length; returns whether the running work paused for it.
  auto request = [&](Nanoseconds length) {
    std::uint64_t before = run.statistics().pauses;
    // Runs until pausing work is in flight, if the word can tell.
    for (int i = 0; i < 500 && run.word->whatPauses() != Pausing::All; ++i)
      run.turn(Nanoseconds(10));
    REQUIRE(run.high->beginRequest());
    run.blocksIn(length);
    REQUIRE(run.high->endRequest());
    run.land(TALLY_CONTROL_RUN);
    REQUIRE(!run.allFinished());
    return run.statistics().pauses != before;
  };
  auto passes = [&](Nanoseconds time) { run.now += time; };
  CHECK(request(1ms));
  CHECK(request(3ms)); // misses: 10 ms
  CHECK_FALSE(request(1us));
  passes(9100us);
  CHECK(request(3ms)); // misses: 20 ms
  passes(11ms);
  CHECK_FALSE(request(1us));
  passes(8100us);
  CHECK(request(100us)); // well
  CHECK(request(3ms));   // misses: 10 ms
  passes(9100us);
  CHECK(request(100us));
  std::vector<Nanoseconds> none;
  std::map<PauseEnd, int> ends;
  for (const TraceEvent &event : (*trace)->events()) {
    if (event.type == TraceEvent::Type::NoPauses)
      none.push_back(Nanoseconds(static_cast<std::int64_t>(event.value)));
    if (event.type != TraceEvent::Type::Pause)
      continue;
    auto end = static_cast<PauseEnd>(event.value);
    ++ends[end];
    CHECK(event.duration >= (end == PauseEnd::Overdue ? 2ms : 90us));
    CHECK(event.duration < (end == PauseEnd::Overdue ? 2100us : 1100us));
  }
  CHECK(none == std::vector<Nanoseconds>{10ms, 20ms, 10ms});
  CHECK(ends == std::map<PauseEnd, int>{{PauseEnd::Over, 3}, {PauseEnd::Overdue, 3}});
  REQUIRE((*trace)->write());
  std::string text = test::contents(folder.file("t.json"));
  CHECK(text.find("\"args\":{\"ended\":\"overdue\"}") != std::string::npos);
  CHECK(text.find("\"args\":{\"for_us\":20000.000}") != std::string::npos);
}

TEST_CASE("a request that comes while what pauses is being sent pauses it") {
  Paused run(10);
  bool came = false;
  run.device.onLaunch = [&] {
    if (!std::exchange(came, true))
      REQUIRE(run.high->beginRequest());
  };
  run.submitAll();
  std::uint64_t epoch = run.word->currentEpoch();
  run.land(TALLY_CONTROL_PAUSE);
  CHECK(came);
  CHECK(run.told().epoch == epoch);
  REQUIRE(run.high->endRequest());
  run.finish();
  CHECK(run.statistics().yields == 0);
}

TEST_CASE("high-priority calls are progress") {
  Paused run(5);
  run.begin();
  HighStream *stream = *run.high->adopt(*run.device.createStream(StreamPriority::High));
  REQUIRE(run.high->beginRequest());
  run.land(TALLY_CONTROL_PAUSE);
  for (int i = 0; i < 10; ++i) {
    CHECK(run.blocksIn(1500us) == 0);
    CHECK(run.told().mode == TALLY_CONTROL_PAUSE);
    REQUIRE(run.high->beginCall(*stream));
    run.high->endCall(*stream);
  }
  REQUIRE(run.high->endRequest());
  run.finish();
  CHECK(run.statistics().yields == 0);
}

TEST_CASE("what is known to fit is progress as long as it runs") {
  Paused run(6);
  run.begin();
  run.high->headroom().see({16, 0, 0}, {{1, 1, 1}, {32, 1, 1}, 0});
  StreamId id = *run.device.createStream(StreamPriority::High);
  HighStream *stream = *run.high->adopt(id);
  REQUIRE(run.high->beginRequest());
  run.turn();
  // Work that is not done before the device reaches it.
  REQUIRE(run.high->beginCall(*stream));
  REQUIRE(run.device.waitFor(id, run.control));
  REQUIRE(run.device.fill(id, run.memory[0][0], std::byte{0}, 0));
  run.high->endCall(*stream);
  for (int i = 0; i < 20; ++i) {
    run.now += 1ms;
    run.dispatcher->step();
  }
  CHECK(run.word->isPausing());
  while (!*run.device.isIdle(id))
    run.device.advance();
  for (int i = 0; i < 5; ++i) {
    run.now += 1ms;
    run.dispatcher->step();
  }
  CHECK_FALSE(run.word->isPausing());
  REQUIRE(run.high->endRequest());
  run.finish();
}

TEST_CASE("nothing pauses where high-priority work does not fit, or waits for it") {
  Paused run(7);
  run.begin();
  std::uint64_t epoch = run.word->currentEpoch();
  REQUIRE(run.high->beginRequest());
  run.turn();
  CHECK(run.word->isPausing());
  SUBCASE("a large launch comes") { run.high->headroom().noteLarge(run.now); }
  SUBCASE("high priority waits for the lane") { run.streams[0]->lane.inheritHighPriority(1); }
  SUBCASE("the process ends") { run.dispatcher->stopSending(); }
  run.turn();
  CHECK_FALSE(run.word->isPausing());
  CHECK(run.word->currentEpoch() == epoch + 1);
  run.land(TALLY_CONTROL_LEAVE_AT_BLOCK_END);
  REQUIRE(run.high->endRequest());
  if (!run.dispatcher->isClosed())
    run.finish();
}

TEST_CASE("requests of other processes do not pause") {
  Paused run(8);
  run.begin();
  std::uint64_t epoch = run.word->currentEpoch();
  CHECK(run.word->whatPauses() == Pausing::All);
  REQUIRE(run.word->raiseAndTell(false));
  CHECK(run.word->currentEpoch() == epoch + 1);
  CHECK_FALSE(run.word->isPausing());
  REQUIRE(run.word->withdraw());
  run.finish();
}

TEST_CASE("who wakes and who sends others see each other") {
  // The dispatcher's thread sends pausing and other work as fast as it can; another thread wakes.
  // At the end of any wake, in-flight work that cannot pause must have been asked to yield.
  ControlWord word([](std::uint64_t) -> Result<void> { return {}; });
  constexpr std::uint64_t none = ~std::uint64_t{0};
  std::atomic<std::uint64_t> others{none}; // the epoch of in-flight work that cannot pause
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> missed{0}, lost{0}, paused{0}, sent{0};
  std::thread waking([&] {
    for (int i = 0; i < 200000 && lost == 0; ++i) {
      std::uint64_t before = word.currentEpoch();
      REQUIRE(word.raise());
      // The end of a pause does not take a launch that only paused for a finished one, except for a
      // moment. A lost notification never comes; the system may keep the other thread from its core
      // for a while.
      if (word.currentEpoch() == before) {
        bool isPaused = word.isPausing();
        for (Nanoseconds end = SteadyClock{}() + 2s; !isPaused && SteadyClock{}() < end;) {
          std::this_thread::yield();
          isPaused = word.isPausing();
        }
        lost += !isPaused;
      }
      paused += word.isPausing();
      missed += others.load() == word.currentEpoch();
      REQUIRE(word.withdraw());
    }
    stop = true;
  });
  while (!stop) {
    word.setPausing(Pausing::All);
    REQUIRE(word.settle());
    word.setPausing(Pausing::None);
    if (auto epoch = word.permit(PriorityPolicy{})) {
      // Acts as a launch: from here on the work runs, unless the epoch passes.
      others.store(*epoch);
      sent += 1;
      others.store(none);
    }
  }
  waking.join();
  CHECK(missed == 0);
  CHECK(lost == 0);
  CHECK(paused > 100);
  CHECK(sent > 100);
  REQUIRE(word.settle());
  CHECK_FALSE(word.isPausing());
}
