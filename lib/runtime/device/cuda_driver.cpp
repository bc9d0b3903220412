#include "device/cuda_driver.h"

#include "device/driver_exports.h"

#include <dlfcn.h>
#include <string_view>

namespace tally::runtime {

#define TALLY_CUDA_TEXT_(name) #name
#define TALLY_CUDA_TEXT(name) TALLY_CUDA_TEXT_(name)

namespace {

void *openDriver() {
  static void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library;
}

/// Finds the driver's own function, even if the hooks have redirected the driver's exports.
void *findOwn(void *library, const char *symbol) {
  const DriverExports *hooked = driverExports();
  void *own = hooked ? hooked->find(symbol) : nullptr;
  return own ? own : dlsym(library, symbol);
}

Result<CudaDriver> lookUp() {
  void *library = openDriver();
  if (!library)
    return Error{std::string("no CUDA driver: ") + dlerror()};
  CudaDriver driver;
  std::string missing;
#define TALLY_CUDA_LOOK_UP(name)                                                                   \
  driver.TALLY_CUDA_MEMBER_(name) =                                                                \
      reinterpret_cast<decltype(&name)>(findOwn(library, TALLY_CUDA_TEXT(name)));                  \
  if (!driver.TALLY_CUDA_MEMBER_(name))                                                            \
    missing = TALLY_CUDA_TEXT(name);
  TALLY_CUDA_ENTRY_POINTS(TALLY_CUDA_LOOK_UP)
#undef TALLY_CUDA_LOOK_UP
  if (!missing.empty())
    return Error{"the CUDA driver is too old: it has no " + missing};
  return driver;
}

} // namespace

Result<const CudaDriver *> CudaDriver::load() {
  static const Result<CudaDriver> driver = lookUp();
  if (!driver)
    return driver.error();
  return &*driver;
}

void *CudaDriver::find(const char *symbol) {
  void *library = openDriver();
  return library ? findOwn(library, symbol) : nullptr;
}

Error CudaDriver::failure(const char *call, CUresult code) const {
  const char *name = nullptr, *text = nullptr;
  std::string message = std::string(call) + ": ";
  if (TALLY_CUDA_ENTRY(cuGetErrorName)(code, &name) != CUDA_SUCCESS || !name)
    return {message + "error " + std::to_string(static_cast<int>(code))};
  message += name;
  if (TALLY_CUDA_ENTRY(cuGetErrorString)(code, &text) == CUDA_SUCCESS && text)
    message += std::string(" (") + text + ")";
  return {message};
}

} // namespace tally::runtime
