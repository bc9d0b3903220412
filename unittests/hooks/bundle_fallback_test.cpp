// A module whose bundle is stale or damaged: one warning, and the user's kernel runs.
#include "fake_cuda.h"
#include "hooks.h"

#include <doctest/doctest.h>

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <string>

using namespace tally;

namespace {

/// What `body` writes to standard error.
template <class Body> std::string captured(Body body) {
  std::FILE *file = std::tmpfile();
  int kept = dup(2);
  dup2(fileno(file), 2);
  body();
  std::fflush(stderr);
  dup2(kept, 2);
  close(kept);
  std::rewind(file);
  std::string text;
  for (int c; (c = std::fgetc(file)) != EOF;)
    text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

std::size_t count(const std::string &text, const std::string &what) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at)
    ++found;
  return found;
}

} // namespace

TEST_CASE("a bundle that cannot be used leaves the user's kernels, with one warning") {
  test::FakeCuda cuda;
  bool ran = false;
  cuda.addKernel("mix", {{8, 4}, [&](const test::FakeLaunch &) { ran = true; }});
  void *module = dlopen(TALLY_MODULE, RTLD_NOW);
  REQUIRE(module);
  void *wrapper = dlsym(module, "testWrapper");
  REQUIRE(wrapper);
  hooks::Settings settings;
  settings.bestEffort = settings.emulator = true;
  hooks::Hooks hooks(settings);
  static char symbol;
  std::string said = captured([&] {
    for (int i = 0; i < 2; ++i) {
      void **handle = hooks.registered().registerFatBinary(cuda.api(), wrapper);
      cuda.api().__cudaRegisterFunction(handle, &symbol, nullptr, "mix", -1, nullptr, nullptr,
                                        nullptr, nullptr, nullptr);
      hooks.registered().registerFunction(cuda.api(), handle, &symbol, "mix");
    }
  });
  bool stale = std::string(TALLY_EXPECTED) == "stale";
  CHECK(count(said, "tally: ") == 1);
  CHECK(count(said, stale ? "no bundle belongs to" : "damaged bundle: at byte") == 1);
  std::uint64_t cell = 0, *pointer = &cell;
  std::uint32_t value = 1;
  void *arguments[] = {&pointer, &value};
  cudaError_t launched = hooks.launch(
      cuda.api(), nullptr,
      [&] { return hooks::LaunchRequest{&symbol, dim3(1), dim3(32), 0, {}, arguments}; },
      [&] { return cudaErrorUnknown; });
  CHECK(launched == cudaSuccess);
  CHECK(hooks.synchronizeDevice(cuda.api()) == cudaSuccess);
  CHECK(ran);
  CHECK(hooks.totals().whole == 1);
  CHECK(hooks.totals().throughVariants == 0);
  hooks.running()->retire();
  cuda.settle();
}
