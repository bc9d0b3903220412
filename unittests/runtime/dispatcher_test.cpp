// The dispatcher on a device that chooses every step at random: in every order of execution and
// yields, the result is the sequential one.
#include "harness.h"

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

TEST_CASE("random programs give the sequential result under random requests") {
  const std::vector<std::vector<Kind>> preferences = {
      {Kind::Persistent, Kind::Guard, Kind::Slice}, {Kind::Guard}, {Kind::Slice}, {}};
  std::uint64_t yields = 0, turnarounds = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    Harness harness(seed, preferences[seed % 8 < 5 ? 0 : seed % 4]);
    harness.device.streamsAreApart = seed % 5 != 0;
    // The first kernel alone has every kind; later seeds mix in kernels that lack some kinds.
    Program program = Program::make(harness.random, 1 + seed % 4, 60, seed % 3 == 0 ? 5 : 3);
    harness.addStreams(program);
    Mood mood = seed % 2 == 0 ? Mood{4, 20, 100, 2, 4} : Mood{40, 40, 400, 2, 3};
    runRandomly(harness, program, mood);
    CAPTURE(seed);
    CHECK((harness.outcome() == runInOrder(program)));
    Statistics statistics = harness.statistics();
    std::uint64_t launches = 0;
    for (const Step &step : program.steps)
      launches += step.type == Step::Type::Launch;
    CHECK(statistics.bestEffortLaunches == launches);
    CHECK(statistics.physicalLaunches >= launches);
    yields += statistics.yields;
    turnarounds += statistics.turnaroundNanoseconds.size();
  }
  // Without yields the test would prove nothing.
  CHECK(yields > 1000);
  CHECK(turnarounds > 500);
}

TEST_CASE("the same where blocks are saved, and where they pause") {
  for (Kind kind : {Kind::Checkpoint, Kind::Pause}) {
    CAPTURE(name(kind));
    std::uint64_t saved = 0, yields = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      Harness harness(seed, {kind, Kind::Persistent, Kind::Guard});
      // Half of the programs mix kernels without the kind among kernels with it.
      Program program = Program::make(harness.random, 1 + seed % 4, 60, seed % 2 == 0 ? 3 : 1);
      harness.addStreams(program);
      Mood mood = seed % 3 == 0 ? Mood{4, 20, 100, 2, 4} : Mood{20, 20, 200, 1, 2};
      CAPTURE(seed);
      runRandomly(harness, program, mood);
      CHECK((harness.outcome() == runInOrder(program)));
      saved += harness.statistics().savedBlocks;
      yields += harness.statistics().yields;
    }
    CHECK((saved > 1000) == (kind == Kind::Checkpoint));
    CHECK(yields > 300);
  }
}

TEST_CASE("kernels without variants may run on a stream of their own") {
  std::uint64_t confined = 0, others = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Harness harness(seed, {Kind::Persistent, Kind::Guard, Kind::Slice}, {}, 1);
    Program program = Program::make(harness.random, 1 + seed % 2, 60, 5);
    harness.addStreams(program);
    runRandomly(harness, program, {20, 20, 60, 1, 4});
    CAPTURE(seed);
    CHECK((harness.outcome() == runInOrder(program)));
    confined += harness.device.confinedLaunches;
    others += harness.statistics().physicalLaunches - harness.device.confinedLaunches;
  }
  CHECK(confined > 300);
  CHECK(others > 1000);
}

TEST_CASE("nothing best-effort is sent while a request is open") {
  Harness harness(5);
  Program program = Program::make(harness.random, 2, 40, 5);
  harness.addStreams(program);
  REQUIRE(harness.high->beginRequest());
  for (std::size_t n = 0; n < program.steps.size(); ++n)
    REQUIRE(harness.submit(program, n));
  for (int i = 0; i < 1000; ++i) {
    harness.dispatcher->step();
    harness.device.advance();
  }
  CHECK(harness.device.blocksRun() == 0);
  CHECK(harness.statistics().physicalLaunches == 0);
  REQUIRE(harness.high->endRequest());
  for (int i = 0; i < 100000 && !harness.allFinished(); ++i) {
    harness.now += 1us;
    harness.dispatcher->step();
    harness.device.advance();
  }
  CHECK((harness.outcome() == runInOrder(program)));
}

TEST_CASE("the policy's hysteresis holds best effort back") {
  Harness harness(6, {Kind::Guard}, PriorityPolicy{50us});
  Program program = Program::make(harness.random, 1, 4, 1);
  harness.addStreams(program);
  REQUIRE(harness.high->beginRequest());
  REQUIRE(harness.high->endRequest());
  for (std::size_t n = 0; n < program.steps.size(); ++n)
    REQUIRE(harness.submit(program, n));
  harness.now += 49us;
  harness.dispatcher->step();
  CHECK(harness.statistics().physicalLaunches == 0);
  harness.now += 1us;
  harness.dispatcher->step();
  CHECK(harness.statistics().physicalLaunches > 0);
}

TEST_CASE("after a request all that is under way leaves, and the first is resumed first") {
  Harness harness(7, {Kind::Guard});
  Program program = Program::launches(8);
  harness.addStreams(program);
  for (std::size_t n = 0; n < 8; ++n)
    REQUIRE(harness.submit(program, n));
  harness.dispatcher->step();
  harness.dispatcher->step();
  CHECK(harness.statistics().physicalLaunches == 8);
  while (harness.device.blocksRun() < 10)
    harness.device.advance();
  harness.now = 5ms;
  REQUIRE(harness.high->beginRequest());
  harness.dispatcher->step();
  while (harness.device.advance()) {
  }
  std::uint64_t ran = harness.device.blocksRun();
  CHECK(ran < 24);
  harness.now = 7ms;
  harness.dispatcher->step();
  harness.dispatcher->step();
  CHECK(harness.statistics().yields == 8);
  CHECK(harness.statistics().turnaroundNanoseconds == std::vector<std::uint64_t>{2000000});
  CHECK(harness.device.blocksRun() == ran);
  REQUIRE(harness.high->endRequest());
  while (!harness.allFinished()) {
    harness.dispatcher->step();
    harness.device.advance();
  }
  CHECK(harness.device.blocksRun() == 8 * 24);
  CHECK((harness.outcome() == runInOrder(program)));
}

TEST_CASE("batches are short for a while after a request") {
  auto sent = [](std::optional<Nanoseconds> requestEnded) {
    Harness harness(12, {Kind::Guard});
    Program program = Program::launches(40);
    harness.addStreams(program);
    if (requestEnded) {
      REQUIRE(harness.high->beginRequest());
      REQUIRE(harness.high->endRequest());
      harness.now += *requestEnded;
    }
    for (std::size_t n = 0; n < program.steps.size(); ++n)
      REQUIRE(harness.submit(program, n));
    for (int i = 0; i < 5; ++i)
      harness.dispatcher->step();
    return harness.statistics().physicalLaunches;
  };
  // Two batches of launches with an estimated duration of 50 us each.
  CHECK(sent({}) == 20);
  CHECK(sent(0us) == 2);
  CHECK(sent(19ms) == 2);
  CHECK(sent(20ms) == 20);
}

TEST_CASE("markers stand beside the work while there is more of it") {
  for (bool apart : {true, false}) {
    Harness harness(13, {Kind::Guard});
    harness.device.streamsAreApart = apart;
    Program program = Program::launches(35);
    harness.addStreams(program);
    std::uint64_t waitsBefore = harness.device.waits();
    for (std::size_t n = 0; n < program.steps.size(); ++n)
      REQUIRE(harness.submit(program, n));
    while (!harness.allFinished()) {
      // A launch that the runtime reports as finished has run all its blocks.
      std::uint64_t ran = harness.device.blocksRun();
      harness.dispatcher->step();
      CHECK(harness.streams[0]->finished.load() * 24 <= ran);
      harness.device.advance();
    }
    // Three batches: the dispatcher knows the launches' durations from the second batch on. No
    // operation follows the last one.
    CHECK(harness.device.waits() - waitsBefore == (apart ? 2 : 0));
    CHECK((harness.outcome() == runInOrder(program)));
  }
}

TEST_CASE("a request in the middle of a batch ends it") {
  Harness harness(11);
  Program program = Program::launches(8);
  harness.addStreams(program);
  for (std::size_t n = 0; n < 8; ++n)
    REQUIRE(harness.submit(program, n));
  int launches = 0;
  harness.device.onLaunch = [&] {
    if (++launches == 3)
      REQUIRE(harness.high->beginRequest());
  };
  harness.dispatcher->step();
  harness.dispatcher->step();
  CHECK(launches == 3);
  REQUIRE(harness.high->endRequest());
  while (!harness.allFinished()) {
    harness.dispatcher->step();
    harness.device.advance();
  }
  CHECK((harness.outcome() == runInOrder(program)));
}

TEST_CASE("launches on a stream open a scope that closes when the stream is idle") {
  Harness harness(8);
  StreamId id = *harness.device.createStream(StreamPriority::High);
  HighStream &stream = **harness.high->adopt(id);
  MixArguments arguments{harness.wordAddress + 8, harness.wordAddress + 8, 1, 1};
  auto launch = [&] {
    REQUIRE(harness.high->beginCall(stream));
    REQUIRE(harness.device.launch(stream.id, harness.kernels[0]->userFunction(),
                                  {{1, 1, 1}, {1, 1, 1}, 0},
                                  std::as_bytes(std::span(&arguments, 1))));
    harness.high->endCall(stream);
  };
  auto step = [&] {
    harness.now += 1ms;
    harness.dispatcher->step();
    return harness.word->snapshot().highPriorityActive;
  };
  launch();
  launch();
  CHECK(harness.word->snapshot().highPriorityActive == 1);
  CHECK(harness.word->currentEpoch() == 1);
  step();
  step();
  CHECK(step() == 1);
  while (harness.device.advance()) {
  }
  CHECK(step() == 1); // the stream is idle, but the next request's first call may be on its way
  CHECK(step() == 0);

  // A call in progress keeps the scope open, even when the device reports an idle stream.
  REQUIRE(harness.high->beginCall(stream));
  step();
  step();
  CHECK(step() == 1);
  harness.high->endCall(stream);
  step();
  step();
  CHECK(step() == 0);

  // Inside a request no scope opens; where the request leaves work behind, a scope follows.
  REQUIRE(harness.high->beginRequest());
  launch();
  CHECK(harness.word->snapshot().highPriorityActive == 1);
  CHECK_FALSE(*harness.high->endRequest());
  CHECK(harness.word->snapshot().highPriorityActive == 1);
  step();
  CHECK(step() == 1);
  while (harness.device.advance()) {
  }
  CHECK(step() == 1);
  CHECK(step() == 0);

  // A request whose work is synchronised closes at once.
  REQUIRE(harness.high->beginRequest());
  launch();
  REQUIRE(harness.high->synchronize(stream));
  CHECK(*harness.high->endRequest());
  CHECK(harness.word->snapshot().highPriorityActive == 0);

  Result<bool> unmatched = harness.high->endRequest();
  REQUIRE_FALSE(unmatched);
  CHECK(unmatched.error().message == "endRequest: no request is open");
}

TEST_CASE("one stream's failure is its own; the device's is everybody's") {
  Harness harness(9);
  Program program;
  program.streams = 4; // 0 and 2 share a lane
  for (std::uint64_t key = 1; key <= 40; ++key)
    program.steps.push_back({Step::Type::Launch, key % 4, 0, 0, 1, {24, 1, 1}, key, 0});
  program.hostIn.resize(program.steps.size());
  harness.device.refusedEntry = "mix_non_preemptible";
  harness.addStreams(program);
  program.steps[11].kernel = 4; // on stream 0
  REQUIRE(program.steps[11].stream == 0);
  for (std::size_t n = 0; n < program.steps.size(); ++n)
    REQUIRE(harness.submit(program, n));
  for (int i = 0; i < 100000 && !harness.allFinished(); ++i) {
    harness.dispatcher->step();
    harness.device.advance();
  }
  REQUIRE(harness.allFinished());
  Result<void> failed = harness.streams[0]->lane.wait(*harness.streams[0]);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message == "mix_non_preemptible: launch: invalid argument");
  CHECK_FALSE(harness.submit(program, 3));
  Outcome expected = runInOrder(program), got = harness.outcome();
  for (std::size_t s = 1; s < 4; ++s) {
    CHECK(harness.streams[s]->lane.wait(*harness.streams[s]));
    CHECK((got.buffers[s] == expected.buffers[s]));
  }
  CHECK((got.buffers[0] != expected.buffers[0]));

  for (std::size_t n = 0; n < 20; ++n)
    if (program.steps[n].stream != 0)
      REQUIRE(harness.submit(program, n));
  harness.device.breakAfter(40, "an illegal memory access was encountered");
  for (int i = 0; i < 1000; ++i) {
    harness.now += 100us;
    harness.dispatcher->step();
    harness.device.advance();
  }
  for (std::size_t s = 1; s < 4; ++s) {
    Result<void> fault = harness.streams[s]->lane.wait(*harness.streams[s]);
    REQUIRE_FALSE(fault);
    CHECK(fault.error().message.find("illegal memory access") != std::string::npos);
  }
  CHECK_FALSE(harness.submit(program, 2));
}

TEST_CASE("a state that was overwritten is found") {
  Harness harness(10, {Kind::Guard});
  Program program;
  program.streams = 1;
  program.steps.push_back({Step::Type::Launch, 0, 0, 0, 1, {24, 1, 1}, 1, 0});
  program.hostIn.resize(1);
  harness.addStreams(program);
  REQUIRE(harness.submit(program, 0));
  // At each poll the launch's state is in device memory.
  harness.device.onPoll = [&](std::uint64_t poll) {
    if (poll == 0)
      REQUIRE(harness.high->beginRequest());
    harness.device.corruptState(1000);
  };
  for (int i = 0; i < 1000 && !harness.streams[0]->failed; ++i) {
    harness.dispatcher->step();
    harness.device.advance();
  }
  Result<void> failed = harness.streams[0]->lane.wait(*harness.streams[0]);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message.find("mix: the launch's state in device memory was overwritten") ==
        0);
}

TEST_CASE("after stopSending() what is under way comes back, and nothing goes out, with inherited "
          "priority or without") {
  std::uint64_t cut = 0, held = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Harness harness(seed);
    harness.device.waitsForWords = seed % 2 == 0;
    Program program = Program::make(harness.random, 1 + seed % 3, 20, 5);
    harness.addStreams(program);
    for (std::size_t next = 0; next < program.steps.size(); ++next)
      REQUIRE(harness.submit(program, next));
    for (std::uint64_t turn = harness.random() % 300; turn > 0; --turn) {
      harness.now += Nanoseconds(harness.random() % 3000);
      harness.random() % 4 == 0 ? harness.dispatcher->step() : harness.device.advance();
    }
    CAPTURE(seed);
    CHECK(!harness.dispatcher->isAtRest());
    std::uint64_t yields = harness.statistics().yields;
    harness.dispatcher->stopSending();
    REQUIRE(harness.high->beginRequest());
    std::uint64_t sent = harness.statistics().physicalLaunches;
    for (int turn = 0; !harness.dispatcher->isAtRest(); ++turn) {
      REQUIRE(turn < 100000);
      harness.device.advance();
      harness.dispatcher->step();
    }
    // The dispatcher resumes the launch that the stream waits for.
    CHECK((harness.device.waitsForWords || harness.statistics().physicalLaunches == sent));
    sent = harness.statistics().physicalLaunches;
    // Only finished work and markers may be left.
    std::uint64_t blocks = harness.device.blocksRun();
    while (harness.device.advance()) {
    }
    CHECK(harness.device.blocksRun() == blocks);
    for (const auto &stream : harness.streams)
      stream->lane.inheritHighPriority(program.steps.size());
    REQUIRE(harness.high->endRequest());
    for (int turn = 0; turn < 50; ++turn) {
      harness.now += Nanoseconds(1000000);
      harness.dispatcher->step();
      CHECK(!harness.device.advance());
    }
    CHECK(harness.statistics().physicalLaunches == sent);
    cut += harness.statistics().yields - yields;
    held += !harness.allFinished();
  }
  CHECK(cut > 0);
  CHECK(held > 20);
}

TEST_CASE("nothing is sent before other processes' activity is known") {
  /// Work arrives right after the look that found no work.
  struct Late final : Neighbours {
    std::function<void()> submit;
    std::atomic<bool> isTold{false};
    void setBusy(bool now) override {
      isTold = now;
      if (!now && submit)
        std::exchange(submit, nullptr)();
    }
    bool isWaitedFor() const override { return false; }
    std::uint64_t waitsElsewhere() const override { return 0; }
    void note(const LaneTotals &) override {}
    void noteTurnaround(Nanoseconds) override {}
  } neighbours;
  Harness harness(1);
  LaneStream stream(**harness.dispatcher->assignLane());
  std::atomic<bool> wasTold{false}, isOver{false};
  neighbours.submit = [&] {
    Operation operation;
    operation.type = Operation::Type::Call;
    operation.stream = &stream;
    operation.call = [&] {
      wasTold = neighbours.isTold.load();
      isOver = true;
    };
    REQUIRE(stream.lane.submit(std::move(operation)));
  };
  harness.dispatcher->setNeighbours(&neighbours);
  harness.dispatcher->start();
  while (!isOver)
    std::this_thread::yield();
  CHECK(wasTold);
  harness.dispatcher->close();
}
