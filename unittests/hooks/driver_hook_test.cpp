// The driver-level hook: what a library that was not linked with the hooks gets of dlsym.
#include "fake_cuda.h"
#include "hooks.h"

#include <cuda.h>

#include <doctest/doctest.h>

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>

using namespace tally;
using namespace std::chrono_literals;

namespace {

using GetProcAddress = CUresult (*)(const char *, void **, int, cuuint64_t,
                                    CUdriverProcAddressQueryResult *);
using Launch = CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, CUstream, void **, void **);
using Copy = CUresult (*)(CUdeviceptr, const void *, size_t, CUstream);

} // namespace

TEST_CASE("launches of libraries are counted and attributed by their stream") {
  test::FakeCuda cuda;
  hooks::Hooks &hooks = hooks::Hooks::shared();
  hooks.hooked(cuda.api());
  void *library = dlopen(TALLY_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library);
  auto launches = static_cast<int *>(dlsym(library, "fakeDriverLaunches"));
  auto copies = static_cast<int *>(dlsym(library, "fakeDriverCopies"));
  REQUIRE(launches);

  auto ask = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  void *entry = nullptr, *plain = nullptr, *other = nullptr;
  REQUIRE(ask("cuLaunchKernel", &entry, 13000, 0, nullptr) == CUDA_SUCCESS);
  plain = dlsym(library, "cuLaunchKernelFake");
  CHECK(entry != plain);
  ask("cuSomethingElse", &other, 13000, 0, nullptr);
  CHECK(other == dlsym(library, "cuOtherFake"));
  auto launch = reinterpret_cast<Launch>(entry);
  ask("cuMemcpyHtoDAsync", &entry, 13000, 0, nullptr);
  auto copy = reinterpret_cast<Copy>(entry);

  cudaStream_t stream = nullptr;
  REQUIRE(hooks.createStream(cuda.api(), &stream, cudaStreamNonBlocking, 0) == cudaSuccess);
  CHECK(launch(nullptr, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr) == CUDA_SUCCESS);
  CHECK(*launches == 1);
  CHECK(hooks.totals().foreignHigh == 1);

  // Inside of a call of the hooks it is theirs already.
  {
    hooks::InHook inside;
    launch(nullptr, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr);
  }
  CHECK(hooks.totals().foreignHigh == 1);

  REQUIRE(hooks.setClass(cuda.api(), stream, true) == cudaSuccess);
  // Behind something that is queued they wait for it.
  std::atomic<bool> ended{false};
  auto slow = [&] {
    std::this_thread::sleep_for(20ms);
    ended = true;
    return cudaSuccess;
  };
  hooks::StreamState state;
  hooks.running()->submit(state, slow);
  copy(0, nullptr, 0, stream);
  CHECK(ended);
  CHECK(*copies == 1);
  ended = false;
  hooks.running()->submit(state, slow);
  launch(nullptr, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr);
  CHECK(ended);
  CHECK(*launches == 3);
  CHECK(hooks.totals().foreignBestEffort == 1);
  hooks.running()->retire();
  cuda.settle();
}

TEST_CASE("a name whose parameters changed is wrapped as the version asked for has them") {
  void *library = dlopen(TALLY_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library);
  auto synchronized = static_cast<CUcontext *>(dlsym(library, "fakeDriverSynchronized"));
  auto ask = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  auto context = reinterpret_cast<CUcontext>(std::uintptr_t{42});
  using Synchronize = CUresult (*)(CUcontext);

  void *entry = nullptr;
  REQUIRE(ask("cuCtxSynchronize", &entry, 13000, 0, nullptr) == CUDA_SUCCESS);
  CHECK(reinterpret_cast<Synchronize>(entry)(context) == CUDA_SUCCESS);
  CHECK(*synchronized == context);
  *synchronized = nullptr;
  entry = dlsym(library, "cuCtxSynchronize_v2");
  CHECK(reinterpret_cast<Synchronize>(entry)(context) == CUDA_SUCCESS);
  CHECK(*synchronized == context);

  REQUIRE(ask("cuCtxSynchronize", &entry, 12080, 0, nullptr) == CUDA_SUCCESS);
  CHECK(reinterpret_cast<CUresult (*)()>(entry)() == CUDA_SUCCESS);
  CHECK(*synchronized == nullptr);
}

TEST_CASE("other symbols are the C library's answers, the next one included") {
  CHECK(dlsym(RTLD_DEFAULT, "printf") == reinterpret_cast<void *>(&std::printf));
  CHECK(dlsym(RTLD_DEFAULT, "cuThereIsNone") == nullptr);
  CHECK(dlsym(RTLD_NEXT, "malloc") != nullptr);
}
