// The driver-level hook: the driver functions that a library without hooks finds.
#include "device/driver_exports.h"
#include "fake_cuda.h"
#include "intercept/driver_hook.h"
#include "process/hooks.h"

#include <cuda.h>
#include <cudaTypedefs.h>

#include <doctest/doctest.h>

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

using namespace tally;
using namespace std::chrono_literals;

namespace {

using GetProcAddress = CUresult (*)(const char *, void **, int, cuuint64_t,
                                    CUdriverProcAddressQueryResult *);
using Launch = CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, CUstream, void **, void **);
using Copy = CUresult (*)(CUdeviceptr, const void *, size_t, CUstream);

/// The process has one of each object; the threads of this runtime must not outlive it.
test::FakeCuda &runtimeOfProcess() {
  struct Runtime {
    test::FakeCuda cuda;
    ~Runtime() {
      if (hooks::BestEffortEngine *engine = hooks::Hooks::shared().served().engine())
        engine->retire();
      cuda.settle();
    }
  };
  static Runtime runtime;
  return runtime.cuda;
}

/// A library of the process, which looks up the driver as libraries do.
struct Library {
  Library() {
    hooks::Hooks::shared().libraries().hooked(runtimeOfProcess().api());
    handle = dlopen(TALLY_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(handle);
    ask = reinterpret_cast<GetProcAddress>(dlsym(handle, "cuGetProcAddress_v2"));
  }
  template <class T> T *find(const char *name) const {
    auto found = static_cast<T *>(dlsym(handle, name));
    REQUIRE(found);
    return found;
  }

  void *handle;
  GetProcAddress ask;
};

} // namespace

TEST_CASE("launches of libraries are counted and attributed by their stream") {
  test::FakeCuda &cuda = runtimeOfProcess();
  hooks::Hooks &hooks = hooks::Hooks::shared();
  Library library;
  auto launches = library.find<int>("fakeDriverLaunches");
  auto copies = library.find<int>("fakeDriverCopies");
  void *entry = nullptr, *plain = nullptr, *other = nullptr;
  REQUIRE(library.ask("cuLaunchKernel", &entry, 13000, 0, nullptr) == CUDA_SUCCESS);
  plain = dlsym(library.handle, "cuLaunchKernelFake");
  CHECK(entry != plain);
  library.ask("cuSomethingElse", &other, 13000, 0, nullptr);
  CHECK(other == dlsym(library.handle, "cuOtherFake"));
  auto launch = reinterpret_cast<Launch>(entry);
  library.ask("cuMemcpyHtoDAsync", &entry, 13000, 0, nullptr);
  auto copy = reinterpret_cast<Copy>(entry);

  cudaStream_t stream = nullptr;
  REQUIRE(hooks.streams().create(cuda.api(), &stream, cudaStreamNonBlocking, 0) == cudaSuccess);
  CHECK(launch(nullptr, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr) == CUDA_SUCCESS);
  CHECK(*launches == 1);
  CHECK(hooks.totals().foreignHigh == 1);

  // Calls inside of a hook's call count as the hooks' own.
  {
    hooks::InHook inside;
    launch(nullptr, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr);
  }
  CHECK(hooks.totals().foreignHigh == 1);

  REQUIRE(hooks.streams().setClass(cuda.api(), stream, true) == cudaSuccess);
  // Calls behind a queued operation wait for it.
  std::atomic<bool> ended{false};
  auto slow = [&] {
    std::this_thread::sleep_for(20ms);
    ended = true;
    return cudaSuccess;
  };
  hooks::StreamState state;
  hooks.served().engine()->submit(state, [] {
    std::this_thread::sleep_for(5ms);
    return cudaSuccess;
  });
  hooks.rules().queue(cuda.api(), stream, [] { return true; }, slow);
  copy(0, &hooks, 1, stream);
  CHECK(ended);
  CHECK(*copies == 1);
  ended = false;
  hooks.served().engine()->submit(state, slow);
  launch(nullptr, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr);
  CHECK(ended);
  CHECK(*launches == 3);
  CHECK(hooks.totals().foreignBestEffort == 1);
}

TEST_CASE("a library's fill on a best-effort stream is made later; what cannot be is waited for") {
  test::FakeCuda &cuda = runtimeOfProcess();
  hooks::Hooks &hooks = hooks::Hooks::shared();
  Library library;
  auto fills = library.find<int>("fakeDriverFills");
  auto value = library.find<unsigned>("fakeDriverFillValue");
  auto filled = library.find<CUstream>("fakeDriverFillStream");
  void *entry = nullptr;
  REQUIRE(library.ask("cuMemsetD8Async", &entry, 13000, 0, nullptr) == CUDA_SUCCESS);
  auto fill8 = reinterpret_cast<PFN_cuMemsetD8Async_v3020>(entry);
  REQUIRE(library.ask("cuMemsetD32Async", &entry, 13000, 0, nullptr) == CUDA_SUCCESS);
  auto fill32 = reinterpret_cast<PFN_cuMemsetD32Async_v3020>(entry);
  cudaStream_t stream = nullptr;
  REQUIRE(hooks.streams().create(cuda.api(), &stream, cudaStreamNonBlocking, 0) == cudaSuccess);
  REQUIRE(hooks.streams().setClass(cuda.api(), stream, true) == cudaSuccess);
  void *memory = nullptr;
  REQUIRE(cuda.api().cudaMalloc(&memory, 64) == cudaSuccess);
  auto address = reinterpret_cast<CUdeviceptr>(memory);
  std::atomic<bool> mayEnd{false}, ended{false};
  auto hold = [&] {
    mayEnd = ended = false;
    hooks::StreamState other;
    hooks.served().engine()->submit(other, [&] {
      while (!mayEnd)
        std::this_thread::yield();
      return cudaSuccess;
    });
    auto end = [&] {
      ended = true;
      return cudaSuccess;
    };
    hooks.rules().queue(cuda.api(), stream, [] { return true; }, end);
  };
  auto checkQueued = [&](const std::function<CUresult()> &call, unsigned given) {
    hold();
    int before = *fills;
    CHECK(call() == CUDA_SUCCESS);
    CHECK(*fills == before);
    mayEnd = true;
    hooks.served().engine()->drain();
    CHECK(*fills == before + 1);
    CHECK(*value == given);
    CHECK(*filled != stream); // a lane's
  };
  checkQueued([&] { return fill8(address, 7, 64, stream); }, 7);
  checkQueued([&] { return fill32(address, 0x01020304, 16, stream); }, 0x01020304);

  // A call that may fail is made in its turn on the calling thread, so that the caller gets the
  // error.
  auto checkInTurn = [&](const std::function<CUresult()> &call) {
    hold();
    int before = *fills;
    std::thread release([&] {
      std::this_thread::sleep_for(5ms);
      mayEnd = true;
    });
    CHECK(call() == CUDA_SUCCESS);
    CHECK(ended);
    CHECK(*fills == before + 1);
    CHECK(*filled == stream);
    release.join();
  };
  checkInTurn([&] { return fill32(address + 2, 0, 15, stream); });  // it is not aligned
  checkInTurn([&] { return fill8(address + 4096, 0, 1, stream); }); // no memory of the device's
  cuda.api().cudaFree(memory);
}

TEST_CASE("a library's launch on a best-effort stream is made later, with the parameters it had") {
  test::FakeCuda &cuda = runtimeOfProcess();
  hooks::Hooks &hooks = hooks::Hooks::shared();
  Library library;
  auto launches = library.find<int>("fakeDriverLaunches");
  auto config = library.find<CUlaunchConfig>("fakeDriverConfig");
  auto number = library.find<int>("fakeDriverInt");
  auto real = library.find<double>("fakeDriverDouble");
  void *entry = nullptr;
  REQUIRE(library.ask("cuLaunchKernel", &entry, 13000, 0, nullptr) == CUDA_SUCCESS);
  auto launch = reinterpret_cast<Launch>(entry);
  REQUIRE(library.ask("cuLaunchKernelEx", &entry, 13000, 0, nullptr) == CUDA_SUCCESS);
  auto launchEx =
      reinterpret_cast<CUresult (*)(const CUlaunchConfig *, CUfunction, void **, void **)>(entry);

  cudaStream_t stream = nullptr, other = nullptr;
  REQUIRE(hooks.streams().create(cuda.api(), &stream, cudaStreamNonBlocking, 0) == cudaSuccess);
  REQUIRE(hooks.streams().create(cuda.api(), &other, cudaStreamNonBlocking, 0) == cudaSuccess);
  REQUIRE(hooks.streams().setClass(cuda.api(), stream, true) == cudaSuccess);
  hooks::BestEffortEngine &engine = *hooks.served().engine();
  CUfunction function = nullptr;
  SUBCASE("given as a CUfunction") {
    function = reinterpret_cast<CUfunction>(std::uintptr_t{0x77});
  }
  SUBCASE("given as a CUkernel") { function = reinterpret_cast<CUfunction>(std::uintptr_t{0x78}); }
  std::atomic<bool> mayEnd{false};
  auto hold = [&] {
    mayEnd = false;
    hooks::StreamState state;
    engine.submit(state, [&] {
      while (!mayEnd)
        std::this_thread::yield();
      return cudaSuccess;
    });
  };
  int before = *launches;
  {
    hold();
    int first = 41;
    double second = 2.5;
    void *parameters[] = {&first, &second};
    CHECK(launch(function, 3, 2, 1, 32, 4, 1, 512, stream, parameters, nullptr) == CUDA_SUCCESS);
    CHECK(*launches == before); // the launch is queued, and the parameters may be freed
    first = 0;
    second = 0;
  }
  mayEnd = true;
  engine.drain();
  CHECK(*launches == before + 1);
  CHECK(*number == 41);
  CHECK(*real == 2.5);
  CHECK(config->gridDimX == 3);
  CHECK(config->gridDimY == 2);
  CHECK(config->blockDimY == 4);
  CHECK(config->sharedMemBytes == 512);
  CHECK(config->hStream != stream); // a lane's

  struct {
    int first = 7;
    double second = 0.25;
  } buffer;
  std::size_t size = sizeof buffer;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  CUlaunchAttribute attributes[2] = {};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attributes[0].value.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
  attributes[1].value.sharedMemCarveout = 50;
  CUlaunchConfig given{};
  given.gridDimX = given.gridDimY = given.gridDimZ = 1;
  given.blockDimX = 64;
  given.blockDimY = given.blockDimZ = 1;
  given.hStream = stream;
  given.attrs = attributes;
  given.numAttrs = 2;
  CHECK(launchEx(&given, function, nullptr, extra) == CUDA_SUCCESS);
  engine.drain();
  CHECK(*launches == before + 2);
  CHECK(*number == 7);
  CHECK(*real == 0.25);
  CHECK(config->numAttrs == 1); // a kernel that cannot start early needs no such attribute

  // The caller makes these launches itself: a launch that depends on others, and a launch that
  // fails.
  using Reason = hooks::InTurnReason;
  const hooks::InTurnCounts &inTurn = hooks.libraries().inTurnCounts();
  std::uint64_t attributesBefore = inTurn.of(Reason::Attributes);
  std::uint64_t failingBefore = inTurn.of(Reason::WouldFail);
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
  int third = 9;
  double fourth = 1;
  void *parameters[] = {&third, &fourth};
  CHECK(launchEx(&given, function, parameters, nullptr) == CUDA_SUCCESS);
  CHECK(*launches == before + 3);
  CHECK(config->hStream == stream);
  given.numAttrs = 0;
  auto checkInTurn = [&](CUfunction kernel, Dim3 grid, Dim3 block) {
    CAPTURE(block.z);
    given.gridDimX = grid.x;
    given.gridDimY = grid.y;
    given.blockDimX = block.x;
    given.blockDimZ = block.z;
    int made = *launches;
    CHECK(launchEx(&given, kernel, parameters, nullptr) == CUDA_SUCCESS);
    CHECK(*launches == made + 1);
    CHECK(config->hStream == stream);
  };
  checkInTurn(function, {1, 1, 1}, {512, 1, 1}); // more threads than the kernel supports
  checkInTurn(function, {1, 1, 1}, {1, 1, 65});
  checkInTurn(function, {0x80000000, 1, 1}, {1, 1, 1});
  auto paired = reinterpret_cast<CUfunction>(std::uintptr_t{0x79});
  checkInTurn(paired, {3, 1, 1}, {1, 1, 1});
  engine.drain();

  // A failed launch has put no work on the stream.
  given.gridDimX = 1;
  given.gridDimY = 65536;
  auto idle = [] { return cudaSuccess; };
  for (int i = 0; i < 20; ++i) {
    CHECK(launchEx(&given, function, parameters, nullptr) == CUDA_ERROR_INVALID_VALUE);
    CHECK(hooks.streams().query(cuda.api(), stream, idle) == cudaSuccess);
  }
  engine.drain();
  CHECK(inTurn.of(Reason::Attributes) == attributesBefore + 1);
  CHECK(inTurn.of(Reason::WouldFail) == failingBefore + 24);
}

TEST_CASE("launches that libraries make in turn are said with their reasons") {
  hooks::InTurnCounts counts;
  CHECK(counts.statistics().empty());
  counts.add(hooks::InTurnReason::Parameters);
  counts.add(hooks::InTurnReason::OtherContext);
  counts.add(hooks::InTurnReason::Parameters);
  CHECK(counts.statistics() == "3 (parameters 2, another context 1)");
}

TEST_CASE("a name whose parameters changed is wrapped as the version asked for has them") {
  Library library;
  auto synchronized = library.find<CUcontext>("fakeDriverSynchronized");
  auto context = reinterpret_cast<CUcontext>(std::uintptr_t{42});
  using Synchronize = CUresult (*)(CUcontext);

  void *entry = nullptr;
  REQUIRE(library.ask("cuCtxSynchronize", &entry, 13000, 0, nullptr) == CUDA_SUCCESS);
  CHECK(reinterpret_cast<Synchronize>(entry)(context) == CUDA_SUCCESS);
  CHECK(*synchronized == context);
  *synchronized = nullptr;
  entry = dlsym(library.handle, "cuCtxSynchronize_v2");
  CHECK(reinterpret_cast<Synchronize>(entry)(context) == CUDA_SUCCESS);
  CHECK(*synchronized == context);

  REQUIRE(library.ask("cuCtxSynchronize", &entry, 12080, 0, nullptr) == CUDA_SUCCESS);
  CHECK(reinterpret_cast<CUresult (*)()>(entry)() == CUDA_SUCCESS);
  CHECK(*synchronized == nullptr);
}

TEST_CASE("the driver's own functions are known, and no wrapper is taken for one") {
  Library library;
  void *wrapper = dlsym(library.handle, "cuGetProcAddress_v2");
  void *own = runtime::driverExports()->find("cuGetProcAddress_v2");
  CHECK(own == *library.find<void *>("fakeDriverGetProcAddress"));
  CHECK(wrapper != own);
  // A runtime that has a wrapper of the driver's function returns the wrapper.
  void *launch = nullptr;
  library.ask("cuLaunchKernel", &launch, 13000, 0, nullptr);
  CHECK(hooks::wrappedEntry("cuLaunchKernel", 13000, false, launch) == launch);
  auto launches = library.find<int>("fakeDriverLaunches");
  int before = *launches;
  hooks::InHook inside;
  reinterpret_cast<Launch>(launch)(nullptr, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr);
  CHECK(*launches == before + 1);

  CUresult (*again)(CUcontext) = nullptr;
  void *synchronize = dlsym(library.handle, "cuCtxSynchronize_v2");
  CHECK(hooks::wrappedEntry("cuCtxSynchronize", 13000, false, synchronize) == synchronize);
  void *real = runtime::driverExports()->find("cuCtxSynchronize_v2");
  CHECK(hooks::wrappedEntry("cuCtxSynchronize", 13000, false, real) == synchronize);
  CHECK(hooks::wrappedExport("cuCtxSynchronize_v2", synchronize) == synchronize);
  again = reinterpret_cast<CUresult (*)(CUcontext)>(synchronize);
  CHECK(again(nullptr) == CUDA_SUCCESS); // and does not call itself
}

TEST_CASE("other symbols are as they were") {
  CHECK(dlsym(RTLD_DEFAULT, "printf") == reinterpret_cast<void *>(&std::printf));
  CHECK(dlsym(RTLD_DEFAULT, "cuThereIsNone") == nullptr);
  CHECK(dlsym(RTLD_NEXT, "malloc") != nullptr);
}
