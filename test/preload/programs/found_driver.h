// The CUDA driver, found in one of three ways: WAY_LINKED, by the linker; WAY_SYMBOLS, by dlopen
// and dlsym; WAY_PROC_ADDRESS, by dlopen and cuGetProcAddress. No CUDA runtime is involved.
#ifndef TALLY_TEST_PRELOAD_PROGRAMS_FOUND_DRIVER_H
#define TALLY_TEST_PRELOAD_PROGRAMS_FOUND_DRIVER_H

#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <iterator>
#include <string>

#define JOINED_(a, b) a##b
#define JOINED(a, b) JOINED_(a, b)
#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)

// The header's names are macros for the newest form: `cuMemAlloc` declares a member
// `cuMemAlloc_v2`, and later names it.
struct Driver {
#define CALL(name) decltype(&::name) name = nullptr;
#define THREAD_CALL(name, suffix) decltype(&::name) thread_##name = nullptr;
#include "calls.def"
};

#if defined(WAY_LINKED)

extern "C" {
#define CALL(name)
#define THREAD_CALL(name, suffix) decltype(::name) JOINED(name, suffix);
#include "calls.def"
}

inline Driver findDriver() {
  Driver driver;
#define CALL(name) driver.name = &::name;
#define THREAD_CALL(name, suffix) driver.thread_##name = &::JOINED(name, suffix);
#include "calls.def"
  return driver;
}

#else

inline void *symbolOf(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (!found) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  return found;
}

inline void *openedDriver() {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  return library;
}

#if defined(WAY_SYMBOLS)

inline Driver findDriver() {
  void *library = openedDriver();
  Driver driver;
#define CALL(name) driver.name = reinterpret_cast<decltype(&::name)>(symbolOf(library, TEXT(name)));
#define THREAD_CALL(name, suffix)                                                                  \
  driver.thread_##name =                                                                           \
      reinterpret_cast<decltype(&::name)>(symbolOf(library, TEXT(JOINED(name, suffix))));
#include "calls.def"
  return driver;
}

#else

inline void *addressOf(decltype(&::cuGetProcAddress) find, const char *name, cuuint64_t flags) {
  void *found = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  // From 13.0 on the forms of cuCtxSynchronize and cuCtxGetDevice have a further parameter.
  if (find(name, &found, 12080, flags, &status) != CUDA_SUCCESS || !found) {
    std::fprintf(stderr, "%s is not found\n", name);
    std::exit(1);
  }
  return found;
}

inline Driver findDriver() {
  auto find = reinterpret_cast<decltype(&::cuGetProcAddress)>(
      symbolOf(openedDriver(), TEXT(cuGetProcAddress)));
  Driver driver;
#define CALL(name)                                                                                 \
  driver.name =                                                                                    \
      reinterpret_cast<decltype(&::name)>(addressOf(find, #name, CU_GET_PROC_ADDRESS_DEFAULT));
#define THREAD_CALL(name, suffix)                                                                  \
  driver.thread_##name = reinterpret_cast<decltype(&::name)>(                                      \
      addressOf(find, #name, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));
#include "calls.def"
  return driver;
}

#endif
#endif

inline const Driver &driver() {
  static const Driver found = findDriver();
  return found;
}

inline const char *nameOf(CUresult code) {
  const char *name = nullptr;
  driver().cuGetErrorName(code, &name);
  return name ? name : "an unknown error";
}

/// Ends the program after a failed call.
inline void must(CUresult code, const char *call, int line) {
  if (code == CUDA_SUCCESS)
    return;
  std::fprintf(stderr, "line %d: %s: %s\n", line, call, nameOf(code));
  std::exit(1);
}
#define MUST(call) must(driver().call, #call, __LINE__)

/// Returns the build's file KERNELS with this ending.
inline std::string imageOf(const char *ending) {
  std::ifstream file(std::string(KERNELS) + ending, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

#endif
