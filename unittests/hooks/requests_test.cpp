// Requests that a program names: best-effort work stands aside exactly from the begin to the end.
#include "../support/files.h"
#include "../support/variable.h"
#include "harness.h"

#include "tally/runtime/arena_status.h"

#include <algorithm>
#include <set>

using namespace tally;
using namespace tally::test;
using namespace std::chrono_literals;

namespace {

struct Requests : Harness {
  explicit Requests(bool joinsArena = false)
      : Harness(false, 0, hooks::Settings().variants.kinds, joinsArena) {}

  std::uint64_t begin(cudaStream_t stream, std::chrono::nanoseconds deadline = 0ns) {
    std::uint64_t made = 0;
    CHECK(hooks.requests().begin(cuda.api(), stream, "name", deadline, &made) == cudaSuccess);
    CHECK(made != 0);
    return made;
  }
  cudaError_t refusal(cudaStream_t stream) {
    std::uint64_t made = 0;
    cudaError_t status = hooks.requests().begin(cuda.api(), stream, nullptr, 0ns, &made);
    CHECK(made == 0);
    return status;
  }
  cudaError_t add(std::uint64_t request, cudaStream_t stream) {
    return hooks.requests().add(cuda.api(), request, stream);
  }
  cudaError_t end(std::uint64_t request) { return hooks.requests().end(request); }
  /// Returns whether no best-effort work starts although some is queued.
  bool isHeldBack(const std::uint64_t &cell) {
    std::uint64_t before = cell;
    std::this_thread::sleep_for(5ms);
    return cell == before;
  }
};

/// A process in an arena, and the arena's data about it.
struct Place {
  TemporaryFolder folder;
  Variable arena{"TALLY_ARENA", folder.file("arena")};

  runtime::ClientStatus high() const {
    auto status = runtime::readArenaStatus(folder.file("arena"));
    if (status)
      for (const runtime::ClientStatus &each : status->clients)
        if (each.clientClass == runtime::Class::High)
          return each;
    return {};
  }
};

} // namespace

TEST_CASE("best-effort work yields at the begin, stays away with nothing on the device, goes on") {
  Requests h;
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  std::uint64_t cell = 0;
  h.gated = true;
  h.launch(low, &cell, 7, 4);
  h.gate.arrived(); // one block has started
  std::uint64_t request = h.begin(high);
  h.settleRequest();
  h.gate.open();
  CHECK(eventually([&] { return h.hooks.totals().yields == 1; }));
  CHECK(h.isHeldBack(cell));
  CHECK(cell == Harness::mixed(0, 7, 1));
  h.launch(low, &cell, 8, 2);
  CHECK(h.isHeldBack(cell));
  CHECK(h.end(request) == cudaSuccess);
  CHECK(eventually([&] { return cell == Harness::mixed(Harness::mixed(0, 7, 4), 8, 2); }));
  CHECK(h.synchronize(low) == cudaSuccess);
}

TEST_CASE("requests nest and overlap, on one stream and on several, begun and ended anywhere") {
  Requests h;
  cudaStream_t low = h.stream(0), high = h.stream(-1), other = h.stream(-1);
  std::uint64_t cell = 0;
  std::uint64_t first = h.begin(high), second = 0, third = 0;
  std::thread([&] { second = h.begin(high); }).join();
  third = h.begin(other);
  CHECK(std::set<std::uint64_t>{first, second, third}.size() == 3);
  CHECK(h.add(first, other) == cudaSuccess);
  CHECK(h.add(first, other) == cudaSuccess);
  h.launch(low, &cell, 3, 2);
  CHECK(h.isHeldBack(cell));
  std::thread([&] { CHECK(h.end(first) == cudaSuccess); }).join();
  CHECK(h.isHeldBack(cell));
  CHECK(h.end(third) == cudaSuccess);
  CHECK(h.isHeldBack(cell));
  CHECK(cell == 0);
  CHECK(h.end(second) == cudaSuccess);
  CHECK(eventually([&] { return cell == Harness::mixed(0, 3, 2); }));
}

TEST_CASE("a request that was open before there was best-effort work holds it back too") {
  Requests h;
  std::uint64_t cell = 0;
  cudaStream_t high = h.stream(-1);
  std::uint64_t request = h.begin(high), gone = h.begin(high);
  CHECK(h.end(gone) == cudaSuccess);
  CHECK(!h.hooks.served().engine());
  cudaStream_t low = h.stream(0);
  h.launch(low, &cell, 3, 2);
  CHECK(h.hooks.served().engine());
  CHECK(h.isHeldBack(cell));
  CHECK(cell == 0);
  CHECK(h.end(request) == cudaSuccess);
  CHECK(eventually([&] { return cell == Harness::mixed(0, 3, 2); }));
}

TEST_CASE("a wait for a stream, for an event or for the device ends a busy time") {
  Requests h;
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  std::uint64_t lowCell = 0, cell = 0;
  h.launch(low, &lowCell, 1, 1); // starts the engine
  CHECK(h.synchronize(low) == cudaSuccess);
  runtime::HighWaits &waits = h.hooks.served().activity()->scopes().waits();
  CHECK(waits.count() == 0); // that was best-effort work
  cudaEvent_t event = h.event();
  // The dispatcher's thread may see the stream idle as well.
  auto isCounted = [&](auto wait) {
    std::uint64_t before = waits.count();
    CHECK(h.launch(high, &cell, 1, 1, &Harness::plainSymbol) == cudaSuccess);
    h.record(event, high);
    CHECK(wait() == cudaSuccess);
    return waits.count() > before;
  };
  CHECK(isCounted([&] { return h.hooks.events().synchronize(h.cuda.api(), event); }));
  CHECK(isCounted([&] { return h.hooks.synchronizeDevice(h.cuda.api()); }));
  CHECK(isCounted([&] { return h.synchronize(high); }));
  std::uint64_t all = waits.count();
  CHECK(h.synchronize(high) == cudaSuccess); // nothing new
  // A thread without high-priority work waits for something else.
  std::thread([&] { CHECK(h.hooks.synchronizeDevice(h.cuda.api()) == cudaSuccess); }).join();
  CHECK(waits.count() == all);
}

TEST_CASE("default streams are named as others are") {
  Requests h;
  cudaStream_t low = h.stream(0), apart = h.stream(-1);
  CHECK(h.hooks.streams().setClass(h.cuda.api(), apart, false) == cudaSuccess);
  for (cudaStream_t each : {cudaStream_t(nullptr), cudaStreamLegacy, cudaStreamPerThread}) {
    std::uint64_t cell = 0;
    std::uint64_t request = h.begin(each);
    h.launch(low, &cell, 3, 2);
    CHECK(h.isHeldBack(cell));
    CHECK(cell == 0);
    CHECK(h.end(request) == cudaSuccess);
    CHECK(eventually([&] { return cell == Harness::mixed(0, 3, 2); }));
    CHECK(h.synchronize(low) == cudaSuccess);
  }
}

TEST_CASE("what is wrong is said, and changes nothing") {
  Requests h;
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  std::uint64_t cell = 0;
  CHECK(h.refusal(low) == cudaErrorNotPermitted);
  CHECK(h.end(0) == cudaErrorInvalidResourceHandle);
  CHECK(h.end(77) == cudaErrorInvalidResourceHandle);
  CHECK(h.end(~std::uint64_t{0}) == cudaErrorInvalidResourceHandle);
  CHECK(h.add(77, high) == cudaErrorInvalidResourceHandle);
  std::uint64_t request = h.begin(high), other = h.begin(high);
  CHECK(h.add(request, low) == cudaErrorNotPermitted);
  CHECK(h.end(request) == cudaSuccess);
  CHECK(h.end(request) == cudaErrorInvalidResourceHandle);
  CHECK(h.add(request, high) == cudaErrorInvalidResourceHandle);
  // Its record is another's now.
  std::uint64_t later = h.begin(high);
  CHECK(h.end(request) == cudaErrorInvalidResourceHandle);
  h.launch(low, &cell, 3, 2);
  CHECK(h.isHeldBack(cell));
  CHECK(cell == 0);
  CHECK(h.end(other) == cudaSuccess);
  CHECK(h.end(later) == cudaSuccess);
  CHECK(eventually([&] { return cell == Harness::mixed(0, 3, 2); }));

  FakeCuda::currentDevice() = 1;
  h.hooks.streams().contextChanged();
  CHECK(h.refusal(nullptr) == cudaErrorInvalidDevice);
  FakeCuda::currentDevice() = 0;
  h.hooks.streams().contextChanged();
}

TEST_CASE("in a process of best effort no stream has requests") {
  Harness h(true);
  std::uint64_t made = 0, cell = 0;
  for (cudaStream_t each : {cudaStream_t(nullptr), cudaStreamPerThread, h.stream(-1)})
    CHECK(h.hooks.requests().begin(h.cuda.api(), each, nullptr, 0ns, &made) ==
          cudaErrorNotPermitted);
  h.launch(nullptr, &cell, 3, 2);
  CHECK(h.synchronize(nullptr) == cudaSuccess);
  CHECK(cell == Harness::mixed(0, 3, 2));
}

TEST_CASE("65,536 may be open, one more is refused, and the next one after an end is not") {
  Requests h;
  cudaStream_t high = h.stream(-1);
  h.stream(0);
  std::vector<std::uint64_t> open;
  for (std::uint32_t i = 0; i < hooks::Requests::mostOpen; ++i)
    open.push_back(h.begin(high));
  CHECK(h.refusal(high) == cudaErrorMemoryAllocation);
  CHECK(h.end(open.back()) == cudaSuccess);
  open.back() = h.begin(high);
  CHECK(std::set<std::uint64_t>(open.begin(), open.end()).size() == open.size());
  for (std::uint64_t each : open)
    CHECK(h.end(each) == cudaSuccess);
}

TEST_CASE("what a request's thread waits for of best-effort work does not stand aside for it") {
  Requests h;
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  std::uint64_t cell = 0;
  std::uint64_t request = 0;
  SUBCASE("the thread that began it, whatever it has queued since") {
    request = h.begin(high);
    h.launch(low, &cell, 3, 2);
    CHECK(h.synchronize(low) == cudaSuccess);
  }
  SUBCASE("one that it was handed to, which has put nothing on any stream") {
    h.launch(low, &cell, 3, 2);
    std::thread([&] { request = h.begin(high); }).join();
    std::thread([&] { CHECK(h.hooks.synchronizeDevice(h.cuda.api()) == cudaSuccess); }).join();
  }
  SUBCASE("one that it was handed to, which has given it a stream") {
    std::thread([&] { request = h.begin(high); }).join();
    h.launch(low, &cell, 3, 2);
    CHECK(h.add(request, high) == cudaSuccess);
    CHECK(h.synchronize(low) == cudaSuccess);
  }
  CHECK(cell == Harness::mixed(0, 3, 2));
  CHECK(h.end(request) == cudaSuccess);
}

TEST_CASE("a thread of best effort waits until a request of another thread is over") {
  Requests h;
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  std::uint64_t cell = 0;
  std::uint64_t request = h.begin(high);
  std::atomic<bool> isDone{false};
  std::thread trainer([&] {
    h.launch(low, &cell, 3, 2);
    CHECK(h.synchronize(low) == cudaSuccess);
    isDone = true;
  });
  std::this_thread::sleep_for(10ms);
  CHECK(!isDone);
  CHECK(cell == 0);
  CHECK(h.end(request) == cudaSuccess);
  trainer.join();
  CHECK(cell == Harness::mixed(0, 3, 2));
}

TEST_CASE("an end is exact however the program has waited, and nothing is added to it") {
  Place place;
  Requests h(true);
  cudaStream_t low = h.stream(0), high = h.stream(-1), second = h.stream(-1);
  std::uint64_t ignored = 0;
  h.launch(low, &ignored, 1); // the process has an engine, so another thread may wait
  CHECK(h.synchronize(low) == cudaSuccess);
  cudaEvent_t event = h.event();
  bool launchesBefore = false;
  std::function<void()> wait;
  SUBCASE("for the stream") {
    wait = [&] { CHECK(h.synchronize(high) == cudaSuccess); };
  }
  SUBCASE("for an event") {
    wait = [&] {
      h.record(event, high);
      CHECK(h.hooks.events().synchronize(h.cuda.api(), event) == cudaSuccess);
    };
  }
  SUBCASE("for the device") {
    wait = [&] { CHECK(h.hooks.synchronizeDevice(h.cuda.api()) == cudaSuccess); };
  }
  SUBCASE("with a launch that came before the begin") {
    launchesBefore = true;
    wait = [&] { CHECK(h.synchronize(high) == cudaSuccess); };
  }
  SUBCASE("with a second stream") {
    wait = [&] {
      h.launch(second, &ignored, 1, 1, &Harness::plainSymbol);
      h.cuda.api().cudaStreamSynchronize(second); // as a library may
      CHECK(h.synchronize(high) == cudaSuccess);
    };
  }
  for (int i = 0; i < 50; ++i) {
    CHECK(eventually([&] { return place.high().openScopes == 0; }));
    if (launchesBefore)
      h.launch(high, &ignored, 1, 1, &Harness::plainSymbol);
    std::uint64_t request = h.begin(high);
    CHECK(h.add(request, second) == cudaSuccess);
    h.launch(high, &ignored, 1, 1, &Harness::plainSymbol);
    CHECK(place.high().openScopes != 0);
    wait();
    CHECK(h.end(request) == cudaSuccess);
    CHECK(place.high().openScopes == 0);
  }
}

TEST_CASE("what a request leaves behind stays protected until it is done, and leaves no error") {
  Requests h;
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  std::uint64_t cell = 0, ignored = 0;
  h.launch(low, &ignored, 1);
  CHECK(h.synchronize(low) == cudaSuccess);
  h.holdPlain();
  std::uint64_t request = h.begin(high);
  h.launch(high, &ignored, 1, 1, &Harness::plainSymbol);
  h.highGate.arrived();
  h.launch(low, &cell, 3, 2);
  h.cuda.api().cudaGetLastError();
  CHECK(h.end(request) == cudaSuccess);
  CHECK(h.cuda.api().cudaGetLastError() == cudaSuccess);
  CHECK(h.isHeldBack(cell));
  CHECK(cell == 0);
  // An error that the program has not read yet stays.
  request = h.begin(high);
  FakeCuda::failed(cudaErrorInvalidValue);
  CHECK(h.end(request) == cudaSuccess);
  CHECK(h.cuda.api().cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(h.isHeldBack(cell));
  h.highGate.open();
  CHECK(eventually([&] { return cell == Harness::mixed(0, 3, 2); }));
}

TEST_CASE("requests are counted with what they took, and missed deadlines") {
  Place place;
  Requests h(true);
  cudaStream_t high = h.stream(-1);
  std::uint64_t ignored = 0;
  h.launch(high, &ignored, 1, 1, &Harness::plainSymbol); // joins
  // The arena shows a process's begin shortly after the process has its slot.
  CHECK(eventually([&] {
    static_cast<void>(h.end(h.begin(high, 10s)));
    return place.high().requests != 0;
  }));
  runtime::ClientStatus before = place.high();
  std::vector<double> own;
  for (int i = 0; i < 100; ++i) {
    auto begun = std::chrono::steady_clock::now();
    std::uint64_t request = h.begin(high, i % 10 == 0 ? 1us : 10s);
    std::this_thread::sleep_for(std::chrono::microseconds(50 + 20 * i));
    CHECK(h.end(request) == cudaSuccess);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    own.push_back(took.count());
  }
  std::sort(own.begin(), own.end());
  runtime::ClientStatus seen = place.high();
  auto times = seen.requestTime.since(before.requestTime);
  CHECK(seen.requests - before.requests == 100);
  CHECK(times.count() == 100);
  CHECK(seen.missedDeadlines == 10);
  for (double fraction : {0.5, 0.9, 0.99}) {
    double exact = own[static_cast<std::size_t>(fraction * 100)];
    double shown = std::chrono::duration<double>(*times.quantile(fraction)).count();
    CHECK(shown == doctest::Approx(exact).epsilon(0.02));
  }
}

TEST_CASE("many threads begin and end, each its own and each other's") {
  Place place;
  Requests h(true);
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  std::uint64_t ignored = 0, cell = 0;
  h.launch(high, &ignored, 1, 1, &Harness::plainSymbol);
  CHECK(eventually([&] { return place.high().pid != 0; }));
  std::uint64_t before = place.high().requests;
  constexpr int threads = 4, rounds = 2000;
  std::array<std::atomic<std::uint64_t>, threads> handedOver{};
  std::atomic<int> ended{0}, twice{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      for (int i = 0; i < rounds; ++i) {
        std::uint64_t made = 0;
        h.hooks.requests().begin(h.cuda.api(), high, nullptr, 0ns, &made);
        std::uint64_t other =
            handedOver[static_cast<std::size_t>((t + i) % threads)].exchange(made);
        if (other == 0)
          continue;
        ended += h.hooks.requests().end(other) == cudaSuccess;
        twice += h.hooks.requests().end(other) == cudaSuccess;
      }
    });
  for (std::thread &each : all)
    each.join();
  for (auto &each : handedOver)
    if (std::uint64_t left = each.exchange(0))
      ended += h.hooks.requests().end(left) == cudaSuccess;
  CHECK(ended == threads * rounds);
  CHECK(twice == 0);
  CHECK(place.high().requests == before + threads * rounds);
  CHECK(place.high().requestTime.count() == before + threads * rounds);
  CHECK(h.synchronize(high) == cudaSuccess);
  CHECK(eventually([&] { return place.high().openScopes == 0; }));
  h.launch(low, &cell, 3, 2);
  CHECK(h.synchronize(low) == cudaSuccess);
}

TEST_CASE("a request that is open when the device is reset ends, and counts no more") {
  Requests h;
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  std::uint64_t cell = 0;
  h.launch(low, &cell, 1);
  CHECK(h.synchronize(low) == cudaSuccess);
  std::uint64_t request = h.begin(high);
  CHECK(h.hooks.resetDevice(h.cuda.api()) == cudaSuccess);
  low = h.stream(0);
  high = h.stream(-1);
  cell = 0;
  h.launch(low, &cell, 3, 2);
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(cell == Harness::mixed(0, 3, 2));
  CHECK(h.end(request) == cudaSuccess);
}
