// Which thread frees what a finished operation holds, and that operations are used again.
#include "fake_device.h"
#include "lane/lane.h"
#include "lane/lane_queue.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

using namespace tally;
using namespace tally::runtime;

namespace {

using Held = std::weak_ptr<const void>;

struct Fixture {
  Fixture() {
    LaneOptions options;
    options.clock = clock;
    options.headroom = &headroom;
    auto made = Lane::create(device, std::move(options));
    REQUIRE(made);
    lane = std::move(*made);
    stream.emplace(*lane);
  }
  /// Returns what the operation holds.
  Held submit(Operation::Type type, bool mayBeFreedLate) {
    auto held = std::make_shared<const int>(1);
    Operation operation;
    operation.type = type;
    operation.stream = &*stream;
    operation.mayBeFreedLate = mayBeFreedLate;
    operation.uses = held;
    REQUIRE(queue.submit(std::move(operation)));
    return held;
  }
  /// The dispatcher's part: finishes all operations.
  void finish() {
    queue.take(pending);
    for (std::unique_ptr<Operation> &each : pending) {
      last = each.get();
      queue.finish(std::move(each));
    }
    pending.clear();
    queue.publish();
  }
  ClockFunction clock = [] { return Nanoseconds{0}; };
  LaneQueue queue{clock};
  FakeDevice device{1};
  Headroom headroom;
  std::unique_ptr<Lane> lane;       ///< of the stream
  std::optional<LaneStream> stream; ///< of the operations, which go to `queue` alone
  LaneQueue::Operations pending;
  const Operation *last = nullptr; ///< the address of the last finished operation
};

} // namespace

TEST_CASE("what an operation holds is freed when it is over") {
  Fixture f;
  for (Operation::Type type :
       {Operation::Type::Put, Operation::Type::Call, Operation::Type::Launch}) {
    Held held = f.submit(type, false);
    CHECK_FALSE(held.expired());
    f.finish();
    CHECK(held.expired());
  }
  Held ofPut = f.submit(Operation::Type::Put, true);
  f.finish();
  CHECK(ofPut.expired());
}

TEST_CASE("a thread that submits frees what a launch holds, and uses the operation again") {
  Fixture f;
  Held held = f.submit(Operation::Type::Launch, true);
  f.finish();
  CHECK_FALSE(held.expired());
  const Operation *before = f.last;
  Held next = f.submit(Operation::Type::Put, false);
  CHECK(held.expired());
  CHECK_FALSE(next.expired());
  f.finish();
  CHECK(f.last == before);
}

TEST_CASE("few finished launches are kept") {
  Fixture f;
  std::vector<Held> held;
  for (int i = 0; i < 1000; ++i)
    held.push_back(f.submit(Operation::Type::Launch, true));
  f.finish();
  for (int i = 0; i < 1000; ++i) {
    f.submit(Operation::Type::Launch, true);
    f.finish();
  }
  CHECK(std::ranges::count_if(held, [](const Held &each) { return !each.expired(); }) <= 256);
}
