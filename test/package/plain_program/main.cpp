#ifdef LOADS
#include <dlfcn.h>
#endif
#ifdef EMBEDS
#include "tally/tally.h"
#endif
#include <cstdio>

extern "C" int sumOfSquares(int n);

int main() {
#ifdef EMBEDS
  tally_options options = tally_default_options();
  options.device = "emulator";
  tally_runtime *runtime = nullptr;
  if (tally_open(&options, &runtime) != TALLY_OK) {
    std::puts(tally_last_error());
    return 1;
  }
#endif
#ifdef LOADS
  void *library = dlopen(LOADS, RTLD_NOW | RTLD_LOCAL);
  auto call = library ? reinterpret_cast<int (*)(int)>(dlsym(library, "sumOfSquares")) : nullptr;
  if (!call)
    return 1;
#else
  auto call = sumOfSquares;
#endif
  std::printf("sum %d\n", call(100));
#ifdef EMBEDS
  tally_close(runtime);
#endif
}
