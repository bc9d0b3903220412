// Launches behind a stream that the device cannot wait for, held up for a while or for ever.
#include "fake_device.h"
#include "lane/lane.h"

#include <doctest/doctest.h>

using namespace tally;
using namespace tally::runtime;

namespace {

class OpenGate final : public runtime::Gate {
public:
  std::optional<Permit> permit(std::uint32_t) const override { return Permit{1, {}, false}; }
  std::size_t lanesUnderWay() const override { return 1; }
  void expectOthers() const override {}
  void expectPausing() const override {}
  Nanoseconds nonPreemptibleLeft() const override { return Nanoseconds{0}; }
  bool isClosed() const override { return false; }
  std::uint64_t currentEpoch() const override { return 1; }
};

struct Fixture {
  Headroom headroom; // of a device on which no work pauses
  Fixture() {
    LaneOptions options;
    options.clock = [] { return Nanoseconds{0}; };
    options.headroom = &headroom;
    auto made = Lane::create(device, std::move(options));
    REQUIRE(made);
    lane = std::move(*made);
    order.emplace(*lane);
    behind = *device.createStream(StreamPriority::High);
  }
  /// Submits a launch behind `ordered` that adds to `ran`.
  void submit(std::optional<StreamId> ordered) {
    Operation operation;
    operation.stream = &*order;
    operation.launchUserKernel = [this](StreamId) { ++ran; };
    operation.launchFailed = [this](const Error &) { ++failed; };
    operation.ordered = ordered;
    REQUIRE(lane->submit(std::move(operation)));
  }
  void run() {
    for (int i = 0; i < 8; ++i) {
      lane->step(gate);
      while (device.advance()) {
      }
    }
  }
  FakeDevice device{1};
  OpenGate gate;
  std::unique_ptr<Lane> lane;
  std::optional<LaneStream> order;
  StreamId behind{};
  int ran = 0, failed = 0;
};

} // namespace

TEST_CASE("a launch whose stream is held up goes out later") {
  Fixture f;
  f.device.unwaitable = f.behind;
  f.device.holdsUp = true;
  f.submit(std::nullopt);
  f.submit(f.behind);
  f.submit(std::nullopt);
  f.run();
  CHECK(f.ran == 1);
  CHECK(f.failed == 0);
  CHECK(f.lane->hasWork());
  f.device.unwaitable.reset();
  f.run();
  CHECK(f.ran == 3);
  CHECK(!f.lane->hasWork());
}

TEST_CASE("a launch whose stream cannot be waited for fails alone") {
  Fixture f;
  f.device.unwaitable = f.behind;
  f.submit(f.behind);
  f.submit(std::nullopt);
  f.run();
  CHECK(f.failed == 1);
  CHECK(f.ran == 1);
  CHECK(!f.order->failed);
  CHECK(!f.lane->hasWork());
}
