// A process with hooks over the fake CUDA runtime. Its one module has the kernels `mix` (all kinds)
// and `plain` (none).
#ifndef TALLY_UNITTESTS_HOOKS_HARNESS_H
#define TALLY_UNITTESTS_HOOKS_HARNESS_H

#include "fake_cuda.h"
#include "process/hooks.h"

#include "tally/bundle/abi.h"

#include <doctest/doctest.h>

#include <chrono>

extern "C" char testWrapper[];

namespace tally::test {

/// Holds kernels back until the test lets them go.
class Gate {
public:
  void open(std::int64_t count = 1 << 30) {
    std::unique_lock lock(mutex);
    allowed += count;
    changed.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex);
    ++waiting;
    changed.notify_all();
    changed.wait(lock, [&] { return allowed > 0; });
    --allowed;
    --waiting;
  }
  /// Returns the number of kernels that wait now.
  std::int64_t waitingNow() {
    std::unique_lock lock(mutex);
    return waiting;
  }
  /// Returns once a kernel waits at the gate.
  void arrived() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return waiting > 0; });
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t allowed = 0, waiting = 0;
};

/// The body of `mix`: each block does `*cell = *cell * 31 + value + block`, after the gate if there
/// is one.
struct Mix {
  std::uint64_t *cell;
  std::uint32_t value;
};
inline bool mayQueue() { return true; }
/// Returns whether the condition comes true within five seconds.
inline bool eventually(const std::function<bool()> &condition) {
  for (int i = 0; i < 5000; ++i) {
    if (condition())
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}
inline void mixBlock(const Mix &mix, std::uint32_t block) {
  *mix.cell = *mix.cell * 31 + mix.value + block;
}

/// Runs a persistent variant as abi.h says, one worker after the other.
inline void runPersistent(const FakeLaunch &launch,
                          const std::function<void(std::uint32_t)> &block) {
  auto params = launch.argument<tally_launch_params>(2);
  auto &state = *reinterpret_cast<tally_launch_state *>(params.state);
  auto &word = *reinterpret_cast<std::uint64_t *>(params.control);
  while (state.next_block < params.blocks) {
    if (std::atomic_ref(word).load() >> TALLY_CONTROL_EPOCH_SHIFT > params.epoch)
      return;
    block(state.next_block++);
  }
}

/// Runs a guard variant, or its resume entry.
inline void runGuard(const FakeLaunch &launch, bool resume,
                     const std::function<void(std::uint32_t)> &block) {
  auto params = launch.argument<tally_launch_params>(2);
  auto &state = *reinterpret_cast<tally_launch_state *>(params.state);
  auto &word = *reinterpret_cast<std::uint64_t *>(params.control);
  for (std::uint32_t i = 0; i < launch.grid.x; ++i) {
    std::uint32_t id = resume ? reinterpret_cast<std::uint32_t *>(params.list_in)[i] : i;
    if (std::atomic_ref(word).load() >> TALLY_CONTROL_EPOCH_SHIFT > params.epoch)
      reinterpret_cast<std::uint32_t *>(params.list_out)[state.yielded++] = id;
    else
      block(id);
  }
}

class Harness {
public:
  explicit Harness(bool processIsBestEffort = false, std::uint32_t yieldEvery = 0,
                   std::vector<Kind> kinds = hooks::Settings().variants.kinds,
                   bool joinsArena = false, std::uint32_t bestEffortStreams = 1)
      : Harness(settings(processIsBestEffort, yieldEvery, std::move(kinds), joinsArena,
                         bestEffortStreams)) {}
  explicit Harness(const hooks::Settings &settings) : hooks(settings) {
    addKernels();
    void **handle = hooks.registered().registerFatBinary(cuda.api(), testWrapper);
    for (const auto &[symbol, name] :
         {std::pair(&mixSymbol, "mix"), std::pair(&plainSymbol, "plain")}) {
      cuda.api().__cudaRegisterFunction(handle, symbol, nullptr, name, -1, nullptr, nullptr,
                                        nullptr, nullptr, nullptr);
      hooks.registered().registerFunction(cuda.api(), handle, symbol, name);
    }
  }
  ~Harness() {
    gate.open();
    highGate.open();
    if (hooks::BestEffortEngine *engine = hooks.served().engine()) {
      engine->queue().drain(true);
      engine->retire();
    }
    cuda.settle();
  }

  cudaStream_t stream(int priority, unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t made = nullptr;
    REQUIRE(hooks.streams().create(cuda.api(), &made, flags, priority) == cudaSuccess);
    return made;
  }
  cudaEvent_t event() {
    cudaEvent_t made = nullptr;
    cuda.api().cudaEventCreateWithFlags(&made, 0);
    return made;
  }
  void record(cudaEvent_t event, cudaStream_t on) {
    CHECK(hooks.events().record(cuda.api(), event, on, 0) == cudaSuccess);
  }
  void wait(cudaStream_t on, cudaEvent_t event) {
    CHECK(hooks.events().wait(cuda.api(), on, event, 0) == cudaSuccess);
  }
  /// Launches `mix` or `plain`.
  cudaError_t launch(cudaStream_t stream, std::uint64_t *cell, std::uint32_t value,
                     std::uint32_t blocks = 1, const char *symbol = &mixSymbol) {
    void *arguments[] = {&cell, &value};
    dim3 grid(blocks), block(32);
    return hooks.launch(
        cuda.api(), stream,
        [&] { return hooks::LaunchRequest{symbol, grid, block, 0, {}, arguments}; },
        [&] { return cuda.api().cudaLaunchKernel(symbol, grid, block, arguments, 0, stream); });
  }
  /// Launches a shape that cannot run; `call` gives the CUDA runtime's answer.
  void launchBad(cudaStream_t stream, std::function<void()> call) {
    hooks.launch(
        cuda.api(), stream,
        [&] { return hooks::LaunchRequest{&mixSymbol, {0, 0, 0}, {1, 1, 1}, 0, {}, nullptr}; },
        [&] {
          call();
          return cudaErrorInvalidConfiguration;
        });
  }
  cudaError_t hostFunction(cudaStream_t stream, std::function<void()> function) {
    auto *kept = new std::function<void()>(std::move(function));
    auto call = [this, stream, kept] {
      return cuda.api().cudaLaunchHostFunc(
          stream,
          [](void *data) {
            auto *body = static_cast<std::function<void()> *>(data);
            (*body)();
            delete body;
          },
          kept);
    };
    return hooks.rules().queue(cuda.api(), stream, mayQueue, call);
  }
  cudaError_t synchronize(cudaStream_t stream) {
    return hooks.streams().synchronize(cuda.api(), stream);
  }

  /// Returns once the requests to yield made so far have arrived.
  void settleRequest() {
    CHECK(eventually([&] { return hooks.served().engine()->isTold(); }));
    cuda.settleControl();
  }

  /// Launches `mix` with 1, which stays at the gate, and then `mix` with 2, which does not.
  void launchBesideHeld(cudaStream_t held, std::uint64_t *heldCell, cudaStream_t other,
                        std::uint64_t *cell) {
    gated = true;
    launch(held, heldCell, 1);
    gate.arrived();
    gated = false;
    launch(other, cell, 2);
  }

  /// Launches of `plain` now run until highGate opens.
  void holdPlain() {
    cuda.addKernel("plain", {{8, 4}, [this](const FakeLaunch &) { highGate.pass(); }});
  }
  /// After a gated launch of `mix` on `low`, with `value` and `cell`: a launch on `high` makes it
  /// yield after its first block, and no work of `low` starts until the launch on `high` is over.
  void yieldAfterOneBlock(cudaStream_t low, cudaStream_t high, const std::uint64_t &cell,
                          std::uint32_t value) {
    std::uint64_t ignored = 0;
    gate.arrived(); // one block has started
    holdPlain();
    CHECK(launch(high, &ignored, 1, 1, &plainSymbol) == cudaSuccess);
    highGate.arrived();
    settleRequest(); // the request to yield has arrived
    gate.open();
    CHECK(eventually([&] { return hooks.totals().yields == 1; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK(cell == mixed(0, value, 1));
    CHECK(hooks.streams().query(cuda.api(), low) == cudaErrorNotReady);
    highGate.open();
    CHECK(synchronize(low) == cudaSuccess);
  }

  static std::uint64_t mixed(std::uint64_t start, std::uint32_t value, std::uint32_t blocks = 1) {
    for (std::uint32_t block = 0; block < blocks; ++block)
      mixBlock({&start, value}, block);
    return start;
  }

  FakeCuda cuda;
  hooks::Hooks hooks;
  bool gated = false; ///< blocks of `mix` and its variants stop at the gate
  Gate gate, highGate;

  static inline char mixSymbol, plainSymbol;

protected:
  static hooks::Settings settings(bool bestEffort, std::uint32_t yieldEvery,
                                  std::vector<Kind> kinds, bool joinsArena,
                                  std::uint32_t bestEffortStreams) {
    hooks::Settings made;
    made.bestEffortStreams = bestEffortStreams;
    made.arena.isJoined = joinsArena;
    made.variants.kinds = std::move(kinds);
    made.bestEffort = bestEffort;
    made.runAheadMicroseconds = 0;
    made.yieldEveryMicroseconds = yieldEvery;
    made.emulator.isOn = true; // there is no driver that supports stream writes
    return made;
  }

private:
  void addKernels() {
    auto body = [this](const FakeLaunch &launch) {
      return [this, mix = Mix{launch.argument<std::uint64_t *>(0),
                              launch.argument<std::uint32_t>(1)}](std::uint32_t block) {
        if (gated)
          gate.pass();
        mixBlock(mix, block);
      };
    };
    auto whole = [body](const FakeLaunch &launch) {
      for (std::uint32_t block = 0; block < launch.grid.x; ++block)
        body(launch)(block);
    };
    cuda.addKernel("mix", {{8, 4}, whole});
    cuda.addKernel("plain", {{8, 4}, whole});
    cuda.addKernel("mix$tally_persistent",
                   {{8, 4, sizeof(tally_launch_params)},
                    [body](const FakeLaunch &launch) { runPersistent(launch, body(launch)); }});
    for (bool resume : {false, true})
      cuda.addKernel(
          resume ? "mix$tally_guard_resume" : "mix$tally_guard",
          {{8, 4, sizeof(tally_launch_params)},
           [body, resume](const FakeLaunch &launch) { runGuard(launch, resume, body(launch)); }});
    cuda.addKernel("mix$tally_slice", {{8, 4, sizeof(tally_launch_params)}, [](const FakeLaunch &) {
                                         FAIL("persistent and guard both take every grid here");
                                       }});
  }
};

} // namespace tally::test

#endif
