#include "work/api_device.h"

#include "base/duration_estimate.h"
#include "base/uuid_text.h"
#include "device/bandwidth.h"
#include "state/in_hook.h"
#include "work/foreign_launch.h"
#include "work/kernel_launch.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <limits>
#include <string>
#include <thread>

namespace tally::hooks {

namespace {

constexpr std::size_t wordCount = 1024;

Error failed(const CudaApi &api, const char *call, cudaError_t status) {
  return ApiDevice::failure(api, call, status);
}

/// Of the driver's cuStreamBatchMemOp.
Result<void> did(CUresult status) {
  if (status != CUDA_SUCCESS)
    return Error{"cuStreamBatchMemOp: error " + std::to_string(status)};
  return {};
}

} // namespace

#define TALLY_API_TRY(api, name, ...)                                                              \
  do {                                                                                             \
    cudaError_t tallyStatus = (api).name(__VA_ARGS__);                                             \
    if (tallyStatus != cudaSuccess)                                                                \
      return failed(api, #name, tallyStatus);                                                      \
  } while (false)

Error ApiDevice::failure(const CudaApi &api, const char *call, cudaError_t status) {
  return {std::string(call) + ": " + api.cudaGetErrorName(status) + " (" +
          api.cudaGetErrorString(status) + ")"};
}

Result<void> ApiDevice::open() {
  TALLY_API_TRY(api, cudaGetDevice, &device);
  return describe();
}

Result<void> ApiDevice::describe() {
  cudaDeviceProp properties{};
  TALLY_API_TRY(api, cudaGetDeviceProperties, &properties, device);
  const auto &uuid = properties.uuid.bytes;
  if (std::any_of(std::begin(uuid), std::end(uuid), [](char each) { return each != 0; }))
    facts.uuid = runtime::uuidText(uuid);
  if (!Settings::get().emulator) {
    facts.name = properties.name;
    TALLY_API_TRY(api, cudaDriverGetVersion, &facts.driverVersion);
  }
  constexpr std::array<cudaDeviceAttr, 4> wanted = {
      cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor,
      cudaDevAttrMultiProcessorCount, cudaDevAttrMaxSharedMemoryPerBlockOptin};
  std::array<int, wanted.size()> values{};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    TALLY_API_TRY(api, cudaDeviceGetAttribute, &values[i], wanted[i], device);
  if (!Settings::get().emulator)
    if (Result<void> described = describeSms(); !described)
      return described;
  facts.arch = static_cast<std::uint32_t>(values[0] * 10 + values[1]);
  facts.smCount = static_cast<std::uint32_t>(values[2]);
  facts.maxSharedBytesPerBlock = static_cast<std::uint32_t>(values[3]);
  return {};
}

Result<void> ApiDevice::describeSms() {
  constexpr std::array<cudaDeviceAttr, 6> wanted = {cudaDevAttrMaxThreadsPerMultiProcessor,
                                                    cudaDevAttrMaxRegistersPerMultiprocessor,
                                                    cudaDevAttrMaxSharedMemoryPerMultiprocessor,
                                                    cudaDevAttrMemoryClockRate,
                                                    cudaDevAttrGlobalMemoryBusWidth,
                                                    cudaDevAttrMaxBlocksPerMultiprocessor};
  std::array<int, wanted.size()> values{};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    TALLY_API_TRY(api, cudaDeviceGetAttribute, &values[i], wanted[i], device);
  facts.threadsPerSm = static_cast<std::uint32_t>(values[0]);
  facts.registersPerSm = static_cast<std::uint32_t>(values[1]);
  facts.sharedBytesPerSm = static_cast<std::uint32_t>(values[2]);
  facts.bandwidth = runtime::bandwidthOf(values[3], values[4]);
  facts.blocksPerSm = static_cast<std::uint32_t>(values[5]);
  facts.launchTurn = runtime::usualLaunchTurn;
  return {};
}

/// It has the device's highest priority, which applications do not get, and where the driver can
/// connections that none of their streams share.
Result<void> ApiDevice::openControlStream() {
  int lowest = 0, highest = 0;
  TALLY_API_TRY(api, cudaDeviceGetStreamPriorityRange, &lowest, &highest);
  Result<CUstream> apart = confined.createApart(device, highest);
  controlIsApart = static_cast<bool>(apart);
  if (controlIsApart)
    controlStream = *apart;
  else
    TALLY_API_TRY(api, cudaStreamCreateWithPriority, &controlStream, cudaStreamNonBlocking,
                  highest);
  return {};
}

Result<void> ApiDevice::openControl(std::uint64_t controlWord) {
  if (Result<void> opened = openControlStream(); !opened)
    return opened;
  TALLY_API_TRY(api, cudaEventCreateWithFlags, &order, cudaEventDisableTiming);
  void *memory = nullptr;
  TALLY_API_TRY(api, cudaHostAlloc, &memory, wordCount * sizeof(std::uint64_t),
                cudaHostAllocDefault);
  words = static_cast<std::uint64_t *>(memory);
  TALLY_API_TRY(api, cudaMalloc, &memory, sizeof(std::uint64_t));
  control = reinterpret_cast<runtime::DevicePtr>(memory);
  // Where there is no driver copies do for stores in stream order.
  streamWriteValue =
      Settings::get().emulator
          ? api.driver().writeValue
          : reinterpret_cast<StreamWriteValue>(driverEntry(api, "cuStreamWriteValue64"));
  findContext();
  if (Result<void> opened = openTrigger(); !opened)
    return opened;
  hasControl = true;
  if (Result<void> written = writeValue({}, control, controlWord); !written)
    return written;
  TALLY_API_TRY(api, cudaStreamSynchronize, controlStream);
  return {};
}

Result<void> ApiDevice::openTrigger() {
  Result<runtime::MappedMemory> word = allocateMapped(sizeof(std::uint64_t));
  if (!word)
    return word.error();
  triggerWord = reinterpret_cast<std::atomic<std::uint64_t> *>(word->host);
  triggerAddress = word->device;
  // The emulator's streams share nothing.
  mostStreams = Settings::get().emulator ? std::numeric_limits<std::size_t>::max()
                                         : runtime::streamsWithOwnConnection();
  batchMemOp = reinterpret_cast<runtime::BatchMemOp>(driverEntry(api, "cuStreamBatchMemOp"));
  wordWait = Settings::get().emulator ? api.driver().batchMemOp : batchMemOp;
  return {};
}

void *ApiDevice::driverEntry(const CudaApi &api, const char *name) {
  if (Settings::get().emulator)
    return nullptr;
  void *entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  cudaError_t status = api.cudaGetDriverEntryPoint(name, &entry, cudaEnableDefault, &found);
  return status == cudaSuccess && found == cudaDriverEntryPointSuccess ? entry : nullptr;
}

void ApiDevice::findContext() {
  using CurrentContext = int (*)(void **);
  if (auto current = reinterpret_cast<CurrentContext>(driverEntry(api, "cuCtxGetCurrent")))
    current(&driverContext);
}

Result<runtime::FunctionId> ApiDevice::function(runtime::ModuleId module, std::string_view entry) {
  auto &record = *reinterpret_cast<KernelRecord *>(static_cast<std::uint64_t>(module));
  const void *address = entry == record.name ? record.function : nullptr;
  for (Kind kind : allKinds)
    for (bool resume : {false, true})
      if (!address && entry == bundle::entryName(record.name, kind, resume))
        address = record.variants[static_cast<std::size_t>(kind)][resume];
  if (!address)
    return Error{std::string(entry) + ": no such entry was registered"};
  std::unique_lock lock(adding);
  FunctionEntry &added = functions.emplace_back(FunctionEntry{record.api, address, &record});
  return static_cast<runtime::FunctionId>(reinterpret_cast<std::uint64_t>(&added));
}

Result<runtime::FunctionAttributes> ApiDevice::attributes(runtime::FunctionId function) {
  const FunctionEntry &entry = entryOf(function);
  cudaFuncAttributes found{};
  TALLY_API_TRY(*entry.api, cudaFuncGetAttributes, &found, entry.address);
  return runtime::FunctionAttributes{static_cast<std::uint32_t>(found.numRegs),
                                     static_cast<std::uint32_t>(found.sharedSizeBytes),
                                     static_cast<std::uint32_t>(found.maxThreadsPerBlock)};
}

/// A shape that the runtime refuses to answer for can never run.
Result<std::uint32_t> ApiDevice::residentBlocksPerSm(runtime::FunctionId function, Dim3 block,
                                                     std::uint32_t dynamicSharedBytes) {
  const FunctionEntry &entry = entryOf(function);
  // A variant may be given more than the program allows its kernel.
  cudaFuncAttributes limits{};
  if (entry.api->cudaFuncGetAttributes(&limits, entry.address) == cudaSuccess &&
      dynamicSharedBytes > static_cast<std::uint64_t>(limits.maxDynamicSharedSizeBytes))
    entry.api->cudaFuncSetAttribute(entry.address, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(dynamicSharedBytes));
  int blocks = 0;
  cudaError_t status = entry.api->cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, entry.address, static_cast<int>(block.count()), dynamicSharedBytes);
  return status == cudaSuccess ? static_cast<std::uint32_t>(blocks) : 0u;
}

namespace {

/// Counts the thread in for as long as it may call the CUDA runtime; not where the process ends.
class Calling {
public:
  Calling(std::atomic<std::uint32_t> &inCalls, const std::atomic<bool> &ended) : inCalls(inCalls) {
    inCalls.fetch_add(1);
    may = !ended.load();
  }
  ~Calling() { inCalls.fetch_sub(1); }
  Calling(const Calling &) = delete;
  Calling &operator=(const Calling &) = delete;
  explicit operator bool() const { return may; }

private:
  std::atomic<std::uint32_t> &inCalls;
  bool may = false;
};

} // namespace

void ApiDevice::end() {
  ended = true;
  awaitCalls();
}

void ApiDevice::retire() {
  end();
  confined.destroyAll();
}

void ApiDevice::awaitCalls() const {
  while (inCalls.load() != 0)
    std::this_thread::yield();
}

Result<void> ApiDevice::writeValue(runtime::StreamId stream, runtime::DevicePtr to,
                                   std::uint64_t value) {
  InHook inside; // else the driver-level hook would take the stream for one of the program's
  bool isControl = stream == runtime::StreamId{};
  Calling calling(inCalls, ended);
  if (isControl && (!hasControl || !calling))
    return {};
  cudaStream_t on = isControl ? controlStream : stateOf(stream).handle;
  if (isControl)
    to = control;
  // No lock: a request must not wait for a write that another thread makes on another stream. On
  // one stream writes are made by one thread at a time.
  if (streamWriteValue) {
    int status = streamWriteValue(on, to, value, 0);
    if (status != 0) {
      // The thread has made no call of the runtime yet, or uses another device: to the driver it
      // has no context, or another one.
      int current = device;
      api.cudaGetDevice(&current);
      api.cudaSetDevice(device);
      status = streamWriteValue(on, to, value, 0);
      if (current != device)
        api.cudaSetDevice(current);
    }
    if (status != 0)
      return Error{"cuStreamWriteValue64: error " + std::to_string(status)};
    return {};
  }
  std::unique_lock lock(mutex);
  if (nextWord == wordCount) {
    // Copies of the ring's first words may still be under way.
    TALLY_API_TRY(api, cudaStreamSynchronize, controlStream);
    for (const StreamState &own : ownStreams)
      TALLY_API_TRY(api, cudaStreamSynchronize, own.handle);
    nextWord = 0;
  }
  std::uint64_t *word = &words[nextWord++];
  *word = value;
  TALLY_API_TRY(api, cudaMemcpyAsync, reinterpret_cast<void *>(to), word, sizeof *word,
                cudaMemcpyDefault, on);
  return {};
}

/// On the control stream only, by the dispatcher's thread, whose device is this one.
Result<void> ApiDevice::writeValueWhen(runtime::StreamId stream, std::uint64_t reached,
                                       runtime::DevicePtr to, std::uint64_t value) {
  InHook inside;
  assert(stream == runtime::StreamId{} && to == 0);
  static_cast<void>(stream);
  static_cast<void>(to);
  Calling calling(inCalls, ended);
  if (!hasControl || !calling)
    return {};
  auto both = runtime::triggeredWrite(triggerAddress, reached, control, value);
  return did(batchMemOp(controlStream, both.size(), both.data(), 0));
}

/// By threads whose device is this one.
Result<void> ApiDevice::waitForWords(runtime::StreamId stream,
                                     std::span<const runtime::WordWait> words) {
  InHook inside;
  auto all = runtime::wordWaits(words);
  return did(wordWait(stateOf(stream).handle, static_cast<unsigned>(words.size()), all.data(), 0));
}

Result<bool> ApiDevice::isIdle(runtime::StreamId stream) {
  StreamState &state = stateOf(stream);
  cudaError_t status = cudaErrorNotReady;
  if (state.isOwn) {
    status = api.cudaStreamQuery(state.handle);
    if (status != cudaSuccess && status != cudaErrorNotReady)
      return failed(api, "cudaStreamQuery", status);
    return status == cudaSuccess;
  }
  Calling calling(inCalls, ended);
  if (!calling)
    return true;
  captures.ask([&] {
    // The legacy stream's handle means that of the thread's device.
    int current = state.device;
    bool elsewhere = state.kind == StreamKind::Legacy &&
                     state.api->cudaGetDevice(&current) == cudaSuccess && current != state.device;
    if (elsewhere)
      state.api->cudaSetDevice(state.device);
    if (cudaEvent_t marker = state.marker.load())
      status = state.api->cudaEventQuery(marker);
    else if (state.leaving.load())
      status = cudaSuccess; // nobody waits for what it still has
    else if (state.kind == StreamKind::PerThread)
      status = cudaSuccess; // put there before anybody waited for its end, and nobody can ask
    else
      status = state.api->cudaStreamQuery(state.handle);
    if (elsewhere)
      state.api->cudaSetDevice(current);
  });
  return status != cudaErrorNotReady;
}

Result<void> ApiDevice::synchronize(runtime::StreamId stream) {
  StreamState &state = stateOf(stream);
  TALLY_API_TRY(*state.api, cudaStreamSynchronize, state.handle);
  return {};
}

Result<runtime::DevicePtr> ApiDevice::allocate(std::size_t bytes) {
  void *memory = nullptr;
  TALLY_API_TRY(api, cudaMalloc, &memory, bytes);
  return reinterpret_cast<runtime::DevicePtr>(memory);
}

Result<void> ApiDevice::free(runtime::DevicePtr pointer) {
  TALLY_API_TRY(api, cudaFree, reinterpret_cast<void *>(pointer));
  return {};
}

Result<runtime::MappedMemory> ApiDevice::allocateMapped(std::size_t bytes) {
  void *host = nullptr, *mapped = nullptr;
  TALLY_API_TRY(api, cudaHostAlloc, &host, bytes, cudaHostAllocMapped);
  std::memset(host, 0, bytes);
  TALLY_API_TRY(api, cudaHostGetDevicePointer, &mapped, host, 0);
  return runtime::MappedMemory{static_cast<std::byte *>(host),
                               reinterpret_cast<runtime::DevicePtr>(mapped)};
}

Result<runtime::StreamId> ApiDevice::createStream(runtime::StreamPriority priority) {
  int lowest = 0, highest = 0;
  TALLY_API_TRY(api, cudaDeviceGetStreamPriorityRange, &lowest, &highest);
  int level = priority == runtime::StreamPriority::Low    ? lowest
              : priority == runtime::StreamPriority::High ? std::min(highest + 1, lowest)
                                                          : highest;
  cudaStream_t handle = nullptr;
  TALLY_API_TRY(api, cudaStreamCreateWithPriority, &handle, cudaStreamNonBlocking, level);
  return addOwn(handle);
}

Result<runtime::StreamId> ApiDevice::createConfinedStream(std::uint32_t sms) {
  if (Settings::get().emulator)
    return Error{"the emulator has no SMs to divide"};
  int lowest = 0, highest = 0;
  TALLY_API_TRY(api, cudaDeviceGetStreamPriorityRange, &lowest, &highest);
  Result<CUstream> made = confined.create(device, sms, lowest);
  if (!made)
    return made.error();
  return addOwn(*made);
}

runtime::StreamId ApiDevice::addOwn(cudaStream_t handle) {
  std::unique_lock lock(mutex);
  StreamState &made = ownStreams.emplace_back();
  made.handle = handle;
  made.api = &api;
  made.kind = StreamKind::NonBlocking;
  made.device = device;
  made.isOwn = true;
  ownCount = ownStreams.size();
  return idOf(made);
}

Result<void> ApiDevice::destroyStream(runtime::StreamId stream) {
  cudaStream_t handle = stateOf(stream).handle;
  {
    std::unique_lock lock(mutex);
    ownStreams.remove_if([&](const StreamState &own) { return &own == &stateOf(stream); });
    ownCount = ownStreams.size();
  }
  if (confined.destroy(handle))
    return {};
  TALLY_API_TRY(api, cudaStreamDestroy, handle);
  return {};
}

Result<void> ApiDevice::copyToDevice(runtime::StreamId stream, runtime::DevicePtr to,
                                     std::span<const std::byte> from) {
  TALLY_API_TRY(api, cudaMemcpyAsync, reinterpret_cast<void *>(to), from.data(), from.size(),
                cudaMemcpyDefault, stateOf(stream).handle);
  return {};
}

Result<void> ApiDevice::copyToHost(runtime::StreamId stream, std::span<std::byte> to,
                                   runtime::DevicePtr from) {
  TALLY_API_TRY(api, cudaMemcpyAsync, to.data(), reinterpret_cast<const void *>(from), to.size(),
                cudaMemcpyDefault, stateOf(stream).handle);
  return {};
}

Result<void> ApiDevice::fill(runtime::StreamId stream, runtime::DevicePtr to, std::byte value,
                             std::size_t bytes) {
  TALLY_API_TRY(api, cudaMemsetAsync, reinterpret_cast<void *>(to), std::to_integer<int>(value),
                bytes, stateOf(stream).handle);
  return {};
}

Result<void> ApiDevice::launchWith(runtime::StreamId stream, runtime::FunctionId function,
                                   const LaunchShape &shape, std::span<const std::byte> parameters,
                                   std::span<const cudaLaunchAttribute> attributes) {
  cudaError_t status =
      launchVariant(entryOf(function), shape, parameters, attributes, stateOf(stream).handle);
  if (status == cudaSuccess)
    return {};
  api.cudaGetLastError();
  return failed(api, "cudaLaunchKernelExC", status);
}

/// The default stream of a thread, which only that thread can put an event on, comes behind the
/// legacy one, on which others may have put something since it last did.
bool ApiDevice::isBehindLegacy(const StreamState &stream) const {
  return stream.kind == StreamKind::PerThread && stream.legacyCallsSeen != legacyCalls.load();
}

bool ApiDevice::isHeldUp(runtime::StreamId earlier) {
  const StreamState &state = stateOf(earlier);
  if (state.kind == StreamKind::PerThread)
    return isBehindLegacy(state) && captures.takesPart(*state.api, cudaStreamLegacy);
  return !state.isOwn && captures.takesPart(*state.api, state.handle);
}

bool ApiDevice::hasNews(runtime::StreamId earlier) {
  const StreamState &state = stateOf(earlier);
  return state.isOwn || state.callsSeen != calls.load();
}

Result<bool> ApiDevice::waitFor(runtime::StreamId later, runtime::StreamId earlier) {
  StreamState &before = stateOf(earlier);
  std::uint64_t noted = calls.load(), notedLegacy = legacyCalls.load();
  if (!before.isOwn && before.callsSeen == noted)
    return false;
  cudaStream_t behind = stateOf(later).handle;
  Result<bool> done = captures.steadily([&]() -> Result<bool> {
    // A record would become a part of the capture, or make it invalid.
    if (isHeldUp(earlier))
      return Error{"the stream takes part in a capture"};
    bool ofThread = before.kind == StreamKind::PerThread;
    bool needsRecord = !ofThread || isBehindLegacy(before);
    if (needsRecord) {
      TALLY_API_TRY(api, cudaEventRecord, order, ofThread ? cudaStreamLegacy : before.handle);
      TALLY_API_TRY(api, cudaStreamWaitEvent, behind, order, 0);
    }
    cudaEvent_t marker = ofThread ? before.marker.load() : nullptr;
    if (marker)
      TALLY_API_TRY(api, cudaStreamWaitEvent, behind, marker, 0);
    return needsRecord || marker;
  });
  if (done) {
    before.callsSeen = noted;
    before.legacyCallsSeen = notedLegacy;
  }
  return done;
}

} // namespace tally::hooks
