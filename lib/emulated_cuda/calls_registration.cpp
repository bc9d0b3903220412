// The calls that nvcc and clang put into every object, and the symbols that these calls register.
#include "calls.h"
#include "modules.h"

#include <vector>

namespace tally::hooks::emulated {

namespace {
Module *moduleOf(void **handle) { return reinterpret_cast<Module *>(handle); }

/// The configuration that `<<<>>>` leaves for the stub that it calls next.
struct Configuration {
  dim3 grid, block;
  size_t shared = 0;
  cudaStream_t stream = nullptr;
};
thread_local std::vector<Configuration> configurations;
} // namespace

void **Calls::__cudaRegisterFatBinary(void *wrapper) {
  return reinterpret_cast<void **>(Modules::get().add(wrapper));
}

void Calls::__cudaRegisterFatBinaryEnd(void **) {}

void Calls::__cudaUnregisterFatBinary(void **handle) { Modules::get().remove(moduleOf(handle)); }

void Calls::__cudaRegisterFunction(void **handle, const char *host, char *, const char *name, int,
                                   uint3 *, uint3 *, dim3 *, dim3 *, int *) {
  Modules::get().addKernel(moduleOf(handle), host, name);
}

void Calls::__cudaRegisterVar(void **handle, char *host, char *, const char *name, int,
                              size_t bytes, int, int) {
  Modules::get().addVariable(moduleOf(handle), host, name, bytes);
}

void Calls::__cudaRegisterManagedVar(void **handle, void **host, char *, const char *name, int,
                                     size_t bytes, int, int) {
  Modules::get().addManaged(moduleOf(handle), host, name, bytes);
}

char Calls::__cudaInitModule(void **handle) {
  if (Context::get().device())
    (void)Modules::get().load(*moduleOf(handle)); // later uses return the error again
  return 1;
}

unsigned Calls::__cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                            CUstream_st *stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t Calls::__cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
                                              void *stream) {
  if (configurations.empty())
    return remember(cudaErrorMissingConfiguration);
  const Configuration &last = configurations.back();
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<cudaStream_t *>(stream) = last.stream;
  configurations.pop_back();
  return cudaSuccess;
}

namespace {
template <class Handle> cudaError_t kernelHandle(Handle *result, const void *function) {
  return served([&](runtime::EmulatorDevice &) {
    Kernel *kernel = nullptr;
    cudaError_t error = Modules::get().kernel(function, kernel);
    if (error == cudaSuccess)
      *result = reinterpret_cast<Handle>(kernel);
    return error;
  });
}
} // namespace

cudaError_t Calls::__cudaGetKernel(cudaKernel_t *result, const void *function) {
  return kernelHandle(result, function);
}
cudaError_t Calls::cudaGetKernel(cudaKernel_t *result, const void *function) {
  return kernelHandle(result, function);
}
cudaError_t Calls::cudaGetFuncBySymbol(cudaFunction_t *result, const void *function) {
  return kernelHandle(result, function);
}

cudaError_t Calls::cudaGetSymbolAddress(void **address, const void *symbol) {
  return served([&](runtime::EmulatorDevice &) {
    emulator::ProgramVariable variable;
    cudaError_t error = Modules::get().variable(symbol, variable);
    if (error == cudaSuccess)
      *address = reinterpret_cast<void *>(variable.address);
    return error;
  });
}

cudaError_t Calls::cudaGetSymbolSize(size_t *bytes, const void *symbol) {
  return served([&](runtime::EmulatorDevice &) {
    emulator::ProgramVariable variable;
    cudaError_t error = Modules::get().variable(symbol, variable);
    if (error == cudaSuccess)
      *bytes = variable.bytes;
    return error;
  });
}

cudaError_t Calls::cudaLibraryLoadData(cudaLibrary_t *library, const void *code, cudaJitOption *,
                                       void **, unsigned, cudaLibraryOption *, void **, unsigned) {
  return served([&](runtime::EmulatorDevice &) {
    if (!library || !code)
      return cudaErrorInvalidValue;
    Module *module = Modules::get().addImage(code);
    cudaError_t error = Modules::get().load(*module);
    if (error == cudaSuccess)
      *library = reinterpret_cast<cudaLibrary_t>(module);
    return error;
  });
}

cudaError_t Calls::cudaLibraryUnload(cudaLibrary_t library) {
  return served([&](runtime::EmulatorDevice &) {
    Modules::get().remove(reinterpret_cast<Module *>(library));
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaLibraryGetKernel(cudaKernel_t *result, cudaLibrary_t library,
                                        const char *name) {
  return served([&](runtime::EmulatorDevice &) {
    Kernel *kernel = nullptr;
    cudaError_t error =
        Modules::get().kernelNamed(*reinterpret_cast<Module *>(library), name, kernel);
    if (error == cudaSuccess)
      *result = reinterpret_cast<cudaKernel_t>(kernel);
    return error;
  });
}

cudaError_t Calls::cudaLibraryGetGlobal(void **address, size_t *bytes, cudaLibrary_t library,
                                        const char *name) {
  return served([&](runtime::EmulatorDevice &device) {
    auto variable = device.variable(reinterpret_cast<Module *>(library)->id, name);
    if (!variable)
      return cudaErrorSymbolNotFound;
    if (address)
      *address = reinterpret_cast<void *>(variable->address);
    if (bytes)
      *bytes = variable->bytes;
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaLibraryGetManaged(void **address, size_t *bytes, cudaLibrary_t library,
                                         const char *name) {
  return cudaLibraryGetGlobal(address, bytes, library, name);
}

} // namespace tally::hooks::emulated
