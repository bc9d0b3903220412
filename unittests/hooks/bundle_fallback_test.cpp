// A module whose bundle is stale or damaged: one warning, and the user's kernel runs.
#include "captured.h"
#include "fake_cuda.h"
#include "process/hooks.h"

#include <doctest/doctest.h>

#include <dlfcn.h>
#include <string>

using namespace tally;

TEST_CASE("a bundle that cannot be used leaves the user's kernels, with one warning") {
  test::FakeCuda cuda;
  bool ran = false;
  cuda.addKernel("mix", {{8, 4}, [&](const test::FakeLaunch &) { ran = true; }});
  void *module = dlopen(TALLY_MODULE, RTLD_NOW);
  REQUIRE(module);
  void *wrapper = dlsym(module, "testWrapper");
  REQUIRE(wrapper);
  hooks::Settings settings;
  settings.bestEffort = settings.emulator.isOn = true;
  settings.runAheadMicroseconds = 0;
  hooks::Hooks hooks(settings);
  static char symbol;
  std::uint64_t cell = 0, *pointer = &cell;
  std::uint32_t value = 1;
  void *arguments[] = {&pointer, &value};
  cudaError_t launched = cudaErrorUnknown, synchronized = cudaErrorUnknown;
  std::string said = test::captured([&] {
    for (int i = 0; i < 2; ++i) {
      void **handle = hooks.registered().registerFatBinary(cuda.api(), wrapper);
      cuda.api().__cudaRegisterFunction(handle, &symbol, nullptr, "mix", -1, nullptr, nullptr,
                                        nullptr, nullptr, nullptr);
      hooks.registered().registerFunction(cuda.api(), handle, &symbol, "mix");
    }
    for (int i = 0; i < 2; ++i)
      launched = hooks.launch(
          cuda.api(), nullptr,
          [&] { return hooks::LaunchRequest{&symbol, dim3(1), dim3(32), 0, {}, arguments}; },
          [&] { return cudaErrorUnknown; });
    synchronized = hooks.synchronizeDevice(cuda.api());
  });
  bool stale = std::string(TALLY_EXPECTED) == "stale";
  CHECK(test::count(said, stale ? "no bundle belongs to" : "damaged bundle: at byte") == 1);
  CHECK(test::count(said, "tally: ") == 1);
  CHECK(launched == cudaSuccess);
  CHECK(synchronized == cudaSuccess);
  CHECK(ran);
  CHECK(hooks.totals().nonPreemptible == 2);
  CHECK(hooks.totals().throughVariants == 0);
  hooks.served().engine()->retire();
  cuda.settle();
}
