// Initialisation, errors, and the registrations of nvcc's objects.
#include "runtime.h"

#include "tally/bundle/fatbin.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tally::preload_runtime {

namespace {

constinit thread_local cudaError_t lastError = cudaSuccess;

std::optional<Driver> foundDriver() {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  void *entry = library ? dlsym(library, "cuGetProcAddress_v2") : nullptr;
  if (!entry)
    return std::nullopt;
  auto find = reinterpret_cast<decltype(&::cuGetProcAddress)>(entry);
  Driver driver;
  auto get = [&](const char *name, auto *&function) {
    void *found = nullptr;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    // From 13.0 on cuCtxSynchronize has a further parameter.
    bool isFound =
        find(name, &found, 12080, CU_GET_PROC_ADDRESS_DEFAULT, &status) == CUDA_SUCCESS && found;
    if (!isFound)
      std::fprintf(stderr, "the driver has no %s\n", name);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
    return isFound;
  };
  bool isWhole = true;
#define CALL(name) isWhole &= get(#name, driver.name);
#include "calls.def"
  CUdevice device = 0;
  bool isStarted = isWhole && driver.cuInit(0) == CUDA_SUCCESS &&
                   driver.cuDeviceGet(&device, 0) == CUDA_SUCCESS &&
                   driver.cuDevicePrimaryCtxRetain(&driver.context, device) == CUDA_SUCCESS;
  return isStarted ? std::optional(driver) : std::nullopt;
}

/// Whether the runtime gives the driver the PTX text of images, for which the preloaded library
/// makes variants; otherwise it gives the whole fatbins.
bool givesPtx() {
  const char *images = std::getenv("PRELOAD_CUDART_IMAGES");
  return images && std::strcmp(images, "ptx") == 0;
}

/// Returns the PTX in the fatbin of a wrapper; empty if there is none.
std::string ptxOf(const void *wrapper) {
  const void *container = nullptr;
  std::memcpy(&container, static_cast<const char *>(wrapper) + 8, sizeof container);
  auto bytes = bundle::fatbinAt(container);
  if (!bytes)
    return {};
  if (auto read = bundle::readFatbin(*bytes))
    for (const bundle::FatbinEntry &each : read->entries)
      if (each.kind == bundle::FatbinKind::Ptx)
        if (auto text = bundle::decompress(each))
          return *text;
  return {};
}

/// The code and symbols that one object has registered.
struct Module {
  const void *wrapper;
  bool hasFunctions = false; ///< launches name its kernels by their CUfunctions
  bool wasTried = false;
  cudaError_t error = cudaSuccess; ///< of the loading
  CUlibrary library = nullptr;
};

struct Symbol {
  Module *module;
  std::string name;
};

struct Registered {
  static Registered &get() {
    static auto *only = new Registered;
    return *only;
  }

  std::mutex mutex; ///< guards what follows
  std::vector<std::unique_ptr<Module>> modules;
  std::unordered_map<const void *, Symbol> symbols;
  std::unordered_map<const void *, Kernel> kernels;

  /// Loads the symbol's code, and runs `find(module, name)`.
  template <class Find> cudaError_t find(const Driver &driver, const void *symbol, Find find) {
    auto found = symbols.find(symbol);
    if (found == symbols.end())
      return cudaErrorInvalidSymbol;
    Module &module = *found->second.module;
    if (!std::exchange(module.wasTried, true)) {
      std::string text = givesPtx() ? ptxOf(module.wrapper) : "";
      module.error = codeOf(driver.cuLibraryLoadData(&module.library,
                                                     text.empty() ? module.wrapper : text.c_str(),
                                                     nullptr, nullptr, 0, nullptr, nullptr, 0));
    }
    return module.error == cudaSuccess ? codeOf(find(module, found->second.name.c_str()))
                                       : module.error;
  }
};

/// The configuration that `<<<>>>` leaves for the stub that it calls next.
struct Configuration {
  dim3 grid, block;
  std::size_t shared = 0;
  void *stream = nullptr;
};
thread_local std::vector<Configuration> configurations;

void registerSymbol(void **module, const void *host, const char *name) {
  Registered &all = Registered::get();
  std::scoped_lock lock(all.mutex);
  all.symbols[host] = {reinterpret_cast<Module *>(module), name};
}

} // namespace

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess)
    lastError = error;
  return error;
}

const Driver *startedDriver() {
  static const std::optional<Driver> driver = foundDriver();
  constinit thread_local bool isCurrent = false;
  if (driver && !isCurrent)
    isCurrent = driver->cuCtxSetCurrent(driver->context) == CUDA_SUCCESS;
  return isCurrent ? &*driver : nullptr;
}

cudaError_t kernelOf(const Driver &driver, const void *function, Kernel &result) {
  Registered &all = Registered::get();
  std::scoped_lock lock(all.mutex);
  Kernel &known = all.kernels[function];
  cudaError_t error = cudaSuccess;
  if (!known.kernel)
    error = all.find(driver, function, [&](Module &module, const char *name) {
      CUresult found = driver.cuLibraryGetKernel(&known.kernel, module.library, name);
      return found == CUDA_SUCCESS && module.hasFunctions
                 ? driver.cuKernelGetFunction(&known.function, known.kernel)
                 : found;
    });
  result = known;
  return error == cudaErrorInvalidSymbol ? cudaErrorInvalidDeviceFunction : error;
}

cudaError_t variableOf(const Driver &driver, const void *symbol, CUdeviceptr &result) {
  Registered &all = Registered::get();
  std::scoped_lock lock(all.mutex);
  return all.find(driver, symbol, [&](Module &module, const char *name) {
    return driver.cuLibraryGetGlobal(&result, nullptr, module.library, name);
  });
}

} // namespace tally::preload_runtime

using namespace tally::preload_runtime;

extern "C" {

// The functions that nvcc's objects call
// -----------------------------------------------------------

void **__cudaRegisterFatBinary(void *wrapper) {
  Registered &all = Registered::get();
  std::scoped_lock lock(all.mutex);
  all.modules.push_back(std::make_unique<Module>(Module{wrapper, all.modules.size() % 2 == 1}));
  return reinterpret_cast<void **>(all.modules.back().get());
}
void __cudaRegisterFatBinaryEnd(void **) {}
/// Called at the program's end; the code goes with the context.
void __cudaUnregisterFatBinary(void **) {}

void __cudaRegisterFunction(void **module, const char *host, char *, const char *name, int, uint3 *,
                            uint3 *, dim3 *, dim3 *, int *) {
  registerSymbol(module, host, name);
}
void __cudaRegisterVar(void **module, char *host, char *, const char *name, int, size_t, int, int) {
  registerSymbol(module, host, name);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  if (configurations.empty())
    return remember(cudaErrorMissingConfiguration);
  const Configuration &last = configurations.back();
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<void **>(stream) = last.stream;
  configurations.pop_back();
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t *result, const void *function) {
  return served([&](const Driver &driver) {
    Kernel kernel;
    cudaError_t error = kernelOf(driver, function, kernel);
    *result = kernel.kernel;
    return error;
  });
}

// Errors ------------------------------------------------------------------------------------------

cudaError_t cudaGetLastError() { return std::exchange(lastError, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return lastError; }
const char *cudaGetErrorName(cudaError_t error) {
  const Driver *driver = startedDriver();
  const char *name = nullptr;
  if (driver)
    driver->cuGetErrorName(static_cast<CUresult>(error), &name);
  return name ? name : "unrecognized error code";
}
const char *cudaGetErrorString(cudaError_t error) {
  const Driver *driver = startedDriver();
  const char *text = nullptr;
  if (driver)
    driver->cuGetErrorString(static_cast<CUresult>(error), &text);
  return text ? text : "unrecognized error code";
}

} // extern "C"
