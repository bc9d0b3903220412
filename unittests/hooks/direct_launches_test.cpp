// Launches without the CUDA runtime: the conditions for them, and the driver's arguments.
#include "work/direct_launches.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

using namespace tally::hooks;

namespace {

/// A driver and a runtime. A kernel's function is its own address plus an offset of the loaded
/// code.
struct World {
  CUcontext current = contextOf(1);
  bool refuses = false;                  ///< launches, by the driver
  cudaError_t runtimeSays = cudaSuccess; ///< of launches
  bool hasSymbols = true;                ///< the runtime knows the functions of symbols
  bool hasFunctions = true;              ///< the driver knows the functions of kernels
  std::uintptr_t loaded = 256;           ///< offset that the loaded code adds to a kernel's address
  cudaError_t lastError = cudaSuccess;
  std::atomic<int> byDriver{0}, byRuntime{0}, asked{0};
  bool keeps = true; ///< records the driver's arguments; for one thread
  CUlaunchConfig config{};
  CUfunction function = nullptr;
  void **arguments = nullptr;

  static CUcontext contextOf(std::uintptr_t number) { return reinterpret_cast<CUcontext>(number); }
};
World *world = nullptr;

CUfunction functionBehind(const void *kernel) {
  return reinterpret_cast<CUfunction>(reinterpret_cast<std::uintptr_t>(kernel) + world->loaded);
}

const DriverLaunches &driver() {
  static const DriverLaunches calls = [] {
    DriverLaunches made;
    made.launch = [](const CUlaunchConfig *config, CUfunction function, void **arguments, void **) {
      if (world->refuses)
        return CUDA_ERROR_INVALID_VALUE;
      ++world->byDriver;
      if (!world->keeps)
        return CUDA_SUCCESS;
      world->config = *config;
      world->function = function;
      world->arguments = arguments;
      return CUDA_SUCCESS;
    };
    made.currentContext = [](CUcontext *context) {
      *context = world->current;
      return CUDA_SUCCESS;
    };
    made.functionOfKernel = [](CUfunction *function, CUkernel kernel) {
      ++world->asked;
      *function = functionBehind(kernel);
      return world->hasFunctions ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    };
    return made;
  }();
  return calls;
}

CudaApi runtime() {
  CudaApi api;
  api.cudaLaunchKernel = [](const void *, dim3, dim3, void **, std::size_t, cudaStream_t) {
    ++world->byRuntime;
    return world->runtimeSays;
  };
  api.__cudaLaunchKernel = [](cudaKernel_t, dim3, dim3, void **, std::size_t, cudaStream_t) {
    ++world->byRuntime;
    return world->runtimeSays;
  };
  api.cudaGetFuncBySymbol = [](cudaFunction_t *function, const void *symbol) {
    ++world->asked;
    if (!world->hasSymbols)
      return world->lastError = cudaErrorInvalidDeviceFunction;
    *function = functionBehind(symbol);
    return cudaSuccess;
  };
  api.cudaPeekAtLastError = [] { return world->lastError; };
  api.cudaGetLastError = [] { return std::exchange(world->lastError, cudaSuccess); };
  api.driver = driver;
  return api;
}

struct Fixture {
  World here;
  CudaApi api = runtime();
  Captures captures;
  DirectLaunches direct{true, captures};
  int kernels[4096]{}; ///< addresses to name kernels by

  Fixture() { world = &here; }
  const void *symbol(std::size_t number = 0) const { return &kernels[4 * number]; }
  template <class Kernel>
  cudaError_t launch(Kernel kernel,
                     const LaunchArguments &launch = {{1}, {32}, nullptr, 0, nullptr}) {
    return direct.make(api, kernel, launch);
  }
};

} // namespace

TEST_CASE("the first launch of a kernel is the runtime's, the next are the driver's") {
  Fixture f;
  void *arguments[1] = {};
  auto stream = reinterpret_cast<cudaStream_t>(std::uintptr_t{0x40});
  LaunchArguments launch{{7, 6, 5}, {4, 3, 2}, arguments, 100, stream};
  CHECK(f.launch(f.symbol(), launch) == cudaSuccess);
  CHECK(f.here.byRuntime == 1);
  CHECK(f.here.byDriver == 0);
  CHECK(f.launch(f.symbol(), launch) == cudaSuccess);
  CHECK(f.here.byRuntime == 1);
  CHECK(f.here.byDriver == 1);
  CHECK(f.here.asked == 1);
  CHECK(f.here.function == functionBehind(f.symbol()));
  CHECK(f.here.arguments == arguments);
  const CUlaunchConfig &config = f.here.config;
  CHECK((config.gridDimX == 7 && config.gridDimY == 6 && config.gridDimZ == 5));
  CHECK((config.blockDimX == 4 && config.blockDimY == 3 && config.blockDimZ == 2));
  CHECK(config.sharedMemBytes == 100);
  CHECK(config.hStream == stream);
  CHECK(config.numAttrs == 0);
}

TEST_CASE("a kernel's handle names it too") {
  Fixture f;
  auto handle = reinterpret_cast<cudaKernel_t>(const_cast<void *>(f.symbol(1)));
  f.launch(handle);
  f.launch(handle);
  CHECK(f.here.byDriver == 1);
  CHECK(f.here.function == functionBehind(handle));
}

TEST_CASE("a kernel's handle may stand in a symbol's place, and leaves no error") {
  Fixture f;
  f.here.hasSymbols = false;
  f.launch(f.symbol(1));
  CHECK(f.here.lastError == cudaSuccess);
  f.launch(f.symbol(1));
  CHECK(f.here.byDriver == 1);
  CHECK(f.here.function == functionBehind(f.symbol(1)));
}

TEST_CASE("the error of a launch that the driver refuses is the runtime's") {
  Fixture f;
  f.launch(f.symbol());
  f.here.refuses = true;
  f.here.runtimeSays = cudaErrorInvalidConfiguration;
  CHECK(f.launch(f.symbol()) == cudaErrorInvalidConfiguration);
  CHECK(f.here.byRuntime == 2);
  CHECK(f.here.byDriver == 0);
}

TEST_CASE("nothing is asked of a kernel whose launch failed") {
  Fixture f;
  f.here.runtimeSays = cudaErrorInvalidConfiguration;
  CHECK(f.launch(f.symbol()) == cudaErrorInvalidConfiguration);
  CHECK(f.here.asked == 0);
}

TEST_CASE("in another context the runtime launches, and nothing is learnt there") {
  Fixture f;
  f.launch(f.symbol(0));
  f.here.current = World::contextOf(2);
  f.launch(f.symbol(0));
  f.launch(f.symbol(1));
  f.launch(f.symbol(1));
  CHECK(f.here.byRuntime == 4);
  CHECK(f.here.byDriver == 0);
  f.here.current = World::contextOf(1);
  f.launch(f.symbol(0));
  CHECK(f.here.byDriver == 1);
}

TEST_CASE("while a capture is open the runtime launches, and nothing is asked") {
  Fixture f;
  f.launch(f.symbol());
  f.captures.begin([] { return cudaSuccess; });
  f.launch(f.symbol());
  f.launch(f.symbol(1));
  CHECK(f.here.byDriver == 0);
  CHECK(f.here.asked == 1);
  f.captures.end([] { return cudaSuccess; });
  f.launch(f.symbol());
  CHECK(f.here.byDriver == 1);
}

TEST_CASE(
    "dynamic shared memory beyond what the driver's call can say is the runtime's to refuse") {
  Fixture f;
  f.launch(f.symbol());
  f.here.runtimeSays = cudaErrorInvalidValue;
  CHECK(f.launch(f.symbol(), {{1}, {32}, nullptr, (std::size_t{1} << 32) + 16, nullptr}) ==
        cudaErrorInvalidValue);
  CHECK(f.here.byDriver == 0);
}

TEST_CASE("code that was loaded anew is asked for anew") {
  Fixture f;
  f.launch(f.symbol());
  f.direct.forget();
  f.here.loaded = 512;
  f.here.current = World::contextOf(2); // the device's context after a reset
  f.launch(f.symbol());
  CHECK(f.here.byDriver == 0);
  f.launch(f.symbol());
  CHECK(f.here.byDriver == 1);
  CHECK(f.here.function == functionBehind(f.symbol()));
}

TEST_CASE("a kernel without a function of the driver's is asked for once, and leaves no error") {
  Fixture f;
  f.here.hasSymbols = f.here.hasFunctions = false;
  for (int i = 0; i < 3; ++i)
    CHECK(f.launch(f.symbol()) == cudaSuccess);
  CHECK(f.here.asked == 2); // the runtime and the driver
  CHECK(f.here.byRuntime == 3);
  CHECK(f.here.lastError == cudaSuccess);
}

TEST_CASE("an error that the program has yet to find stays") {
  Fixture f;
  f.here.hasSymbols = false;
  f.here.lastError = cudaErrorInvalidValue;
  f.launch(f.symbol());
  CHECK(f.here.lastError == cudaErrorInvalidValue);
  CHECK(f.here.asked == 0);
}

TEST_CASE("without a driver, or with TALLY_LAUNCH=runtime, the runtime launches") {
  Fixture f;
  DirectLaunches off(false, f.captures);
  LaunchArguments launch{{1}, {32}, nullptr, 0, nullptr};
  CudaApi bare = f.api;
  bare.driver = nullptr;
  for (int i = 0; i < 2; ++i) {
    CHECK(off.make(f.api, f.symbol(0), launch) == cudaSuccess);
    CHECK(f.direct.make(bare, f.symbol(1), launch) == cudaSuccess);
  }
  CHECK(f.here.byRuntime == 4);
  CHECK(f.here.asked == 0);
}

TEST_CASE("of more kernels than there is room for each launch is its own kernel's") {
  Fixture f;
  constexpr std::size_t count = 1000;
  std::vector<bool> known[3];
  for (auto &round : known)
    for (std::size_t i = 0; i < count; ++i) {
      int before = f.here.byDriver;
      CHECK(f.launch(f.symbol(i)) == cudaSuccess);
      round.push_back(f.here.byDriver != before);
      if (round.back())
        CHECK(f.here.function == functionBehind(f.symbol(i)));
    }
  CHECK(f.here.byDriver + f.here.byRuntime == static_cast<int>(3 * count));
  CHECK(std::count(known[1].begin(), known[1].end(), true) > 256);
  CHECK(std::count(known[1].begin(), known[1].end(), true) < static_cast<int>(count));
  // No kernel replaces another: the kernels that came first stay.
  CHECK(std::count(known[1].begin(), known[1].begin() + 100, true) == 100);
  CHECK(known[1] == known[2]);
}

TEST_CASE("threads launch and learn at once") {
  Fixture f;
  std::atomic<int> launched{0};
  auto body = [&](std::size_t first) {
    for (std::size_t i = 0; i < 400; ++i)
      if (f.launch(f.symbol((first + i) % 40)) == cudaSuccess)
        ++launched;
  };
  f.here.keeps = false;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 3; ++t)
    threads.emplace_back(body, 13 * t);
  for (std::thread &each : threads)
    each.join();
  CHECK(launched == 1200);
  CHECK(f.here.byDriver + f.here.byRuntime == 1200);
  CHECK(f.here.byDriver >= 1200 - 3 * 40);
}
