// Late puts (records of events): later operations go ahead of them, and the puts are made once all
// earlier operations are done. The defects that it guards against: an event is seen before the end
// of an earlier launch that yielded, or of a launch after a yield; a put is never made; a put holds
// up later operations.
#include "harness.h"

#include <map>

using namespace tally;
using namespace tally::runtime;

namespace {

constexpr std::size_t nonPreemptibleKernel = 4;

/// Launches, copies and kernels that cannot yield; a record follows each with some probability.
struct Recorded {
  Program program;
  std::vector<bool> isFollowed; ///< by step: whether a record follows it

  static Recorded make(std::uint64_t seed, std::size_t length) {
    Recorded made;
    made.program.streams = 1;
    for (std::uint64_t n = 0; n < length; ++n) {
      std::uint64_t what = mixed(seed * 1000 + n) % 12;
      Step step{Step::Type::Launch, 0, 0, n % 2, (n + 1) % 2, {6, 4, 1}, mixed(seed + n * 77), n};
      if (what == 0)
        step.type = Step::Type::CopyOut;
      else if (what == 1)
        step.kernel = nonPreemptibleKernel;
      made.program.steps.push_back(step);
      made.program.hostIn.emplace_back(Program::words);
      made.isFollowed.push_back(mixed(seed * 31 + n) % 3 != 0);
    }
    return made;
  }
};

/// Checks that records are seen only after all operations submitted before them.
class Watcher {
public:
  Watcher(Harness &harness, const Recorded &recorded)
      : harness(harness), recorded(recorded), expected(runInOrder(recorded.program)),
        seen(recorded.program.steps.size()), isSeen(seen.size()) {
    marker = *harness.device.allocate(8);
    std::uint64_t one = 1;
    std::memcpy(reinterpret_cast<void *>(marker), &one, 8);
    harness.device.onStepsBlock = [this](std::uint64_t key) { ++blocks[key]; };
    harness.device.onLaunch = [this] { ++launches; };
  }

  void submitAll() {
    harness.addStreams(recorded.program);
    StreamId applications = *harness.device.createStream(StreamPriority::Low);
    std::uint64_t before = 0;
    for (std::size_t n = 0; n < seen.size(); ++n) {
      REQUIRE(harness.submit(recorded.program, n));
      before += recorded.program.steps[n].type == Step::Type::Launch ? 1 : 0;
      if (!recorded.isFollowed[n])
        continue;
      Operation record;
      record.type = Operation::Type::Put;
      record.mayBeLate = true;
      record.stream = harness.streams[0].get();
      record.ordered = applications;
      record.put = [this, n, before](StreamId on) {
        ++made;
        late += launches > before ? 1 : 0;
        auto to = std::as_writable_bytes(std::span(&seen[n], 1));
        REQUIRE(harness.device.copyToHost(on, to, marker));
        return true;
      };
      REQUIRE(harness.streams[0]->lane.submit(std::move(record)));
      ++records;
    }
  }

  bool isOver() const { return over == records; }
  /// Called after each step of the device.
  void look() {
    for (std::size_t n = 0; n < seen.size(); ++n)
      if (seen[n] != 0 && !isSeen[n]) {
        isSeen[n] = true;
        ++over;
        isRight = isRight && isDoneUpTo(n);
      }
  }

  std::uint64_t records = 0, made = 0, late = 0; ///< submitted; put; put after later operations
  bool isRight = true;

private:
  bool isDoneUpTo(std::size_t last) {
    for (std::size_t n = 0; n <= last; ++n) {
      const Step &step = recorded.program.steps[n];
      if (step.type == Step::Type::Launch ? blocks[step.key] != step.grid.count()
                                          : harness.hostOut[n] != expected.hostOut[n])
        return false;
    }
    return true;
  }

  Harness &harness;
  const Recorded &recorded;
  Outcome expected;
  DevicePtr marker = 0;
  std::vector<std::uint64_t> seen;
  std::vector<bool> isSeen;
  std::map<std::uint64_t, std::uint64_t> blocks; ///< number of blocks that have run, by step's key
  std::uint64_t launches = 0, over = 0;
};

} // namespace

TEST_CASE("records behind launches, with a request at each poll") {
  for (bool waits : {false, true})
    for (Kind kind : {Kind::Guard, Kind::Persistent, Kind::Checkpoint}) {
      std::uint64_t late = 0, yields = 0, records = 0, last = 0;
      for (std::uint64_t raisedAt = 0; raisedAt <= last + 1 && raisedAt < 600; raisedAt += oneIn) {
        Recorded recorded = Recorded::make(raisedAt % 5, 12);
        Harness harness(raisedAt + 1, {kind});
        harness.device.waitsForWords = waits;
        harness.device.streamsAreApart = raisedAt % 2 == 0;
        Watcher watcher(harness, recorded);
        int turnsLeft = -1; // of the request
        harness.device.onPoll = [&](std::uint64_t poll) {
          last = std::max(last, poll);
          if (poll != raisedAt)
            return;
          turnsLeft = static_cast<int>(raisedAt % 40);
          REQUIRE(harness.high->beginRequest());
        };
        watcher.submitAll();
        for (int i = 0; i < 100000 && !(watcher.isOver() && harness.allFinished()); ++i) {
          if (turnsLeft >= 0 && turnsLeft-- == 0)
            REQUIRE(harness.high->endRequest());
          harness.now += Nanoseconds(100);
          harness.dispatcher->step();
          harness.device.advance();
          watcher.look();
        }
        if (turnsLeft >= 0)
          REQUIRE(harness.high->endRequest());
        CAPTURE(raisedAt);
        CAPTURE(name(kind));
        CAPTURE(waits);
        CHECK(watcher.isRight);
        CHECK(watcher.isOver());
        CHECK(watcher.made == watcher.records);
        CHECK(harness.outcome() == runInOrder(recorded.program));
        late += watcher.late;
        records += watcher.records;
        yields += harness.statistics().yields;
      }
      CHECK(last > 100);
      CHECK(yields > last / (2 * oneIn));
      CHECK(late > records / 4);
    }
}

TEST_CASE("records of random programs, while requests come and go") {
  std::uint64_t late = 0;
  for (std::uint64_t seed = 1; seed <= 300; seed += oneIn) {
    Recorded recorded = Recorded::make(seed, 30);
    Harness harness(seed, {Kind::Persistent, Kind::Guard, Kind::Checkpoint, Kind::Slice});
    harness.device.waitsForWords = seed % 2 == 0;
    Watcher watcher(harness, recorded);
    bool open = false;
    auto turnOver = [&] {
      if (open)
        REQUIRE(harness.high->endRequest());
      else
        REQUIRE(harness.high->beginRequest());
      open = !open;
    };
    harness.device.onPoll = [&](std::uint64_t) {
      if (harness.random() % (open ? 3 : 25) == 0)
        turnOver();
    };
    watcher.submitAll();
    for (int i = 0; i < 100000 && !(watcher.isOver() && harness.allFinished()); ++i) {
      if (open && harness.random() % 20 == 0)
        turnOver();
      harness.now += Nanoseconds(harness.random() % 3000);
      harness.dispatcher->step();
      harness.device.advance();
      watcher.look();
    }
    if (open)
      turnOver();
    CAPTURE(seed);
    CHECK(watcher.isRight);
    CHECK(watcher.isOver());
    CHECK(harness.outcome() == runInOrder(recorded.program));
    late += watcher.late;
  }
  CHECK(late > 300 / oneIn);
}

TEST_CASE("a put without anything to put is an order, and over when all before it is") {
  Harness harness(1, {Kind::Persistent});
  Program program = Program::launches(6);
  harness.addStreams(program);
  std::vector<std::uint64_t> numbers;
  for (std::size_t n = 0; n < program.steps.size(); ++n) {
    REQUIRE(harness.submit(program, n));
    Operation order;
    order.type = Operation::Type::Put;
    order.mayBeLate = true;
    order.stream = harness.streams[0].get();
    numbers.push_back(*harness.streams[0]->lane.submit(std::move(order)));
  }
  for (int i = 0; i < 100000 && !harness.allFinished(); ++i) {
    harness.now += Nanoseconds(100);
    harness.dispatcher->step();
    harness.device.advance();
    for (std::uint64_t number : numbers)
      if (harness.streams[0]->lane.isOver(number))
        CHECK(harness.streams[0]->finished.load() >= number);
  }
  CHECK(harness.allFinished());
  CHECK(harness.outcome() == runInOrder(program));
}
