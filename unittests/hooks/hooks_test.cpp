// Classes and errors: the effects of the hooks that a program sees, over the fake CUDA runtime.
#include "harness.h"
#include "work/queue_checks.h"

using namespace tally;
using namespace tally::test;
using namespace std::chrono_literals;

namespace {

std::size_t place(const std::vector<std::string> &log, const std::string &what) {
  return static_cast<std::size_t>(std::find(log.begin(), log.end(), what) - log.begin());
}

} // namespace

TEST_CASE("without best-effort streams calls pass through and nothing is started") {
  Harness h;
  std::uint64_t cell = 0;
  CHECK(h.launch(nullptr, &cell, 5) == cudaSuccess);
  CHECK(h.synchronize(nullptr) == cudaSuccess);
  CHECK(cell == Harness::mixed(0, 5));
  CHECK(h.hooks.served().engine() == nullptr);
  CHECK(h.hooks.totals().highLaunches == 1);
}

TEST_CASE("a stream below another in use is best effort, whichever was made first") {
  Harness h;
  cudaStream_t low = h.stream(0);
  std::uint64_t cell = 0;
  h.launch(low, &cell, 1);
  CHECK(h.hooks.totals().highLaunches == 1);
  cudaStream_t high = h.stream(-1);
  h.launch(low, &cell, 1);
  h.launch(high, &cell, 1, 1, &Harness::plainSymbol);
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(h.hooks.totals().highLaunches == 2);
  CHECK(h.hooks.totals().throughVariants == 1);
}

TEST_CASE("the highest priority is kept for the control stream") {
  Harness h;
  int lowest = 1, highest = 1, got = 0;
  CHECK(h.hooks.streams().priorityRange(h.cuda.api(), &lowest, &highest) == cudaSuccess);
  CHECK(lowest == 0);
  CHECK(highest == -4);
  cudaStream_t stream = h.stream(-5);
  h.cuda.api().cudaStreamGetPriority(stream, &got);
  CHECK(got == -4);
}

TEST_CASE("a best-effort kernel yields to a high-priority launch and runs each block once") {
  Harness h;
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  std::uint64_t cell = 0;
  h.gated = true;
  CHECK(h.launch(low, &cell, 7, 8) == cudaSuccess);
  h.yieldAfterOneBlock(low, high, cell, 7);
  CHECK(cell == Harness::mixed(0, 7, 8));
  CHECK(h.hooks.totals().throughVariants == 1);
  CHECK(h.hooks.totals().physical == 2);
  // The hooks do not count the control stream, which would otherwise make later streams lower ones.
  CHECK(h.cuda.copiesFromOutside == 0);
}

TEST_CASE("at the process's end no stream of the program is asked, and what is queued still runs") {
  Harness h;
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  std::uint64_t cell = 0, ignored = 0;
  h.holdPlain();
  h.launch(low, &cell, 1);
  CHECK(h.synchronize(low) == cudaSuccess);
  h.launch(high, &ignored, 1, 1, &Harness::plainSymbol);
  h.highGate.arrived();
  h.launch(low, &cell, 2);
  CHECK(eventually([&] { return h.cuda.queriesOf(high) > 0; }));
  h.hooks.served().engine()->end();
  int before = h.cuda.queriesOf(high);
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(cell == Harness::mixed(Harness::mixed(0, 1), 2));
  CHECK(h.cuda.queriesOf(high) == before);
  h.highGate.open();
}

TEST_CASE("a destroyed stream is not asked, though it became best effort with work on it") {
  Harness h;
  cudaStream_t low = h.stream(0), high = h.stream(-1), other = h.stream(-1);
  std::uint64_t cell = 0, ignored = 0;
  h.holdPlain();
  CHECK(h.launch(low, &cell, 1) == cudaSuccess);
  CHECK(h.synchronize(low) == cudaSuccess);
  for (cudaStream_t each : {high, other})
    CHECK(h.launch(each, &ignored, 1, 1, &Harness::plainSymbol) == cudaSuccess);
  h.highGate.arrived();
  CHECK(h.hooks.streams().setClass(h.cuda.api(), other, true) == cudaSuccess);
  CHECK(h.hooks.streams().destroy(h.cuda.api(), other) == cudaSuccess);
  CHECK(h.launch(low, &cell, 2) == cudaSuccess);
  std::this_thread::sleep_for(5ms);
  h.highGate.open();
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(h.cuda.queriesOfDestroyed == 0);
}

TEST_CASE("a kernel without variants waits until no high-priority work is active") {
  Harness h;
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  std::uint64_t cell = 0, other = 0;
  h.gated = true; // holds the high-priority launch
  CHECK(h.launch(high, &other, 1) == cudaSuccess);
  h.gate.arrived();
  CHECK(h.launch(low, &cell, 1, 1, &Harness::plainSymbol) == cudaSuccess);
  std::this_thread::sleep_for(5ms);
  CHECK(h.hooks.totals().nonPreemptible == 0);
  h.gate.open();
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(h.hooks.totals().nonPreemptible == 1);
  CHECK(cell == Harness::mixed(0, 1));
}

TEST_CASE("arguments and pageable copies are taken at the call, pinned ones in their order") {
  Harness h;
  cudaStream_t low = h.stream(0);
  h.stream(-1);
  std::uint64_t cell = 0, pinned = 3, device = 0;
  h.cuda.pin(&pinned);
  h.cuda.pin(&device);
  h.gated = true;
  {
    std::uint32_t value = 4;
    h.launch(low, &cell, value, 2);
    value = 9; // too late
  }
  CHECK(h.hooks.copies().copyAsync(h.cuda.api(), &device, &pinned, 8, cudaMemcpyHostToDevice,
                                   low) == cudaSuccess);
  pinned = 5; // in time: a pinned copy reads its source in its turn
  std::uint64_t pageable = 6, target = 0;
  h.cuda.pin(&target);
  std::thread opener([&] {
    std::this_thread::sleep_for(5ms);
    CHECK(device == 0);
    h.gate.open();
  });
  CHECK(h.hooks.copies().copyAsync(h.cuda.api(), &target, &pageable, 8, cudaMemcpyHostToDevice,
                                   low) == cudaSuccess);
  pageable = 0; // too late
  opener.join();
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(cell == Harness::mixed(0, 4, 2));
  CHECK(device == 5);
  CHECK(target == 6);
}

TEST_CASE("queued copies and fills go on the runtime's stream, between the kernels around them") {
  Harness h;
  cudaStream_t low = h.stream(0);
  h.stream(-1);
  std::uint64_t cell = 0, copied = 0;
  h.cuda.pin(&cell);
  h.cuda.pin(&copied);
  void *filled = nullptr;
  REQUIRE(h.cuda.api().cudaMalloc(&filled, 8) == cudaSuccess);
  h.gated = true;
  h.launch(low, &cell, 4u, 2);
  CHECK(h.hooks.copies().copyAsync(h.cuda.api(), &copied, &cell, 8, cudaMemcpyHostToDevice, low) ==
        cudaSuccess);
  CHECK(h.hooks.copies().fillAsync(h.cuda.api(), filled, 1, 8, low) == cudaSuccess);
  h.launch(low, &cell, 5u, 2);
  h.gate.open();
  CHECK(h.synchronize(low) == cudaSuccess);
  std::uint64_t first = Harness::mixed(0, 4, 2);
  CHECK(copied == first);
  CHECK(*static_cast<std::uint64_t *>(filled) == 0x0101010101010101);
  CHECK(cell == Harness::mixed(first, 5, 2));
  // The runtime's own states are filled in stream order too.
  CHECK(h.cuda.copyStreams.size() >= 2);
  for (cudaStream_t each : h.cuda.copyStreams)
    CHECK(each != low);
}

TEST_CASE("launch errors are returned by the call, and nothing of them is queued") {
  Harness h;
  cudaStream_t low = h.stream(0);
  h.stream(-1);
  std::uint64_t cell = 0;
  std::uint32_t value = 1;
  auto *pointer = &cell;
  void *arguments[] = {&pointer, &value};
  auto launch = [&](const char *symbol, dim3 grid, dim3 block) {
    return h.hooks.launch(
        h.cuda.api(), low,
        [&] { return hooks::LaunchRequest{symbol, grid, block, 0, {}, arguments}; },
        [&] { return h.cuda.api().cudaLaunchKernel(symbol, grid, block, arguments, 0, low); });
  };
  CHECK(launch(&Harness::mixSymbol, dim3(0), dim3(32)) == cudaErrorInvalidConfiguration);
  CHECK(launch(&Harness::mixSymbol, dim3(1), dim3(2048)) == cudaErrorInvalidConfiguration);
  static char unknown;
  CHECK(launch(&unknown, dim3(1), dim3(32)) == cudaErrorInvalidDeviceFunction);
  CHECK(h.hooks.lastError(h.cuda.api(), true) == cudaErrorInvalidDeviceFunction);
  CHECK(h.hooks.lastError(h.cuda.api(), true) == cudaSuccess);
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(cell == 0);
}

TEST_CASE("an error after the call has returned is given by the next synchronisation, once") {
  Harness h;
  cudaStream_t low = h.stream(0);
  h.stream(-1);
  std::uint64_t cell = 0;
  h.gated = true;
  h.launch(low, &cell, 1, 3);
  auto call = [] { return cudaErrorInvalidValue; };
  CHECK(h.hooks.rules().queue(h.cuda.api(), low, mayQueue, call) == cudaSuccess);
  h.gate.open();
  CHECK(h.synchronize(low) == cudaErrorInvalidValue);
  CHECK(h.synchronize(low) == cudaSuccess);
}

TEST_CASE("synchronising the device drains the queue") {
  Harness h(true);
  std::uint64_t cell = 0;
  for (std::uint32_t i = 0; i < 20; ++i)
    h.launch(nullptr, &cell, i, 3);
  CHECK(h.hooks.synchronizeDevice(h.cuda.api()) == cudaSuccess);
  std::uint64_t expected = 0;
  for (std::uint32_t i = 0; i < 20; ++i)
    expected = Harness::mixed(expected, i, 3);
  CHECK(cell == expected);
  CHECK(h.hooks.totals().throughVariants == 20);
}

TEST_CASE("a chain of kernels is sent ahead, and finished in its order whatever yields") {
  Harness h;
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  std::uint64_t cell = 0, other = 0, expected = 0;
  h.gated = true;
  h.holdPlain();
  // All launches are queued before the first may start.
  CHECK(h.launch(high, &other, 1, 1, &Harness::plainSymbol) == cudaSuccess);
  h.highGate.arrived();
  for (std::uint32_t i = 0; i < 20; ++i) {
    h.launch(low, &cell, i, 2);
    expected = Harness::mixed(expected, i, 2);
  }
  h.highGate.open();
  h.gate.arrived();
  // The device got more than one launch without a turn of the host between them: two batches of one
  // launch each, since a request has just ended.
  CHECK(eventually([&] { return h.hooks.totals().physical == 2; }));
  CHECK(h.launch(high, &other, 1, 1, &Harness::plainSymbol) == cudaSuccess);
  h.settleRequest();
  h.gate.open();
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(cell == expected);
  CHECK(h.hooks.totals().throughVariants == 20);
  CHECK(h.hooks.totals().yields > 1);
}

TEST_CASE("a fault of the device ends all waits, and is said") {
  for (const char *symbol : {&Harness::mixSymbol, &Harness::plainSymbol}) {
    Harness h(true);
    std::uint64_t cell = 0;
    h.gated = true;
    for (int i = 0; i < 3; ++i)
      h.launch(nullptr, &cell, 1, 2, symbol);
    h.gate.arrived();
    h.cuda.fail(cudaErrorIllegalAddress);
    CHECK(h.synchronize(nullptr) == cudaErrorIllegalAddress);
    h.launch(nullptr, &cell, 1, 2, symbol);
    CHECK(h.synchronize(nullptr) == cudaErrorIllegalAddress);
    h.cuda.fail(cudaSuccess);
    h.gate.open();
    // The error of operations that were given up.
    CHECK(h.hooks.synchronizeDevice(h.cuda.api()) != cudaSuccess);
  }
}

TEST_CASE("what a fault of the device took is told to each who asks, though nothing came since") {
  Harness h(true);
  std::uint64_t cell = 0;
  h.gated = true;
  h.launch(nullptr, &cell, 1, 2);
  h.gate.arrived();
  h.cuda.api().cudaGetLastError(); // an earlier test's
  CHECK(h.hooks.lastError(h.cuda.api(), true) == cudaSuccess);
  h.cuda.fail(cudaErrorIllegalAddress);
  CHECK(h.synchronize(nullptr) == cudaErrorIllegalAddress);
  h.cuda.fail(cudaSuccess);
  h.cuda.api().cudaGetLastError();
  h.gate.open();
  for (int asked = 0; asked < 2; ++asked) {
    CHECK(h.hooks.lastError(h.cuda.api(), true) == cudaErrorUnknown);
    CHECK(h.synchronize(nullptr) == cudaErrorUnknown);
  }
}

TEST_CASE("nobody waits for an engine that was retired") {
  for (int i = 0; i < 20; ++i) {
    Harness h(true);
    std::uint64_t cell = 0;
    for (int n = 0; n < 5; ++n)
      h.launch(nullptr, &cell, 1, 2);
    hooks::BestEffortEngine *engine = h.hooks.served().engine();
    engine->retire();
    CHECK(engine->queue().isIdle());
    engine->queue().drain(false);
  }
}

TEST_CASE("attributes of a kernel go to its variants") {
  Harness h(true);
  std::uint64_t cell = 0;
  auto set = [&h](int value) {
    CHECK(h.hooks.launches().setAttribute(h.cuda.api(), &Harness::mixSymbol,
                                          cudaFuncAttributeMaxDynamicSharedMemorySize, value, [&] {
                                            return h.cuda.api().cudaFuncSetAttribute(
                                                &Harness::mixSymbol,
                                                cudaFuncAttributeMaxDynamicSharedMemorySize, value);
                                          }) == cudaSuccess);
  };
  set(70000);
  h.launch(nullptr, &cell, 1, 3);
  h.hooks.synchronizeDevice(h.cuda.api());
  auto found = h.cuda.attributes();
  for (const char *entry :
       {"mix$tally_slice", "mix$tally_guard", "mix$tally_guard_resume", "mix$tally_persistent"})
    CHECK(found[entry][cudaFuncAttributeMaxDynamicSharedMemorySize] == 70000);
  // The value is unchanged, so the call does not wait for queued launches.
  hooks::StreamState other;
  std::atomic<bool> ended{false};
  h.hooks.served().engine()->submit(other, [&] {
    std::this_thread::sleep_for(50ms);
    ended = true;
    return cudaSuccess;
  });
  set(70000);
  CHECK(!ended);
  // Launches of variants may have more shared memory than the program allows.
  set(60000);
  CHECK(ended);
  h.launch(nullptr, &cell, 1, 3);
  h.hooks.synchronizeDevice(h.cuda.api());
  CHECK(h.cuda.attributes()["mix$tally_guard"][cudaFuncAttributeMaxDynamicSharedMemorySize] ==
        70000);
}

TEST_CASE("what is wrong with a call is said at the call, whatever is queued ahead") {
  Harness h(true);
  cudaStream_t stream = h.stream(0);
  std::uint64_t cell = 0, pinned = 0;
  h.cuda.pin(&pinned);
  h.gated = true;
  h.launch(stream, &cell, 1);
  std::thread opener([&] {
    h.gate.arrived();
    h.gate.open();
  });
  auto wrong = [] { return cudaErrorInvalidValue; };
  SUBCASE("a queued call") {
    CHECK(h.hooks.rules().queue(
              h.cuda.api(), stream, [] { return false; }, wrong) == cudaErrorInvalidValue);
  }
  SUBCASE("a copy's kind") {
    auto kind = static_cast<cudaMemcpyKind>(77);
    CHECK(h.hooks.copies().copyAsync(h.cuda.api(), &pinned, &cell, 8, kind, stream) ==
          cudaErrorInvalidMemcpyDirection);
  }
  SUBCASE("no event") {
    CHECK(h.hooks.events().record(h.cuda.api(), nullptr, stream, 0) ==
          cudaErrorInvalidResourceHandle);
    CHECK(h.hooks.events().wait(h.cuda.api(), stream, nullptr, 0) ==
          cudaErrorInvalidResourceHandle);
  }
  opener.join();
  h.hooks.lastError(h.cuda.api(), true);
  CHECK(h.synchronize(stream) == cudaSuccess);
  CHECK(h.hooks.lastError(h.cuda.api(), true) == cudaSuccess);
}

TEST_CASE("which calls may be queued") {
  Harness h;
  std::uint64_t pinned = 0;
  h.cuda.pin(&pinned);
  hooks::QueueChecks checks{h.cuda.api()};
  CHECK(checks.copy(&pinned, &pinned, 8, cudaMemcpyDefault));
  CHECK(checks.copy(&pinned, &pinned, 8, cudaMemcpyDeviceToDevice));
  CHECK(!checks.copy(nullptr, &pinned, 8, cudaMemcpyDefault));
  CHECK(checks.copy(nullptr, nullptr, 0, cudaMemcpyDefault));
  CHECK(!checks.copy(&h, &pinned, 8, cudaMemcpyHostToDevice));
  CHECK(!checks.isOnDevice(nullptr, 8));
  CHECK(!checks.cudaMemset2DAsync(&pinned, 4, 0, 8, 1, nullptr));
  CHECK(!checks.cudaMemset3DAsync({&pinned, 8, 8, 1}, 0, {8, 2, 1}, nullptr));
  CHECK(!checks.cudaLaunchHostFunc(nullptr, nullptr, nullptr));
  CHECK(!checks.cudaStreamAddCallback(nullptr, nullptr, nullptr, 0));
  CHECK(!checks.cudaFreeAsync(nullptr, nullptr));
  CHECK(!checks.cudaMemPrefetchAsync(&pinned, 8, {}, 0, nullptr));
}

TEST_CASE("a stream's class can be set") {
  Harness h;
  std::uint64_t cell = 0;
  CHECK(h.hooks.streams().setClass(h.cuda.api(), nullptr, true) == cudaSuccess);
  h.launch(nullptr, &cell, 1);
  CHECK(h.hooks.streams().setClass(h.cuda.api(), nullptr, false) == cudaSuccess);
  h.launch(nullptr, &cell, 1);
  CHECK(h.synchronize(nullptr) == cudaSuccess);
  CHECK(h.hooks.totals().throughVariants == 1);
  CHECK(h.hooks.totals().highLaunches == 1);
}

TEST_CASE("the first thread that launches on a stream owns it, and all launches count") {
  Harness h;
  cudaStream_t high = h.stream(-1);
  cudaStream_t low = h.stream(0);
  std::uint64_t cell = 0, expected = 0, other = 0;
  h.launch(low, &other, 1);
  auto launchTwice = [&] {
    for (int i = 0; i < 2; ++i)
      h.launch(high, &cell, 1);
  };
  launchTwice();
  CHECK(hooks::threadState.last.own);
  std::thread([&] {
    launchTwice();
    CHECK(hooks::threadState.last.scopes);
    CHECK_FALSE(hooks::threadState.last.own);
  }).join();
  launchTwice();
  CHECK(h.synchronize(high) == cudaSuccess);
  CHECK(h.hooks.totals().highLaunches == 6);
  CHECK(h.hooks.resetDevice(h.cuda.api()) == cudaSuccess);
  CHECK(h.hooks.totals().highLaunches == 6);
  for (int i = 0; i < 6; ++i)
    mixBlock({&expected, 1}, 0);
  CHECK(cell == expected);
}

TEST_CASE("once code was unloaded a handle is another kernel's, and a file's kernels stay") {
  Harness h;
  hooks::Registry &known = h.hooks.registered();
  char handle = 0;
  hooks::KernelRecord &before = known.find(h.cuda.api(), &handle);
  hooks::KernelRecord &mix = known.find(h.cuda.api(), &Harness::mixSymbol);
  CHECK(&known.find(h.cuda.api(), &handle) == &before);
  h.hooks.kernelsUnloaded();
  CHECK(&known.find(h.cuda.api(), &handle) != &before);
  CHECK(&known.find(h.cuda.api(), &Harness::mixSymbol) == &mix);
}

TEST_CASE("a device is reset though the control stream had a green context") {
  Harness h;
  h.cuda.driverHasGreenContexts = true;
  for (int round = 0; round < 2; ++round) {
    cudaStream_t low = h.stream(0), high = h.stream(-1);
    std::uint64_t cell = 0;
    CHECK(h.launch(low, &cell, 1) == cudaSuccess);
    CHECK(h.launch(high, &cell, 1, 1, &Harness::plainSymbol) == cudaSuccess);
    CHECK(h.synchronize(low) == cudaSuccess);
    CHECK(h.synchronize(high) == cudaSuccess);
    CHECK(h.cuda.greenContexts == 1);
    CHECK(h.hooks.resetDevice(h.cuda.api()) == cudaSuccess);
    CHECK(h.cuda.greenContexts == 0);
  }
  CHECK(h.cuda.resets == 2);
}

TEST_CASE("a thread forgets a stream's class when that is set") {
  Harness h;
  cudaStream_t high = h.stream(-1);
  h.stream(0);
  std::uint64_t cell = 0, expected = 0;
  for (int i = 0; i < 3; ++i)
    h.launch(high, &cell, 1);
  CHECK(hooks::threadState.last.scopes);
  // Another thread sets the class, and this thread's record of the stream becomes invalid.
  std::thread([&] { h.hooks.streams().setClass(h.cuda.api(), high, true); }).join();
  h.launch(high, &cell, 1);
  CHECK(h.synchronize(high) == cudaSuccess);
  CHECK(h.hooks.totals().highLaunches == 3);
  CHECK(h.hooks.totals().throughVariants == 1);
  for (int i = 0; i < 4; ++i)
    mixBlock({&expected, 1}, 0);
  CHECK(cell == expected);
}

TEST_CASE("copies and events are made at once while nothing is queued") {
  Harness h(true);
  std::uint64_t from = 1, to = 0;
  CHECK(h.hooks.copies().copyAsync(h.cuda.api(), &to, &from, 8, cudaMemcpyHostToDevice, nullptr) ==
        cudaSuccess);
  CHECK(h.cuda.pageableQueries == 0);
  cudaEvent_t event = h.event();
  CHECK(h.hooks.events().record(h.cuda.api(), event, nullptr, 0) == cudaSuccess);
  CHECK(h.hooks.events().synchronize(h.cuda.api(), event) == cudaSuccess);
  CHECK(to == 1);
  CHECK(place(h.cuda.log(), "mix") == h.cuda.log().size());
}
