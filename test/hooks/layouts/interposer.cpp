// A preloaded library with a launch function in front of the driver's, as libraries have that limit
// memory.
#include <cuda.h>

#include <cstdio>
#include <cstring>

#include <dlfcn.h>

extern "C" {

static int seen = 0;

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream, void **p,
                        void **extra) {
  static auto real = reinterpret_cast<decltype(&cuLaunchKernel)>(
      dlvsym(RTLD_NEXT, "dlsym", GLIBC_FIRST)
          ? reinterpret_cast<void *(*)(void *, const char *)>(
                dlvsym(RTLD_NEXT, "dlsym", GLIBC_FIRST))(dlopen("libcuda.so.1", RTLD_NOW),
                                                         "cuLaunchKernel")
          : nullptr);
  ++seen;
  return real(f, gx, gy, gz, bx, by, bz, shared, stream, p, extra);
}

void *dlsym(void *handle, const char *name) {
  static auto real =
      reinterpret_cast<void *(*)(void *, const char *)>(dlvsym(RTLD_NEXT, "dlsym", GLIBC_FIRST));
  if (std::strcmp(name, "cuLaunchKernel") == 0)
    return reinterpret_cast<void *>(&cuLaunchKernel);
  return real(handle, name);
}

__attribute__((destructor)) static void say() { std::printf("%d launches interposed\n", seen); }
}
