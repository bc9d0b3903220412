// A chain of dependent kernels, sent ahead, with the request raised and withdrawn at every poll.
//
// The defect that it guards against: K1 yields in part, the request is withdrawn, and K2, which was
// already sent, runs on K1's half result. Built with TALLY_PLANT_CLEARED_CONTROL_WORD, the request
// is a flag that is cleared and not an epoch that grows; then the test must fail. See
// CMakeLists.txt.
#include "harness.h"

using namespace tally;
using namespace tally::runtime;

namespace {

constexpr std::size_t chainLength = 6;

Program chain() {
  Program program;
  program.streams = 1;
  for (std::uint64_t i = 0; i < chainLength; ++i)
    program.steps.push_back({Step::Type::Launch, 0, 0, i % 2, (i + 1) % 2, {6, 4, 1}, mixed(i), 0});
  program.hostIn.resize(program.steps.size());
  return program;
}

/// Runs the chain, and calls `onPoll` before each poll. Returns whether the result is the
/// sequential one.
template <class OnPoll>
bool runChain(Harness &harness, const Program &program, const OnPoll &onPoll, bool &open) {
  harness.addStreams(program);
  for (std::size_t n = 0; n < program.steps.size(); ++n)
    REQUIRE(harness.submit(program, n));
  harness.device.onPoll = [&](std::uint64_t poll) { onPoll(poll); };
  for (int turn = 0; turn < 100000 && !harness.allFinished(); ++turn) {
    harness.now += Nanoseconds(100);
    bool progress = harness.dispatcher->step();
    progress = harness.device.advance() || progress;
    // No running work can poll: no work waits for the end of the request.
    if (!progress && open) {
      open = false;
      REQUIRE(harness.high->endRequest());
    }
  }
  if (open)
    REQUIRE(harness.high->endRequest());
  return harness.allFinished() && !harness.streams[0]->failed &&
         harness.outcome() == runInOrder(program);
}

} // namespace

TEST_CASE("the request raised at each poll and withdrawn at the next") {
  Program program = chain();
  for (Kind kind : {Kind::Guard, Kind::Persistent, Kind::Checkpoint}) {
    std::uint64_t yields = 0, last = 0;
    for (std::uint64_t raisedAt = 0; raisedAt <= last + 1 && raisedAt < 1000; raisedAt += oneIn) {
      Harness harness(raisedAt + 1, {kind});
      bool open = false;
      auto onPoll = [&](std::uint64_t poll) {
        last = std::max(last, poll);
        if (poll == raisedAt) {
          open = true;
          REQUIRE(harness.high->beginRequest());
        } else if (poll == raisedAt + 1 && open) {
          open = false;
          REQUIRE(harness.high->endRequest());
        }
      };
      bool right = runChain(harness, program, onPoll, open);
      CAPTURE(raisedAt);
      CHECK_MESSAGE(right, "the chain computed a wrong result");
      yields += harness.statistics().yields;
    }
    CHECK(last >= 24 * chainLength);
    CHECK(yields > last / oneIn);
  }
}

TEST_CASE("the request raised and withdrawn at random polls") {
  Program program = chain();
  std::uint64_t yields = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Harness harness(seed, {seed % 2 == 0 ? Kind::Guard : Kind::Persistent});
    bool open = false;
    auto onPoll = [&](std::uint64_t) {
      if (harness.random() % (open ? 3 : 40) != 0)
        return;
      if (!open)
        REQUIRE(harness.high->beginRequest());
      else
        REQUIRE(harness.high->endRequest());
      open = !open;
    };
    bool right = runChain(harness, program, onPoll, open);
    CAPTURE(seed);
    CHECK_MESSAGE(right, "the chain computed a wrong result");
    yields += harness.statistics().yields;
  }
  CHECK(yields > 300);
}
