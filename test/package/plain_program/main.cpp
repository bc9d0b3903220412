#ifdef LOADS
#include <dlfcn.h>
#endif
#include <cstdio>

extern "C" int sumOfSquares(int n);

int main() {
#ifdef LOADS
  void *library = dlopen(LOADS, RTLD_NOW | RTLD_LOCAL);
  auto call = library ? reinterpret_cast<int (*)(int)>(dlsym(library, "sumOfSquares")) : nullptr;
  if (!call)
    return 1;
#else
  auto call = sumOfSquares;
#endif
  std::printf("sum %d\n", call(100));
}
