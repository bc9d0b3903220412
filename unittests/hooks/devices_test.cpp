// A process that uses two devices: the hooks serve the device of its first work and pass calls for
// the other one through. No work or state of one device reaches the other.
#include "harness.h"

using namespace tally;
using namespace tally::test;

namespace {

struct TwoDevices : Harness {
  explicit TwoDevices(bool bestEffort) : Harness(bestEffort) {}
  ~TwoDevices() { use(0); }
  void use(int device) { CHECK(hooks.streams().setDevice(cuda.api(), device) == cudaSuccess); }
  cudaStream_t streamOn(int device, int priority = 0) {
    use(device);
    return stream(priority);
  }
  std::set<int> devicesOf(const std::string &kernel) {
    cuda.settle();
    std::unique_lock lock(cuda.mutex);
    return cuda.devicesOf[kernel];
  }
  std::set<int> devicesOfVariants() {
    std::set<int> all;
    for (const char *name : {"mix$tally_guard", "mix$tally_guard_resume", "mix$tally_persistent"})
      all.merge(devicesOf(name));
    return all;
  }
  std::uint64_t throughVariants() { return hooks.totals().throughVariants; }
};

} // namespace

TEST_CASE("best-effort kernels of another device run there, cannot yield, and the queue goes on") {
  TwoDevices h(true);
  cudaStream_t first = h.streamOn(0), second = h.streamOn(1);
  std::uint64_t a = 0, b = 0, wantedA = 0, wantedB = 0;
  for (std::uint32_t i = 1; i < 20; ++i) {
    h.use(0);
    CHECK(h.launch(first, &a, i, 3) == cudaSuccess);
    wantedA = Harness::mixed(wantedA, i, 3);
    h.use(1);
    CHECK(h.launch(second, &b, i, 3) == cudaSuccess);
    wantedB = Harness::mixed(wantedB, i, 3);
    // Calls that the hooks do not know to be kernel launches are passed through too.
    if (i % 5 == 0)
      h.launchBad(second, [] {});
  }
  CHECK(h.hooks.synchronizeDevice(h.cuda.api()) == cudaSuccess);
  h.cuda.settle();
  CHECK(a == wantedA);
  CHECK(b == wantedB);
  CHECK(h.devicesOfVariants() == std::set<int>{0});
  CHECK(h.devicesOf("mix") == std::set<int>{1});
  CHECK(h.throughVariants() == 19);
}

TEST_CASE("high priority on another device is passed on, and stops nobody") {
  TwoDevices h(false);
  cudaStream_t low = h.streamOn(0, 0);
  h.stream(-1);
  cudaStream_t other = h.streamOn(1, -1);
  std::uint64_t a = 0, b = 0;
  h.use(0);
  CHECK(h.launch(low, &a, 1) == cudaSuccess);
  CHECK(h.synchronize(low) == cudaSuccess);
  std::uint64_t before = h.hooks.totals().requests;
  h.use(1);
  for (std::uint32_t i = 1; i < 5; ++i)
    CHECK(h.launch(other, &b, i) == cudaSuccess);
  CHECK(h.synchronize(other) == cudaSuccess);
  CHECK(h.hooks.totals().requests == before);
  CHECK(b == Harness::mixed(Harness::mixed(Harness::mixed(Harness::mixed(0, 1), 2), 3), 4));
  CHECK(h.devicesOf("mix") == std::set<int>{1});
}

TEST_CASE("another device's reset leaves the classes of streams and the queue as they are") {
  TwoDevices h(false);
  cudaStream_t low = h.streamOn(0);
  CHECK(h.hooks.streams().setClass(h.cuda.api(), low, true) == cudaSuccess);
  CHECK(h.hooks.streams().setClass(h.cuda.api(), cudaStreamPerThread, true) == cudaSuccess);
  std::uint64_t cell = 0;
  CHECK(h.launch(low, &cell, 1) == cudaSuccess);
  CHECK(h.synchronize(low) == cudaSuccess);
  h.use(1);
  CHECK(h.hooks.resetDevice(h.cuda.api()) == cudaSuccess);
  CHECK(h.cuda.resets == 1);
  h.use(0);
  CHECK(h.launch(low, &cell, 2) == cudaSuccess);
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(h.launch(cudaStreamPerThread, &cell, 3) == cudaSuccess);
  CHECK(h.synchronize(cudaStreamPerThread) == cudaSuccess);
  CHECK(cell == Harness::mixed(Harness::mixed(Harness::mixed(0, 1), 2), 3));
  CHECK(h.throughVariants() == 3);
}

TEST_CASE("a default stream is that of the device that a library has made current") {
  TwoDevices h(true);
  std::uint64_t cell = 0;
  CHECK(h.launch(nullptr, &cell, 1) == cudaSuccess);
  CHECK(h.synchronize(nullptr) == cudaSuccess);
  CHECK(h.throughVariants() == 1);
  FakeCuda::currentDevice() = 1; // by cuCtxSetCurrent
  h.hooks.streams().contextChanged();
  CHECK(h.launch(nullptr, &cell, 2) == cudaSuccess);
  h.cuda.settle();
  CHECK(cell == Harness::mixed(Harness::mixed(0, 1), 2));
  CHECK(h.throughVariants() == 1);
  CHECK(h.devicesOf("mix") == std::set<int>{1});
}
