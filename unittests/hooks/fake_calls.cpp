// The calls of the fake CUDA runtime. fake_graphs.cpp has the calls for graphs.
#include "fake_cuda.h"
#include "fake_graphs.h"
#include "state/in_hook.h"

#include <cassert>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tally::test {

using hooks::CudaApi;

namespace {

/// Other threads read words (the control word, markers) during the write, so words are written
/// atomically.
void copyBytes(void *to, const void *from, std::size_t bytes) {
  if (bytes == sizeof(std::uint64_t))
    std::atomic_ref(*static_cast<std::uint64_t *>(to))
        .store(*static_cast<const std::uint64_t *>(from));
  else
    std::memcpy(to, from, bytes);
}

/// The driver's cuMemGetAddressRange.
int rangeOf(std::uint64_t *base, std::size_t *bytes, std::uint64_t address) {
  constexpr int invalidValue = 1, invalidContext = 201;
  if (!FakeCuda::hasContext())
    return invalidContext;
  std::unique_lock lock(FakeCuda::current().mutex);
  for (const auto &[start, size] : FakeCuda::current().allocations)
    if (address - reinterpret_cast<std::uint64_t>(start) < size) {
      *base = reinterpret_cast<std::uint64_t>(start);
      *bytes = size;
      return 0;
    }
  return invalidValue;
}

cudaError_t allocate(void **memory, std::size_t bytes) {
  if (FakeCuda::current().hasNoMemory)
    return FakeCuda::failed(cudaErrorMemoryAllocation);
  *memory = std::calloc(1, bytes);
  std::unique_lock lock(FakeCuda::current().mutex);
  FakeCuda::current().allocations[*memory] = bytes;
  return cudaSuccess;
}

void setMemory(CudaApi &table) {
  table.cudaMalloc = allocate;
  table.cudaFree = [](void *) { return cudaSuccess; };
  table.cudaHostAlloc = [](void **memory, std::size_t bytes, unsigned) {
    return allocate(memory, bytes);
  };
  table.cudaHostGetDevicePointer = [](void **device, void *host, unsigned) {
    *device = host;
    return cudaSuccess;
  };
  table.cudaMemset = [](void *memory, int value, std::size_t bytes) {
    std::memset(memory, value, bytes);
    return cudaSuccess;
  };
  table.cudaMemsetAsync = [](void *memory, int value, std::size_t bytes, cudaStream_t stream) {
    {
      std::unique_lock lock(FakeCuda::current().mutex);
      FakeCuda::current().copyStreams.push_back(stream);
    }
    FakeCuda::current().put(stream, [=] { std::memset(memory, value, bytes); });
    return cudaSuccess;
  };
  // Pageable memory is read during the call, like the staging copy of the real runtime.
  table.cudaMemcpyAsync = [](void *to, const void *from, std::size_t bytes, cudaMemcpyKind kind,
                             cudaStream_t stream) {
    if (kind > cudaMemcpyDefault)
      return FakeCuda::failed(cudaErrorInvalidMemcpyDirection);
    FakeCuda::current().copiesFromOutside += !hooks::InHook::any();
    bool pageable;
    {
      std::unique_lock lock(FakeCuda::current().mutex);
      pageable = !FakeCuda::current().isPinned(from) && !FakeCuda::current().isAllocated(from);
      if (!pageable)
        FakeCuda::current().copyStreams.push_back(stream);
    }
    if (!pageable) {
      FakeCuda::current().put(stream, [=] { copyBytes(to, from, bytes); });
      return cudaSuccess;
    }
    auto staged = std::make_shared<std::vector<std::byte>>(bytes);
    std::memcpy(staged->data(), from, bytes);
    FakeCuda::current().put(stream, [=] { copyBytes(to, staged->data(), bytes); });
    return cudaSuccess;
  };
  table.cudaPointerGetAttributes = [](cudaPointerAttributes *attributes, const void *pointer) {
    ++FakeCuda::current().pageableQueries;
    std::unique_lock lock(FakeCuda::current().mutex);
    attributes->type = FakeCuda::current().isPinned(pointer)      ? cudaMemoryTypeHost
                       : FakeCuda::current().isAllocated(pointer) ? cudaMemoryTypeDevice
                                                                  : cudaMemoryTypeUnregistered;
    attributes->devicePointer = const_cast<void *>(pointer);
    return cudaSuccess;
  };
}

void setStreams(CudaApi &table) {
  table.cudaStreamCreateWithPriority = [](cudaStream_t *made, unsigned flags, int priority) {
    std::unique_lock lock(FakeCuda::current().mutex);
    *made = reinterpret_cast<cudaStream_t>(FakeCuda::current().nextHandle += 0x10);
    FakeCuda::current().add(*made, (flags & cudaStreamNonBlocking) == 0, priority);
    return cudaSuccess;
  };
  table.cudaStreamDestroy = [](cudaStream_t stream) {
    std::unique_lock lock(FakeCuda::current().mutex);
    FakeCuda::current().find(stream).destroyed = true;
    return cudaSuccess;
  };
  table.cudaStreamGetFlags = [](cudaStream_t stream, unsigned *flags) {
    std::unique_lock lock(FakeCuda::current().mutex);
    FakeCuda::current().spoiltCaptures += FakeCuda::current().find(stream).capturing;
    *flags = FakeCuda::current().find(stream).blocking ? cudaStreamDefault : cudaStreamNonBlocking;
    return cudaSuccess;
  };
  table.cudaStreamGetPriority = [](cudaStream_t stream, int *priority) {
    std::unique_lock lock(FakeCuda::current().mutex);
    *priority = FakeCuda::current().find(stream).priority;
    return cudaSuccess;
  };
  table.cudaStreamSynchronize = [](cudaStream_t stream) {
    if (FakeCuda::current().failure != cudaSuccess)
      return FakeCuda::failed(FakeCuda::current().failure);
    std::unique_lock lock(FakeCuda::current().mutex);
    FakeCuda::current().waitFor(lock, FakeCuda::current().find(stream));
    return cudaSuccess;
  };
  table.cudaStreamQuery = [](cudaStream_t stream) {
    if (FakeCuda::current().failure != cudaSuccess)
      return FakeCuda::failed(FakeCuda::current().failure);
    std::unique_lock lock(FakeCuda::current().mutex);
    FakeCuda::current().queriesOfDestroyed += FakeCuda::current().find(stream).destroyed;
    ++FakeCuda::current().find(stream).queries;
    assert(!FakeCuda::current().find(stream).capturing && "a query made a capture invalid");
    // The real runtime also leaves this answer as the thread's last error.
    return FakeCuda::current().find(stream).operations.empty()
               ? cudaSuccess
               : FakeCuda::failed(cudaErrorNotReady);
  };
  table.cudaStreamWaitEvent = [](cudaStream_t stream, cudaEvent_t event, unsigned) {
    if (!event)
      return FakeCuda::failed(cudaErrorInvalidResourceHandle);
    FakeCuda::Event recorded;
    {
      std::unique_lock lock(FakeCuda::current().mutex);
      recorded = FakeCuda::current().events[event];
    }
    FakeCuda::current().put(
        stream, [] {},
        [recorded] {
          return !recorded.stream ||
                 FakeCuda::current().isDone(*recorded.stream, recorded.sequence);
        });
    return cudaSuccess;
  };
  table.cudaStreamBeginCapture = [](cudaStream_t stream, cudaStreamCaptureMode) {
    std::unique_lock lock(FakeCuda::current().mutex);
    FakeCuda::current().find(stream).capturing = true;
    return cudaSuccess;
  };
  table.cudaStreamEndCapture = [](cudaStream_t stream, cudaGraph_t *) {
    std::unique_lock lock(FakeCuda::current().mutex);
    FakeCuda::current().find(stream).capturing = false;
    return cudaSuccess;
  };
  table.cudaStreamIsCapturing = [](cudaStream_t stream, cudaStreamCaptureStatus *status) {
    std::unique_lock lock(FakeCuda::current().mutex);
    if (FakeCuda::current().isLegacyCaptured(stream))
      return FakeCuda::failed(cudaErrorStreamCaptureImplicit);
    *status = FakeCuda::current().find(stream).capturing ? cudaStreamCaptureStatusActive
                                                         : cudaStreamCaptureStatusNone;
    return cudaSuccess;
  };
  table.cudaThreadExchangeStreamCaptureMode = [](cudaStreamCaptureMode *) { return cudaSuccess; };
  table.cudaLaunchHostFunc = [](cudaStream_t stream, cudaHostFn_t function, void *data) {
    FakeCuda::current().put(stream, [=] { function(data); });
    return cudaSuccess;
  };
}

void setEvents(CudaApi &table) {
  table.cudaEventCreateWithFlags = [](cudaEvent_t *event, unsigned) {
    std::unique_lock lock(FakeCuda::current().mutex);
    *event = reinterpret_cast<cudaEvent_t>(FakeCuda::current().nextHandle += 0x10);
    FakeCuda::current().events[*event] = {nullptr, 0, FakeCuda::currentDevice()};
    return cudaSuccess;
  };
  table.cudaEventDestroy = [](cudaEvent_t event) {
    std::unique_lock lock(FakeCuda::current().mutex);
    FakeCuda::current().destroyedEvents.insert(event);
    return cudaSuccess;
  };
  table.cudaEventRecord = [](cudaEvent_t event, cudaStream_t stream) {
    if (!event)
      return FakeCuda::failed(cudaErrorInvalidResourceHandle);
    {
      std::unique_lock lock(FakeCuda::current().mutex);
      if (FakeCuda::current().events[event].device != FakeCuda::current().find(stream).device)
        return FakeCuda::failed(cudaErrorInvalidResourceHandle);
    }
    std::uint64_t sequence = FakeCuda::current().put(stream, [] {});
    std::unique_lock lock(FakeCuda::current().mutex);
    FakeCuda::current().spoiltCaptures += FakeCuda::current().isLegacyCaptured(stream);
    ++FakeCuda::current().find(stream).records;
    FakeCuda::current().find(stream).lastRecord = event;
    FakeCuda::current().events[event] = {&FakeCuda::current().find(stream), sequence,
                                         FakeCuda::current().events[event].device};
    return cudaSuccess;
  };
  table.cudaEventQuery = [](cudaEvent_t event) {
    std::unique_lock lock(FakeCuda::current().mutex);
    const FakeCuda::Event &recorded = FakeCuda::current().events[event];
    bool over = !recorded.stream || FakeCuda::current().isDone(*recorded.stream, recorded.sequence);
    return over ? cudaSuccess : cudaErrorNotReady;
  };
  table.cudaEventElapsedTime = [](float *ms, cudaEvent_t start, cudaEvent_t end) {
    std::unique_lock lock(FakeCuda::current().mutex);
    std::uint64_t operations =
        FakeCuda::current().events[end].sequence - FakeCuda::current().events[start].sequence;
    *ms = FakeCuda::current().msOfOperation * static_cast<float>(operations);
    if (operations > 2) // one, and the record
      *ms += FakeCuda::current().msBetween;
    return cudaSuccess;
  };
  table.cudaEventSynchronize = [](cudaEvent_t event) {
    std::unique_lock lock(FakeCuda::current().mutex);
    FakeCuda::Event recorded = FakeCuda::current().events[event];
    FakeCuda::current().changed.wait(lock, [&] {
      return !recorded.stream || FakeCuda::current().isDone(*recorded.stream, recorded.sequence);
    });
    return cudaSuccess;
  };
}

void setDevice(CudaApi &table) {
  table.cudaGetDevice = [](int *device) {
    *device = FakeCuda::currentDevice();
    return cudaSuccess;
  };
  table.cudaSetDevice = [](int device) {
    if (device < 0 || device > 1)
      return FakeCuda::failed(cudaErrorInvalidDevice);
    FakeCuda::currentDevice() = device;
    FakeCuda::hasContext() = true;
    return cudaSuccess;
  };
  table.cudaDeviceReset = [] {
    if (FakeCuda::current().greenContexts != 0)
      return FakeCuda::failed(cudaErrorNotPermitted); // as CUDA 13.0 on an H200
    ++FakeCuda::current().resets;
    return cudaSuccess;
  };
  table.cudaGetDeviceProperties = [](cudaDeviceProp *properties, int) {
    *properties = {}; // it has no UUID
    return cudaSuccess;
  };
  table.cudaDeviceGetAttribute = [](int *value, cudaDeviceAttr attribute, int) {
    static const std::map<cudaDeviceAttr, int> values = {
        {cudaDevAttrMultiProcessorCount, 2},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, 232448},
        {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
        {cudaDevAttrMaxRegistersPerMultiprocessor, 65536},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, 233472},
        {cudaDevAttrMaxBlocksPerMultiprocessor, 32}};
    auto known = values.find(attribute);
    *value = known == values.end() ? 9 : known->second;
    return cudaSuccess;
  };
  table.cudaDeviceGetStreamPriorityRange = [](int *lowest, int *highest) {
    *lowest = 0;
    *highest = FakeCuda::highestPriority;
    return cudaSuccess;
  };
  table.cudaDeviceSynchronize = [] {
    FakeCuda::current().settle();
    return cudaSuccess;
  };
  table.cudaDriverGetVersion = [](int *version) {
    *version = 0; // there is none
    return cudaSuccess;
  };
  // The driver's entry points are those that the test provides.
  table.cudaGetDriverEntryPoint = [](const char *name, void **entry, unsigned long long,
                                     cudaDriverEntryPointQueryResult *result) {
    *entry = FakeCuda::current().driverTellsGraphs ? driverGraphEntry(name) : nullptr;
    if (!*entry && FakeCuda::current().driverHasGreenContexts)
      *entry = greenContextEntry(name);
    if (std::strcmp(name, "cuMemGetAddressRange") == 0)
      *entry = reinterpret_cast<void *>(&rangeOf);
    *result = *entry ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return *entry ? cudaSuccess : cudaErrorNotSupported;
  };
  table.cudaGetLastError = [] { return std::exchange(FakeCuda::lastError(), cudaSuccess); };
  table.cudaPeekAtLastError = [] { return FakeCuda::lastError(); };
  table.cudaGetErrorName = [](cudaError_t) { return "an error"; };
  table.cudaGetErrorString = [](cudaError_t) { return "of the fake"; };
}

void setKernels(CudaApi &table) {
  table.__cudaRegisterFatBinary = [](void *) {
    // Handles of all objects: a test makes one object after the other.
    static std::deque<void *> handles;
    return &handles.emplace_back(nullptr);
  };
  table.__cudaRegisterFatBinaryEnd = [](void **) {};
  table.__cudaUnregisterFatBinary = [](void **) {};
  table.__cudaRegisterFunction = [](void **, const char *hostFunction, char *, const char *name,
                                    int, uint3 *, uint3 *, dim3 *, dim3 *, int *) {
    std::unique_lock lock(FakeCuda::current().mutex);
    FakeCuda::current().functions[hostFunction] = name;
  };
  table.cudaFuncGetAttributes = [](cudaFuncAttributes *attributes, const void *function) {
    if (FakeCuda::current().atAttributeQuery)
      FakeCuda::current().atAttributeQuery();
    std::unique_lock lock(FakeCuda::current().mutex);
    auto found = FakeCuda::current().functions.find(function);
    if (found == FakeCuda::current().functions.end() ||
        !FakeCuda::current().kernels.contains(found->second))
      return FakeCuda::failed(cudaErrorInvalidDeviceFunction);
    FakeCuda::current().attributeQueries.fetch_add(1);
    *attributes = {};
    attributes->maxThreadsPerBlock = FakeCuda::current().kernels[found->second].maxThreads;
    attributes->numRegs = FakeCuda::current().kernels[found->second].registers;
    const auto &set = FakeCuda::current().attributesSet[found->second];
    auto shared = set.find(cudaFuncAttributeMaxDynamicSharedMemorySize);
    attributes->maxDynamicSharedSizeBytes = shared == set.end() ? 49152 : shared->second;
    return cudaSuccess;
  };
  table.cudaFuncSetAttribute = [](const void *function, cudaFuncAttribute attribute, int value) {
    std::unique_lock lock(FakeCuda::current().mutex);
    FakeCuda::current().attributesSet[FakeCuda::current().functions.at(function)][attribute] =
        value;
    return cudaSuccess;
  };
  table.cudaFuncGetParamInfo = [](const void *function, std::size_t index, std::size_t *offset,
                                  std::size_t *size) {
    std::unique_lock lock(FakeCuda::current().mutex);
    const auto &sizes =
        FakeCuda::current().kernels.at(FakeCuda::current().functions.at(function)).parameterSizes;
    if (index >= sizes.size())
      return FakeCuda::failed(cudaErrorInvalidValue);
    *offset = 8 * index;
    *size = sizes[index];
    return cudaSuccess;
  };
  // Launching the returned handle launches the function.
  table.cudaGetKernel = [](cudaKernel_t *kernel, const void *function) {
    *kernel = FakeCuda::handleOf(function);
    std::unique_lock lock(FakeCuda::current().mutex);
    FakeCuda::current().functions[*kernel] = FakeCuda::current().functions.at(function);
    return cudaSuccess;
  };
  table.cudaGetFuncBySymbol = [](cudaFunction_t *, const void *) {
    return FakeCuda::failed(cudaErrorInvalidDeviceFunction);
  };
  table.cudaOccupancyMaxActiveBlocksPerMultiprocessor = [](int *blocks, const void *, int,
                                                           std::size_t) {
    *blocks = 1;
    return cudaSuccess;
  };
  table.cudaLaunchKernel = [](const void *function, dim3 grid, dim3 block, void **arguments,
                              std::size_t, cudaStream_t stream) {
    return FakeCuda::current().launch(function, grid, block, arguments, stream, false);
  };
  table.cudaLaunchKernelExC = [](const cudaLaunchConfig_t *config, const void *function,
                                 void **arguments) {
    bool cooperative = false;
    for (unsigned i = 0; i < config->numAttrs; ++i)
      if (config->attrs[i].id == cudaLaunchAttributeCooperative)
        cooperative = config->attrs[i].val.cooperative != 0;
    return FakeCuda::current().launch(function, config->gridDim, config->blockDim, arguments,
                                      config->stream, cooperative);
  };
}

} // namespace

void setCalls(CudaApi &table) {
  setMemory(table);
  setStreams(table);
  setEvents(table);
  setDevice(table);
  setKernels(table);
  setGraphs(table);
}

} // namespace tally::test
