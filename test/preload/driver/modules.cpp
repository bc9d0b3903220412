// Modules and libraries, which are the same here; and their kernels and functions, which are the
// same too.
#include "driver.h"
#include "machine_code.h"

#include "emulated_cuda/modules.h"

#include "tally/bundle/fatbin.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <unordered_set>

namespace tally::preload_driver {

namespace {

using hooks::emulated::Kernel;
using hooks::emulated::Module;
using hooks::emulated::Modules;

/// The loaded modules and libraries.
class Loaded {
public:
  static Loaded &get() {
    static auto *only = new Loaded;
    return *only;
  }

  void add(Module *module) {
    std::scoped_lock lock(mutex);
    all.insert(module);
  }
  /// Returns false where the module is not loaded, or not any more.
  bool remove(Module *module) {
    std::scoped_lock lock(mutex);
    return all.erase(module) != 0;
  }
  bool holds(Module *module) {
    std::scoped_lock lock(mutex);
    return all.contains(module);
  }

private:
  std::mutex mutex;
  std::unordered_set<Module *> all;
};

/// Loads a fatbin, a wrapper of one, PTX text or what links make (links.cpp) at once, so that the
/// program may free it.
template <class Handle> CUresult loaded(Handle *result, const void *image) {
  if (!result || !image)
    return CUDA_ERROR_INVALID_VALUE;
  if (std::memcmp(image, "\177ELF", 4) == 0)
    image = textOf(image);
  if (!image)
    return CUDA_ERROR_NO_BINARY_FOR_GPU; // machine code alone
  Module *module = Modules::get().addImage(image);
  cudaError_t error = Modules::get().load(*module);
  if (error != cudaSuccess)
    return codeOf(error);
  Loaded::get().add(module);
  *result = reinterpret_cast<Handle>(module);
  return CUDA_SUCCESS;
}

CUresult loadedFile(CUmodule *result, const char *path) {
  std::ifstream file(path ? path : "", std::ios::binary);
  if (!file)
    return CUDA_ERROR_FILE_NOT_FOUND;
  std::string image(std::istreambuf_iterator<char>(file), {});
  return loaded(result, image.c_str());
}

/// Runs `call(module)` on the module of a handle.
template <class Handle, class Call> CUresult withModule(Handle handle, Call call) {
  auto *module = reinterpret_cast<Module *>(handle);
  return Loaded::get().holds(module) ? codeOf(call(*module)) : CUDA_ERROR_INVALID_HANDLE;
}

/// Waits for running work, and forgets the code.
template <class Handle> CUresult unloaded(Handle handle) {
  auto *module = reinterpret_cast<Module *>(handle);
  if (!Loaded::get().remove(module))
    return CUDA_ERROR_INVALID_HANDLE;
  cudaError_t error = runtime().cudaDeviceSynchronize();
  if (error == cudaSuccess)
    Modules::get().unload(*module);
  return codeOf(error);
}

template <class Handle, class Owner>
CUresult kernelNamed(Handle *result, Owner owner, const char *name) {
  if (!result || !name)
    return CUDA_ERROR_INVALID_VALUE;
  return withModule(owner, [&](Module &module) {
    Kernel *kernel = nullptr;
    cudaError_t error = Modules::get().kernelNamed(module, name, kernel);
    if (error == cudaSuccess)
      *result = reinterpret_cast<Handle>(kernel);
    return error;
  });
}

template <class Owner>
CUresult globalNamed(CUdeviceptr *address, std::size_t *bytes, Owner owner, const char *name) {
  if (!name)
    return CUDA_ERROR_INVALID_VALUE;
  return withModule(owner, [&](Module &module) {
    void *pointer = nullptr;
    cudaError_t error = runtime().cudaLibraryGetGlobal(
        &pointer, bytes, reinterpret_cast<cudaLibrary_t>(&module), name);
    if (error == cudaSuccess && address)
      *address = reinterpret_cast<CUdeviceptr>(pointer);
    return error;
  });
}

/// Runs `call(kernel)` on the kernel of either handle.
template <class Handle, class Call> CUresult withKernel(Handle function, Call call) {
  Kernel *kernel = nullptr;
  cudaError_t error = Modules::get().kernel(function, kernel);
  return codeOf(error == cudaSuccess ? call(*kernel) : error);
}

CUresult attributeOf(int *value, CUfunction_attribute attribute, const void *function) {
  if (!value)
    return CUDA_ERROR_INVALID_VALUE;
  cudaFuncAttributes all;
  if (cudaError_t bad = runtime().cudaFuncGetAttributes(&all, function); bad != cudaSuccess)
    return codeOf(bad);
  const int values[] = {
      all.maxThreadsPerBlock,
      static_cast<int>(all.sharedSizeBytes),
      static_cast<int>(all.constSizeBytes),
      static_cast<int>(all.localSizeBytes),
      all.numRegs,
      all.ptxVersion,
      all.binaryVersion,
      all.cacheModeCA,
      all.maxDynamicSharedSizeBytes,
      all.preferredShmemCarveout,
      all.clusterDimMustBeSet,
      all.requiredClusterWidth,
      all.requiredClusterHeight,
      all.requiredClusterDepth,
      all.nonPortableClusterSizeAllowed,
      all.clusterSchedulingPolicyPreference,
  };
  static_assert(std::size(values) == CU_FUNC_ATTRIBUTE_MAX, "in the order of the attributes");
  if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  *value = values[attribute];
  return CUDA_SUCCESS;
}

cudaError_t setAttribute(const void *function, CUfunction_attribute attribute, int value) {
  return runtime().cudaFuncSetAttribute(function, static_cast<cudaFuncAttribute>(attribute), value);
}

} // namespace

} // namespace tally::preload_driver

using namespace tally::preload_driver;

extern "C" {

CUresult cuModuleLoadData(CUmodule *result, const void *image) {
  return inContext([&] { return loaded(result, image); });
}
CUresult cuModuleLoadDataEx(CUmodule *result, const void *image, unsigned, CUjit_option *,
                            void **) {
  return cuModuleLoadData(result, image);
}
CUresult cuModuleLoadFatBinary(CUmodule *result, const void *image) {
  return cuModuleLoadData(result, image);
}
CUresult cuModuleLoad(CUmodule *result, const char *path) {
  return inContext([&] { return loadedFile(result, path); });
}

CUresult cuModuleUnload(CUmodule module) {
  return inContext([&] { return unloaded(module); });
}
CUresult cuModuleGetFunction(CUfunction *result, CUmodule module, const char *name) {
  return inContext([&] { return kernelNamed(result, module, name); });
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
                              const char *name) {
  return inContext([&] { return globalNamed(address, bytes, module, name); });
}

// Libraries, which belong to no context
// ------------------------------------------------------------

CUresult cuLibraryLoadData(CUlibrary *result, const void *image, CUjit_option *, void **, unsigned,
                           CUlibraryOption *, void **, unsigned) {
  return started([&] { return loaded(result, image); });
}
CUresult cuLibraryUnload(CUlibrary library) {
  return started([&] { return unloaded(library); });
}
CUresult cuLibraryGetKernel(CUkernel *result, CUlibrary library, const char *name) {
  return started([&] { return kernelNamed(result, library, name); });
}
CUresult cuLibraryGetModule(CUmodule *result, CUlibrary library) {
  return inContext([&] {
    return withModule(library, [&](Module &module) {
      *result = reinterpret_cast<CUmodule>(&module);
      return cudaSuccess;
    });
  });
}
CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library,
                            const char *name) {
  return inContext([&] { return globalNamed(address, bytes, library, name); });
}

// Kernels -----------------------------------------------------------------------------------------

CUresult cuKernelGetFunction(CUfunction *result, CUkernel kernel) {
  return inContext([&] {
    return withKernel(kernel, [&](Kernel &found) {
      *result = reinterpret_cast<CUfunction>(&found);
      return cudaSuccess;
    });
  });
}
CUresult cuKernelGetName(const char **name, CUkernel kernel) {
  return started([&] { return runtime().cudaFuncGetName(name, kernel); });
}
CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice device) {
  return started([&] {
    return device == 0 ? attributeOf(value, attribute, kernel) : CUDA_ERROR_INVALID_DEVICE;
  });
}
CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice device) {
  return started([&] {
    return device == 0 ? setAttribute(kernel, attribute, value) : cudaErrorInvalidDevice;
  });
}
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *bytes) {
  return started([&] { return runtime().cudaFuncGetParamInfo(kernel, index, offset, bytes); });
}

// Functions ---------------------------------------------------------------------------------------

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  return inContext([&] { return attributeOf(value, attribute, function); });
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return inContext([&] { return setAttribute(function, attribute, value); });
}
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *bytes) {
  return inContext([&] { return runtime().cudaFuncGetParamInfo(function, index, offset, bytes); });
}
CUresult cuFuncGetName(const char **name, CUfunction function) {
  return inContext([&] { return runtime().cudaFuncGetName(name, function); });
}
CUresult cuFuncGetModule(CUmodule *result, CUfunction function) {
  return inContext([&] {
    return withKernel(function, [&](Kernel &found) {
      *result = reinterpret_cast<CUmodule>(found.module);
      return cudaSuccess;
    });
  });
}
CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) {
  return inContext([&] { return withKernel(function, [](Kernel &) { return cudaSuccess; }); });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                     size_t shared) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function,
                                                              int threads, size_t shared,
                                                              unsigned flags) {
  return inContext([&] {
    return runtime().cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function,
                                                                            threads, shared, flags);
  });
}

} // extern "C"
