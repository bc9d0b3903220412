// The enabled library calls a product in a library that it opens itself.
#include <cstdio>

#include <dlfcn.h>

using Product = int (*)(void *, const float *, const float *, float *, int);
extern "C" int test(Product product);
extern "C" int run() {
  void *library = dlopen(TALLY_PRODUCT, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    std::puts(dlerror());
    return 1;
  }
  return test(reinterpret_cast<Product>(dlsym(library, "product")));
}
