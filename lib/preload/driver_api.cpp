#include "driver_api.h"

#include "driver_calls.h"
#include "driver_graphs.h"
#include "intercept/driver_hook.h"
#include "own_modules.h"
#include "state/registry.h"

#include <array>
#include <atomic>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

namespace tally::preload {

namespace {

CUdeviceptr addressOf(const void *memory) { return reinterpret_cast<CUdeviceptr>(memory); }

// The context that the threads of a device use.

constexpr std::size_t deviceCount = 64;
std::array<std::atomic<CUcontext>, deviceCount> contexts{};
thread_local int chosenDevice = 0;

std::atomic<CUcontext> &contextOf(int device) {
  return contexts[static_cast<std::size_t>(device) % deviceCount];
}

/// A thread without a context uses the device that it set last, by default the first, like the CUDA
/// runtime.
cudaError_t getDevice(int *device) {
  CUcontext current = nullptr;
  CUresult result = driver().cuCtxGetCurrent(&current);
  if (result != CUDA_SUCCESS)
    return status(result);
  if (!current) {
    *device = chosenDevice;
    return cudaSuccess;
  }
  result = driver().cuCtxGetDevice(device);
  CUcontext none = nullptr;
  if (result == CUDA_SUCCESS && !contextOf(*device).load(std::memory_order_relaxed))
    contextOf(*device).compare_exchange_strong(none, current);
  return status(result);
}

cudaError_t setDevice(int device) {
  int now = 0;
  CUcontext current = nullptr;
  if (driver().cuCtxGetCurrent(&current) == CUDA_SUCCESS && current &&
      getDevice(&now) == cudaSuccess && now == device)
    return cudaSuccess;
  CUcontext context = contextOf(device).load();
  if (!context) {
    if (CUresult result = driver().cuDevicePrimaryCtxRetain(&context, device);
        result != CUDA_SUCCESS)
      return status(result);
    contextOf(device).store(context);
  }
  chosenDevice = device;
  return status(driver().cuCtxSetCurrent(context));
}

// The device.

cudaError_t deviceAttribute(int *value, cudaDeviceAttr attribute, int device) {
  auto wanted = static_cast<CUdevice_attribute>(attribute); // numbered alike
  return status(driver().cuDeviceGetAttribute(value, wanted, device));
}

/// Sets the device's name and UUID.
cudaError_t deviceProperties(cudaDeviceProp *properties, int device) {
  *properties = {};
  CUresult result = driver().cuDeviceGetName(properties->name, sizeof properties->name, device);
  CUuuid uuid{};
  if (result == CUDA_SUCCESS)
    result = driver().cuDeviceGetUuid(&uuid, device);
  static_assert(sizeof uuid == sizeof properties->uuid);
  std::memcpy(&properties->uuid, &uuid, sizeof uuid);
  return status(result);
}

const char *errorName(cudaError_t error) {
  const char *name = nullptr;
  CUresult result = driver().cuGetErrorName(static_cast<CUresult>(error), &name);
  return result == CUDA_SUCCESS && name ? name : "unknown error";
}
const char *errorString(cudaError_t error) {
  const char *text = nullptr;
  CUresult result = driver().cuGetErrorString(static_cast<CUresult>(error), &text);
  return result == CUDA_SUCCESS && text ? text : "unknown error";
}

cudaError_t driverEntry(const char *name, void **entry, unsigned long long,
                        cudaDriverEntryPointQueryResult *found) {
  *entry = driverFunction(name);
  *found = *entry ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

// Memory.

cudaError_t hostAlloc(void **memory, std::size_t bytes, unsigned flags) {
  return status(driver().cuMemHostAlloc(memory, bytes, flags)); // flags are numbered alike
}
cudaError_t hostDevicePointer(void **mapped, void *host, unsigned flags) {
  CUdeviceptr address = 0;
  CUresult result = driver().cuMemHostGetDevicePointer(&address, host, flags);
  *mapped = reinterpret_cast<void *>(address);
  return status(result);
}

/// Memory that the driver does not know is pageable.
cudaError_t pointerAttributes(cudaPointerAttributes *found, const void *pointer) {
  unsigned memory = 0, isManaged = 0;
  CUdeviceptr onDevice = 0;
  void *onHost = nullptr;
  int device = 0;
  std::array wanted = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                       CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  std::array<void *, wanted.size()> values = {&memory, &isManaged, &onDevice, &onHost, &device};
  CUresult result = driver().cuPointerGetAttributes(wanted.size(), wanted.data(), values.data(),
                                                    addressOf(pointer));
  if (result != CUDA_SUCCESS)
    return status(result);
  *found = {};
  found->type = cudaMemoryTypeUnregistered;
  if (isManaged != 0)
    found->type = cudaMemoryTypeManaged;
  else if (memory == CU_MEMORYTYPE_HOST)
    found->type = cudaMemoryTypeHost;
  else if (memory == CU_MEMORYTYPE_DEVICE)
    found->type = cudaMemoryTypeDevice;
  found->device = device;
  found->devicePointer = reinterpret_cast<void *>(onDevice);
  found->hostPointer = onHost;
  return cudaSuccess;
}

// Kernels.

cudaError_t functionAttributes(cudaFuncAttributes *found, const void *kernel) {
  CUfunction function = nullptr;
  CUresult result = OwnModules::get().find(kernel, function);
  auto ask = [&](CUfunction_attribute attribute) {
    int value = 0;
    if (result == CUDA_SUCCESS)
      result = driver().cuFuncGetAttribute(&value, attribute, function);
    return value;
  };
  auto bytes = [&](CUfunction_attribute attribute) {
    return static_cast<std::size_t>(ask(attribute));
  };
  *found = {};
  found->maxThreadsPerBlock = ask(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  found->sharedSizeBytes = bytes(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  found->constSizeBytes = bytes(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
  found->localSizeBytes = bytes(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  found->numRegs = ask(CU_FUNC_ATTRIBUTE_NUM_REGS);
  found->maxDynamicSharedSizeBytes = ask(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  return status(result);
}

cudaError_t setFunctionAttribute(const void *kernel, cudaFuncAttribute attribute, int value) {
  CUfunction function = nullptr;
  CUresult result = OwnModules::get().find(kernel, function);
  auto meant = static_cast<CUfunction_attribute>(attribute); // numbered alike
  return status(result == CUDA_SUCCESS ? driver().cuFuncSetAttribute(function, meant, value)
                                       : result);
}

cudaError_t residentBlocks(int *blocks, const void *kernel, int threads, std::size_t shared) {
  CUfunction function = nullptr;
  CUresult result = OwnModules::get().find(kernel, function);
  if (result == CUDA_SUCCESS)
    result =
        driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
  return status(result);
}

cudaError_t launch(const cudaLaunchConfig_t *given, const void *kernel, void **arguments) {
  static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute) &&
                offsetof(CUlaunchAttribute, value) == offsetof(cudaLaunchAttribute, val));
  CUfunction function = nullptr;
  if (CUresult result = OwnModules::get().find(kernel, function); result != CUDA_SUCCESS)
    return status(result);
  CUlaunchConfig config{};
  config.gridDimX = given->gridDim.x;
  config.gridDimY = given->gridDim.y;
  config.gridDimZ = given->gridDim.z;
  config.blockDimX = given->blockDim.x;
  config.blockDimY = given->blockDim.y;
  config.blockDimZ = given->blockDim.z;
  config.sharedMemBytes = static_cast<unsigned>(given->dynamicSmemBytes);
  config.hStream = given->stream;
  config.attrs = reinterpret_cast<CUlaunchAttribute *>(given->attrs);
  config.numAttrs = given->numAttrs;
  return status(driver().cuLaunchKernelEx(&config, function, arguments, nullptr));
}

/// Asks the driver about the function's parameters.
cudaError_t parameterInfo(const void *kernel, std::size_t index, std::size_t *offset,
                          std::size_t *size) {
  CUfunction function = nullptr;
  CUresult result = OwnModules::get().find(kernel, function);
  return status(result == CUDA_SUCCESS ? driver().cuFuncGetParamInfo(function, index, offset, size)
                                       : result);
}

// Code that is loaded beside the program's.

cudaError_t loadLibrary(cudaLibrary_t *library, const void *code, cudaJitOption *, void **,
                        unsigned, cudaLibraryOption *, void **, unsigned) {
  return status(driver().cuLibraryLoadData(reinterpret_cast<CUlibrary *>(library), code, nullptr,
                                           nullptr, 0, nullptr, nullptr, 0));
}
cudaError_t unloadLibrary(cudaLibrary_t library) {
  return status(driver().cuLibraryUnload(reinterpret_cast<CUlibrary>(library)));
}
/// Returns the kernel's CUfunction in the context of the thread.
cudaError_t libraryKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name) {
  CUkernel found = nullptr;
  CUfunction function = nullptr;
  auto from = reinterpret_cast<CUlibrary>(library);
  CUresult result = driver().cuLibraryGetKernel(&found, from, name);
  if (result == CUDA_SUCCESS)
    result = driver().cuKernelGetFunction(&function, found);
  *kernel = reinterpret_cast<cudaKernel_t>(function);
  return status(result);
}

void **registerContainer(void *wrapper) {
  OwnModules::Module &added =
      OwnModules::get().add(static_cast<hooks::FatbinWrapper *>(wrapper)->container);
  return reinterpret_cast<void **>(&added);
}
void registerKernel(void **handle, const char *address, const char *name) {
  OwnModules::get().addKernel(*reinterpret_cast<OwnModules::Module *>(handle), address, name);
}

template <class Function> struct Unserved;
template <class Result, class... Parameters> struct Unserved<Result (*)(Parameters...)> {
  static Result call(Parameters...) {
    if constexpr (std::is_same_v<Result, cudaError_t>)
      return cudaErrorNotSupported;
    else if constexpr (!std::is_void_v<Result>)
      return Result{};
  }
};

hooks::CudaApi unserved() {
  hooks::CudaApi table;
#define TALLY_UNSERVED(name) table.name = &Unserved<decltype(table.name)>::call;
#define TALLY_UNSERVED_Plain(name)
#define TALLY_UNSERVED_Ptsz(name)
#define TALLY_UNSERVED_Ptds(name) TALLY_UNSERVED(name##_ptds)
#define TALLY_CUDA_CALL(result, name, parameters, arguments, rule, forms)                          \
  TALLY_UNSERVED(name)                                                                             \
  TALLY_UNSERVED_##forms(name)
#include "tables/cuda_api.def"
#undef TALLY_UNSERVED
#undef TALLY_UNSERVED_Plain
#undef TALLY_UNSERVED_Ptsz
#undef TALLY_UNSERVED_Ptds
  return table;
}

void serveDevice(hooks::CudaApi &table) {
  table.cudaGetDevice = getDevice;
  table.cudaSetDevice = setDevice;
  table.cudaDeviceGetAttribute = deviceAttribute;
  table.cudaGetDeviceProperties = deviceProperties;
  table.cudaDriverGetVersion = [](int *version) {
    return status(driver().cuDriverGetVersion(version));
  };
  table.cudaDeviceGetStreamPriorityRange = [](int *lowest, int *highest) {
    return status(driver().cuCtxGetStreamPriorityRange(lowest, highest));
  };
  table.cudaDeviceSynchronize = [] { return status(driver().cuCtxSynchronize()); };
  table.cudaGetErrorName = errorName;
  table.cudaGetErrorString = errorString;
  // The driver remembers no errors.
  table.cudaGetLastError = [] { return cudaSuccess; };
  table.cudaPeekAtLastError = [] { return cudaSuccess; };
  table.cudaGetDriverEntryPoint = driverEntry;
}

void serveStreams(hooks::CudaApi &table) {
  table.cudaStreamCreateWithPriority = [](cudaStream_t *made, unsigned flags, int priority) {
    return status(driver().cuStreamCreateWithPriority(made, flags, priority));
  };
  table.cudaStreamDestroy = [](cudaStream_t stream) {
    return status(driver().cuStreamDestroy(stream));
  };
  table.cudaStreamQuery = [](cudaStream_t stream) {
    return status(driver().cuStreamQuery(stream));
  };
  table.cudaStreamSynchronize = [](cudaStream_t stream) {
    return status(driver().cuStreamSynchronize(stream));
  };
  table.cudaStreamGetFlags = [](cudaStream_t stream, unsigned *flags) {
    return status(driver().cuStreamGetFlags(stream, flags));
  };
  table.cudaStreamGetPriority = [](cudaStream_t stream, int *priority) {
    return status(driver().cuStreamGetPriority(stream, priority));
  };
  table.cudaStreamWaitEvent = [](cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    return status(driver().cuStreamWaitEvent(stream, event, flags));
  };
  table.cudaStreamIsCapturing = [](cudaStream_t stream, cudaStreamCaptureStatus *found) {
    CUstreamCaptureStatus now = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = driver().cuStreamIsCapturing(stream, &now);
    *found = static_cast<cudaStreamCaptureStatus>(now); // numbered alike
    return status(result);
  };
  table.cudaThreadExchangeStreamCaptureMode = [](cudaStreamCaptureMode *mode) {
    auto exchanged = static_cast<CUstreamCaptureMode>(*mode); // numbered alike
    CUresult result = driver().cuThreadExchangeStreamCaptureMode(&exchanged);
    *mode = static_cast<cudaStreamCaptureMode>(exchanged);
    return status(result);
  };
  table.cudaEventCreateWithFlags = [](cudaEvent_t *made, unsigned flags) {
    return status(driver().cuEventCreate(made, flags)); // flags are numbered alike
  };
  table.cudaEventDestroy = [](cudaEvent_t event) { return status(driver().cuEventDestroy(event)); };
  table.cudaEventQuery = [](cudaEvent_t event) { return status(driver().cuEventQuery(event)); };
  table.cudaEventRecord = [](cudaEvent_t event, cudaStream_t stream) {
    return status(driver().cuEventRecord(event, stream));
  };
  table.cudaEventSynchronize = [](cudaEvent_t event) {
    return status(driver().cuEventSynchronize(event));
  };
  table.cudaEventElapsedTime = [](float *ms, cudaEvent_t start, cudaEvent_t end) {
    return status(driver().cuEventElapsedTime(ms, start, end));
  };
}

void serveMemory(hooks::CudaApi &table) {
  table.cudaMalloc = [](void **memory, std::size_t bytes) {
    return status(driver().cuMemAlloc(reinterpret_cast<CUdeviceptr *>(memory), bytes));
  };
  table.cudaFree = [](void *memory) { return status(driver().cuMemFree(addressOf(memory))); };
  table.cudaHostAlloc = hostAlloc;
  table.cudaHostGetDevicePointer = hostDevicePointer;
  table.cudaMemGetInfo = [](std::size_t *free, std::size_t *total) {
    return status(driver().cuMemGetInfo(free, total));
  };
  table.cudaPointerGetAttributes = pointerAttributes;
  table.cudaMemcpyAsync = [](void *to, const void *from, std::size_t bytes, cudaMemcpyKind,
                             cudaStream_t stream) {
    return status(driver().cuMemcpyAsync(addressOf(to), addressOf(from), bytes, stream));
  };
  table.cudaMemsetAsync = [](void *to, int value, std::size_t bytes, cudaStream_t stream) {
    auto byte = static_cast<unsigned char>(value);
    return status(driver().cuMemsetD8Async(addressOf(to), byte, bytes, stream));
  };
}

void serveKernels(hooks::CudaApi &table) {
  table.cudaFuncGetAttributes = functionAttributes;
  table.cudaFuncSetAttribute = setFunctionAttribute;
  table.cudaOccupancyMaxActiveBlocksPerMultiprocessor = residentBlocks;
  table.cudaLaunchKernelExC = launch;
  table.cudaFuncGetParamInfo = parameterInfo;
  table.cudaLibraryLoadData = loadLibrary;
  table.cudaLibraryUnload = unloadLibrary;
  table.cudaLibraryGetKernel = libraryKernel;
  table.__cudaRegisterFatBinary = registerContainer;
  table.__cudaRegisterFunction = [](void **handle, const char *address, char *, const char *name,
                                    int, uint3 *, uint3 *, dim3 *, dim3 *,
                                    int *) { registerKernel(handle, address, name); };
  table.driver = &hooks::driverLaunches;
}

} // namespace

const hooks::CudaApi &driverApi() {
  static const hooks::CudaApi table = [] {
    hooks::CudaApi made = unserved();
    serveDevice(made);
    serveStreams(made);
    serveMemory(made);
    serveKernels(made);
    serveGraphs(made);
    return made;
  }();
  return table;
}

} // namespace tally::preload
