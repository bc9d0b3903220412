// Device code that was linked from two parts, one of them a library without rewriting: the hooks
// warn when a kernel of the library is launched, and not before.
#include "captured.h"
#include "fake_cuda.h"
#include "process/hooks.h"

#include "tally/bundle/fatbin.h"

#include <doctest/doctest.h>

using namespace tally;

extern "C" const char testContainer[];

TEST_CASE("a library without a bundle is warned about when one of its kernels is launched") {
  test::FakeCuda cuda;
  int launches = 0;
  for (const char *name : {"plain", "of_library"})
    cuda.addKernel(name, {{8, 4}, [&](const test::FakeLaunch &) { ++launches; }});
  // A container with only a header: the hooks read no entries here.
  alignas(8) static const std::uint32_t library[] = {bundle::fatbinMagic, 0x00100001, 8, 0, 7, 7};
  static const void *const parts[] = {testContainer, library, nullptr};
  static hooks::FatbinWrapper wrapper{bundle::fatbinWrapperMagic, 2, testContainer, parts};
  hooks::Settings settings;
  settings.bestEffort = settings.emulator.isOn = true;
  settings.runAheadMicroseconds = 0;
  hooks::Hooks hooks(settings);
  static char symbols[2];
  void **handle = nullptr;
  auto add = [&](char *symbol, const char *name) {
    cuda.api().__cudaRegisterFunction(handle, symbol, nullptr, name, -1, nullptr, nullptr, nullptr,
                                      nullptr, nullptr);
    hooks.registered().registerFunction(cuda.api(), handle, symbol, name);
  };
  auto launch = [&](char *symbol) {
    std::uint64_t cell = 0, *pointer = &cell;
    std::uint32_t value = 1;
    void *arguments[] = {&pointer, &value};
    return test::captured([&] {
      CHECK(hooks.launch(
                cuda.api(), nullptr,
                [&] { return hooks::LaunchRequest{symbol, dim3(1), dim3(32), 0, {}, arguments}; },
                [&] { return cudaErrorUnknown; }) == cudaSuccess);
      CHECK(hooks.synchronizeDevice(cuda.api()) == cudaSuccess);
    });
  };
  std::string said = test::captured([&] {
    handle = hooks.registered().registerFatBinary(cuda.api(), &wrapper);
    add(&symbols[0], "plain");
    add(&symbols[1], "of_library");
  });
  CHECK(said == "");
  said = launch(&symbols[0]);
  CHECK(test::count(said, "no bundle belongs to") == 0);
  CHECK(test::count(said, "no kernel of the program has a variant") == 1);
  CHECK(test::count(launch(&symbols[1]), "no bundle belongs to") == 1);
  CHECK(launch(&symbols[1]) == "");
  CHECK(launches == 3);
  hooks.served().engine()->retire();
  cuda.settle();
}
