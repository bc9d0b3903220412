#include "fake_cuda.h"

#include "fake_graphs.h"
#include "in_hook.h"

#include <cassert>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tally::test {

using hooks::CudaApi;

namespace {

constexpr int highestPriority = -5;
FakeCuda *current = nullptr;
thread_local cudaError_t lastError = cudaSuccess;
thread_local int threadsDevice = 0;

cudaError_t failed(cudaError_t status) { return lastError = status; }

/// Words are read by others while they are written (the control word, markers).
void copyBytes(void *to, const void *from, std::size_t bytes) {
  if (bytes == sizeof(std::uint64_t))
    std::atomic_ref(*static_cast<std::uint64_t *>(to))
        .store(*static_cast<const std::uint64_t *>(from));
  else
    std::memcpy(to, from, bytes);
}

cudaError_t allocate(void **memory, std::size_t bytes) {
  *memory = std::calloc(1, bytes);
  std::unique_lock lock(current->mutex);
  current->allocations[*memory] = bytes;
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
    current->put(stream, [=] { std::memset(memory, value, bytes); });
    return cudaSuccess;
  };
  // Pageable memory is read at the call, as the staging copy of the real one does.
  table.cudaMemcpyAsync = [](void *to, const void *from, std::size_t bytes, cudaMemcpyKind kind,
                             cudaStream_t stream) {
    if (kind > cudaMemcpyDefault)
      return failed(cudaErrorInvalidMemcpyDirection);
    current->copiesFromOutside += !hooks::InHook::any();
    bool pageable;
    {
      std::unique_lock lock(current->mutex);
      pageable = !current->isPinned(from) && !current->isAllocated(from);
    }
    if (!pageable) {
      current->put(stream, [=] { copyBytes(to, from, bytes); });
      return cudaSuccess;
    }
    auto staged = std::make_shared<std::vector<std::byte>>(bytes);
    std::memcpy(staged->data(), from, bytes);
    current->put(stream, [=] { copyBytes(to, staged->data(), bytes); });
    return cudaSuccess;
  };
  table.cudaPointerGetAttributes = [](cudaPointerAttributes *attributes, const void *pointer) {
    ++current->pageableQueries;
    std::unique_lock lock(current->mutex);
    attributes->type = current->isPinned(pointer) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    return cudaSuccess;
  };
}

void setStreams(CudaApi &table) {
  table.cudaStreamCreateWithPriority = [](cudaStream_t *made, unsigned flags, int priority) {
    std::unique_lock lock(current->mutex);
    *made = reinterpret_cast<cudaStream_t>(current->nextHandle += 0x10);
    current->add(*made, (flags & cudaStreamNonBlocking) == 0, priority);
    return cudaSuccess;
  };
  table.cudaStreamDestroy = [](cudaStream_t stream) {
    std::unique_lock lock(current->mutex);
    current->find(stream).destroyed = true;
    return cudaSuccess;
  };
  table.cudaStreamGetFlags = [](cudaStream_t stream, unsigned *flags) {
    std::unique_lock lock(current->mutex);
    *flags = current->find(stream).blocking ? cudaStreamDefault : cudaStreamNonBlocking;
    return cudaSuccess;
  };
  table.cudaStreamGetPriority = [](cudaStream_t stream, int *priority) {
    std::unique_lock lock(current->mutex);
    *priority = current->find(stream).priority;
    return cudaSuccess;
  };
  table.cudaStreamSynchronize = [](cudaStream_t stream) {
    if (current->failure != cudaSuccess)
      return failed(current->failure);
    std::unique_lock lock(current->mutex);
    current->waitFor(lock, current->find(stream));
    return cudaSuccess;
  };
  table.cudaStreamQuery = [](cudaStream_t stream) {
    if (current->failure != cudaSuccess)
      return failed(current->failure);
    std::unique_lock lock(current->mutex);
    current->queriesOfDestroyed += current->find(stream).destroyed;
    ++current->find(stream).queries;
    assert(!current->find(stream).capturing && "a query made a capture invalid");
    return current->find(stream).operations.empty() ? cudaSuccess : cudaErrorNotReady;
  };
  table.cudaStreamWaitEvent = [](cudaStream_t stream, cudaEvent_t event, unsigned) {
    if (!event)
      return failed(cudaErrorInvalidResourceHandle);
    FakeCuda::Event recorded;
    {
      std::unique_lock lock(current->mutex);
      recorded = current->events[event];
    }
    current->put(
        stream, [] {},
        [recorded] {
          return !recorded.stream || current->isDone(*recorded.stream, recorded.sequence);
        });
    return cudaSuccess;
  };
  table.cudaStreamBeginCapture = [](cudaStream_t stream, cudaStreamCaptureMode) {
    std::unique_lock lock(current->mutex);
    current->find(stream).capturing = true;
    return cudaSuccess;
  };
  table.cudaStreamEndCapture = [](cudaStream_t stream, cudaGraph_t *) {
    std::unique_lock lock(current->mutex);
    current->find(stream).capturing = false;
    return cudaSuccess;
  };
  table.cudaStreamIsCapturing = [](cudaStream_t stream, cudaStreamCaptureStatus *status) {
    std::unique_lock lock(current->mutex);
    *status = current->find(stream).capturing ? cudaStreamCaptureStatusActive
                                              : cudaStreamCaptureStatusNone;
    return cudaSuccess;
  };
  table.cudaThreadExchangeStreamCaptureMode = [](cudaStreamCaptureMode *) { return cudaSuccess; };
  table.cudaLaunchHostFunc = [](cudaStream_t stream, cudaHostFn_t function, void *data) {
    current->put(stream, [=] { function(data); });
    return cudaSuccess;
  };
}

void setEvents(CudaApi &table) {
  table.cudaEventCreateWithFlags = [](cudaEvent_t *event, unsigned) {
    std::unique_lock lock(current->mutex);
    *event = reinterpret_cast<cudaEvent_t>(current->nextHandle += 0x10);
    current->events[*event] = {nullptr, 0, threadsDevice};
    return cudaSuccess;
  };
  table.cudaEventDestroy = [](cudaEvent_t event) {
    std::unique_lock lock(current->mutex);
    current->destroyedEvents.insert(event);
    return cudaSuccess;
  };
  table.cudaEventRecord = [](cudaEvent_t event, cudaStream_t stream) {
    if (!event)
      return failed(cudaErrorInvalidResourceHandle);
    {
      std::unique_lock lock(current->mutex);
      if (current->events[event].device != current->find(stream).device)
        return failed(cudaErrorInvalidResourceHandle);
    }
    std::uint64_t sequence = current->put(stream, [] {});
    std::unique_lock lock(current->mutex);
    current->events[event] = {&current->find(stream), sequence, current->events[event].device};
    return cudaSuccess;
  };
  table.cudaEventQuery = [](cudaEvent_t event) {
    std::unique_lock lock(current->mutex);
    const FakeCuda::Event &recorded = current->events[event];
    bool over = !recorded.stream || current->isDone(*recorded.stream, recorded.sequence);
    return over ? cudaSuccess : cudaErrorNotReady;
  };
  table.cudaEventSynchronize = [](cudaEvent_t event) {
    std::unique_lock lock(current->mutex);
    FakeCuda::Event recorded = current->events[event];
    current->changed.wait(lock, [&] {
      return !recorded.stream || current->isDone(*recorded.stream, recorded.sequence);
    });
    return cudaSuccess;
  };
}

void setDevice(CudaApi &table) {
  table.cudaGetDevice = [](int *device) {
    *device = threadsDevice;
    return cudaSuccess;
  };
  table.cudaSetDevice = [](int device) {
    if (device < 0 || device > 1)
      return failed(cudaErrorInvalidDevice);
    threadsDevice = device;
    return cudaSuccess;
  };
  table.cudaDeviceReset = [] {
    ++current->resets;
    return cudaSuccess;
  };
  table.cudaGetDeviceProperties = [](cudaDeviceProp *properties, int) {
    *properties = {}; // it has no UUID
    return cudaSuccess;
  };
  table.cudaDeviceGetAttribute = [](int *value, cudaDeviceAttr attribute, int) {
    *value = attribute == cudaDevAttrMultiProcessorCount            ? 2
             : attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 232448
                                                                    : 9;
    return cudaSuccess;
  };
  table.cudaDeviceGetStreamPriorityRange = [](int *lowest, int *highest) {
    *lowest = 0;
    *highest = highestPriority;
    return cudaSuccess;
  };
  table.cudaDeviceSynchronize = [] {
    current->settle();
    return cudaSuccess;
  };
  table.cudaDriverGetVersion = [](int *version) {
    *version = 0; // there is none
    return cudaSuccess;
  };
  // Of the driver there are graphs only, where a test wants them.
  table.cudaGetDriverEntryPoint = [](const char *name, void **entry, unsigned long long,
                                     cudaDriverEntryPointQueryResult *result) {
    *entry = current->driverTellsGraphs ? driverGraphEntry(name) : nullptr;
    *result = *entry ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return *entry ? cudaSuccess : cudaErrorNotSupported;
  };
  table.cudaGetLastError = [] { return std::exchange(lastError, cudaSuccess); };
  table.cudaPeekAtLastError = [] { return lastError; };
  table.cudaGetErrorName = [](cudaError_t) { return "an error"; };
  table.cudaGetErrorString = [](cudaError_t) { return "of the fake"; };
}

void setKernels(CudaApi &table) {
  table.__cudaRegisterFatBinary = [](void *) {
    static std::deque<void *> handles; // of all objects: a test makes one after the other
    return &handles.emplace_back(nullptr);
  };
  table.__cudaUnregisterFatBinary = [](void **) {};
  table.__cudaRegisterFunction = [](void **, const char *hostFunction, char *, const char *name,
                                    int, uint3 *, uint3 *, dim3 *, dim3 *, int *) {
    std::unique_lock lock(current->mutex);
    current->functions[hostFunction] = name;
  };
  table.cudaFuncGetAttributes = [](cudaFuncAttributes *attributes, const void *function) {
    std::unique_lock lock(current->mutex);
    auto found = current->functions.find(function);
    if (found == current->functions.end() || !current->kernels.contains(found->second))
      return failed(cudaErrorInvalidDeviceFunction);
    *attributes = {};
    attributes->maxThreadsPerBlock = current->kernels[found->second].maxThreads;
    attributes->maxDynamicSharedSizeBytes = 49152;
    return cudaSuccess;
  };
  table.cudaFuncSetAttribute = [](const void *function, cudaFuncAttribute attribute, int value) {
    std::unique_lock lock(current->mutex);
    current->attributesSet[current->functions.at(function)][attribute] = value;
    return cudaSuccess;
  };
  table.cudaFuncGetParamInfo = [](const void *function, std::size_t index, std::size_t *offset,
                                  std::size_t *size) {
    std::unique_lock lock(current->mutex);
    const auto &sizes = current->kernels.at(current->functions.at(function)).parameterSizes;
    if (index >= sizes.size())
      return failed(cudaErrorInvalidValue);
    *offset = 8 * index;
    *size = sizes[index];
    return cudaSuccess;
  };
  // What it gives is launched as the function is.
  table.cudaGetKernel = [](cudaKernel_t *kernel, const void *function) {
    *kernel = FakeCuda::handleOf(function);
    std::unique_lock lock(current->mutex);
    current->functions[*kernel] = current->functions.at(function);
    return cudaSuccess;
  };
  table.cudaGetFuncBySymbol = [](cudaFunction_t *, const void *) {
    return failed(cudaErrorInvalidDeviceFunction);
  };
  table.cudaOccupancyMaxActiveBlocksPerMultiprocessor = [](int *blocks, const void *, int,
                                                           std::size_t) {
    *blocks = 1;
    return cudaSuccess;
  };
  table.cudaLaunchKernel = [](const void *function, dim3 grid, dim3 block, void **arguments,
                              std::size_t, cudaStream_t stream) {
    return current->launch(function, grid, block, arguments, stream, false);
  };
  table.cudaLaunchKernelExC = [](const cudaLaunchConfig_t *config, const void *function,
                                 void **arguments) {
    bool cooperative = false;
    for (unsigned i = 0; i < config->numAttrs; ++i)
      if (config->attrs[i].id == cudaLaunchAttributeCooperative)
        cooperative = config->attrs[i].val.cooperative != 0;
    return current->launch(function, config->gridDim, config->blockDim, arguments, config->stream,
                           cooperative);
  };
}

} // namespace

FakeCuda::FakeCuda() {
  test::current = this;
  setMemory(table);
  setStreams(table);
  setEvents(table);
  setDevice(table);
  setKernels(table);
  setGraphs(table);
  std::unique_lock lock(mutex);
  add(nullptr, true, 0);
}

FakeCuda &FakeCuda::current() { return *test::current; }
int &FakeCuda::currentDevice() { return threadsDevice; }

std::vector<std::size_t> FakeCuda::parameterSizes(const void *function) {
  std::unique_lock lock(mutex);
  auto found = functions.find(function);
  return found == functions.end() ? std::vector<std::size_t>{}
                                  : kernels[found->second].parameterSizes;
}

FakeCuda::~FakeCuda() {
  {
    std::unique_lock lock(mutex);
    stopping = true;
    changed.notify_all();
  }
  for (auto &[handle, stream] : streams)
    stream->thread.join();
}

FakeCuda::Stream &FakeCuda::add(cudaStream_t handle, bool blocking, int priority) {
  auto made = std::make_unique<Stream>();
  Stream &stream = *made;
  stream.handle = handle;
  stream.blocking = blocking;
  stream.priority = priority;
  stream.device = threadsDevice;
  streams[handle] = std::move(made);
  stream.thread = std::thread([this, &stream] { serve(stream); });
  return stream;
}

FakeCuda::Stream &FakeCuda::find(cudaStream_t handle) {
  if (handle == cudaStreamLegacy)
    handle = nullptr;
  auto found = streams.find(handle);
  if (found != streams.end())
    return *found->second;
  assert(handle == cudaStreamPerThread);
  return add(handle, true, 0);
}

bool FakeCuda::isAllocated(const void *pointer) const {
  auto above = allocations.upper_bound(const_cast<void *>(pointer));
  if (above == allocations.begin())
    return false;
  const auto &[start, bytes] = *std::prev(above);
  return pointer < static_cast<const std::byte *>(start) + bytes;
}

bool FakeCuda::isDestroyed(cudaEvent_t event) {
  std::unique_lock lock(mutex);
  return destroyedEvents.contains(event);
}

bool FakeCuda::isPinned(const void *pointer) const {
  auto above = pinned.upper_bound(pointer);
  return above != pinned.begin() &&
         pointer < static_cast<const std::byte *>(*std::prev(above)) + sizeof(std::uint64_t);
}

bool FakeCuda::isDone(const Stream &stream, std::uint64_t sequence) const {
  return stream.operations.empty() || stream.operations.front().sequence > sequence;
}

/// The rule of the legacy stream: what was put on it waits for all earlier work of blocking
/// streams, and theirs for its earlier work.
bool FakeCuda::mayStart(const Stream &stream, const Operation &operation) const {
  bool legacy = stream.handle == nullptr;
  for (const auto &[handle, other] : streams)
    if (other.get() != &stream && stream.blocking && other->blocking &&
        (legacy || handle == nullptr) && !isDone(*other, operation.sequence))
      return false;
  return !operation.ready || operation.ready();
}

void FakeCuda::serve(Stream &stream) {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] {
      return stopping ||
             (!stream.operations.empty() && mayStart(stream, stream.operations.front()));
    });
    if (stopping)
      return;
    auto run = stream.operations.front().run;
    lock.unlock();
    run();
    lock.lock();
    stream.operations.pop_front();
    changed.notify_all();
  }
}

std::uint64_t FakeCuda::put(cudaStream_t stream, std::function<void()> run,
                            std::function<bool()> ready) {
  std::unique_lock lock(mutex);
  find(stream).operations.push_back({++lastSequence, std::move(ready), std::move(run)});
  changed.notify_all();
  return lastSequence;
}

void FakeCuda::pin(const void *memory) {
  std::unique_lock lock(mutex);
  pinned.insert(memory);
}

void FakeCuda::waitFor(std::unique_lock<std::mutex> &lock, Stream &stream) {
  std::uint64_t until = lastSequence;
  bool legacy = stream.handle == nullptr;
  changed.wait(lock, [&] {
    for (const auto &[handle, other] : streams)
      if ((other.get() == &stream || (legacy && other->blocking)) && !isDone(*other, until))
        return false;
    return true;
  });
}

void FakeCuda::settle() {
  settleWhere([](const Stream &) { return true; });
}

void FakeCuda::settleControl() {
  settleWhere([](const Stream &stream) { return stream.priority == highestPriority; });
}

void FakeCuda::settleWhere(const std::function<bool(const Stream &)> &meant) {
  std::unique_lock lock(mutex);
  std::uint64_t until = lastSequence;
  changed.wait(lock, [&] {
    for (const auto &[handle, stream] : streams)
      if (meant(*stream) && !isDone(*stream, until))
        return false;
    return true;
  });
}

cudaError_t FakeCuda::launch(const void *function, dim3 grid, dim3 block, void **arguments,
                             cudaStream_t stream, bool cooperative) {
  FakeLaunch made;
  std::function<void(const FakeLaunch &)> run;
  {
    std::unique_lock lock(mutex);
    auto found = functions.find(function);
    if (found == functions.end())
      return failed(cudaErrorInvalidDeviceFunction);
    bool isDefault = !stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
    if (!isDefault && find(stream).device != threadsDevice)
      return failed(cudaErrorInvalidResourceHandle);
    devicesOf[found->second].insert(threadsDevice);
    if (grid.x == 0 || block.x == 0 || block.x > 1024)
      return failed(cudaErrorInvalidConfiguration);
    const Kernel &kernel = kernels.at(found->second);
    made = {found->second, grid, block, {}, cooperative};
    for (std::size_t i = 0; i < kernel.parameterSizes.size(); ++i) {
      auto bytes = static_cast<const std::byte *>(arguments[i]);
      made.arguments.emplace_back(bytes, bytes + kernel.parameterSizes[i]);
    }
    run = kernel.run;
  }
  put(stream, [this, made, run] {
    run(made);
    note(made.name);
  });
  return cudaSuccess;
}

void FakeCuda::addKernel(const std::string &name, Kernel kernel) {
  std::unique_lock lock(mutex);
  kernels[name] = std::move(kernel);
}

void FakeCuda::note(const std::string &what) {
  std::unique_lock lock(mutex);
  done.push_back(what);
}

std::vector<std::string> FakeCuda::log() {
  std::unique_lock lock(mutex);
  return done;
}

std::map<std::string, std::map<int, int>> FakeCuda::attributes() {
  std::unique_lock lock(mutex);
  return attributesSet;
}

} // namespace tally::test
