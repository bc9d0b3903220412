#include "work/api_device.h"

#include "state/in_hook.h"
#include "work/device_info.h"
#include "work/foreign_launch.h"
#include "work/kernel_launch.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <string>

namespace tally::hooks {

Result<void> ApiDevice::open() {
  TALLY_API_TRY(api, cudaGetDevice, &device);
  Result<runtime::DeviceInfo> read = readDeviceInfo(api, device);
  if (!read)
    return read.error();
  facts = *read;
  return {};
}

bool isUnderMps() { return runtime::isMpsRunning(); }

Result<void> ApiDevice::openControl(std::uint64_t controlWord, bool isOneClass) {
  isOneClassUnderMps = isOneClass && runtime::isMpsRunning();
  TALLY_API_TRY(api, cudaEventCreateWithFlags, &order, cudaEventDisableTiming);
  driverContext = currentContext(api);
  // The emulator's streams share no connections.
  mostStreams = Settings::get().emulator.isOn ? std::numeric_limits<std::size_t>::max()
                                              : runtime::streamsWithOwnConnection();
  operations = MemoryOperations::find(api);
  Result<runtime::MappedMemory> trigger = allocateMapped(sizeof(std::uint64_t));
  if (!trigger)
    return trigger.error();
  if (Result<void> opened = signal.open(confined, device, operations, *trigger); !opened)
    return opened;
  if (Result<void> written = writeValue({}, signal.address(), controlWord); !written)
    return written;
  return signal.synchronize();
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

/// A shape for which the runtime returns an error can never run.
Result<std::uint32_t> ApiDevice::residentBlocksPerSm(runtime::FunctionId function, Dim3 block,
                                                     std::uint32_t dynamicSharedBytes) {
  const FunctionEntry &entry = entryOf(function);
  // A variant may need more shared memory than the program allows its kernel.
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

void ApiDevice::end(bool isReset) {
  gate.shut();
  if (isReset)
    confined.destroyAll();
}

Result<void> ApiDevice::writeValue(runtime::StreamId stream, runtime::DevicePtr to,
                                   std::uint64_t value) {
  InHook inside; // else the driver-level hook would take the stream for one of the program's
  CallGate::Passage calling(gate);
  if (stream != runtime::StreamId{})
    return signal.writeOn(stateOf(stream).handle, to, value);
  return signal.isOpen() && calling ? signal.write(value) : Result<void>();
}

/// Only for the control stream, on the dispatcher's thread, which uses this device.
Result<void> ApiDevice::writeValueWhen(runtime::StreamId stream, std::uint64_t reached,
                                       runtime::DevicePtr to, std::uint64_t value) {
  InHook inside;
  assert(stream == runtime::StreamId{} && to == 0);
  static_cast<void>(stream);
  static_cast<void>(to);
  CallGate::Passage calling(gate);
  return signal.isOpen() && calling ? signal.writeWhen(reached, value) : Result<void>();
}

/// Called by threads that use this device.
Result<void> ApiDevice::waitForWords(runtime::StreamId stream,
                                     std::span<const runtime::WordWait> words) {
  InHook inside;
  auto all = runtime::wordWaits(words);
  return MemoryOperations::did(operations.wordWait(
      stateOf(stream).handle, static_cast<unsigned>(words.size()), all.data(), 0));
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
  CallGate::Passage calling(gate);
  if (!calling)
    return true;
  captures.ask([&] {
    // The legacy stream's handle names the legacy stream of the thread's device.
    int current = state.device;
    bool elsewhere = state.kind == StreamKind::Legacy &&
                     state.api->cudaGetDevice(&current) == cudaSuccess && current != state.device;
    if (elsewhere)
      state.api->cudaSetDevice(state.device);
    if (cudaEvent_t marker = state.marker.load())
      status = state.api->cudaEventQuery(marker);
    else if (state.leaving.load())
      status = cudaSuccess; // no thread waits for its remaining work
    else if (state.kind == StreamKind::PerThread)
      status = cudaSuccess; // its work came before any wait for its end; it cannot be queried
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
  return idOf(ownStreams.add(api, handle, device));
}

Result<runtime::StreamId> ApiDevice::createConfinedStream(std::uint32_t sms) {
  if (Settings::get().emulator.isOn) // its blocks run on no SM in particular
    return createStream(runtime::StreamPriority::Low);
  int lowest = 0, highest = 0;
  TALLY_API_TRY(api, cudaDeviceGetStreamPriorityRange, &lowest, &highest);
  Result<CUstream> made = confined.create(device, sms, lowest);
  if (!made)
    return made.error();
  return idOf(ownStreams.add(api, *made, device));
}

Result<void> ApiDevice::destroyStream(runtime::StreamId stream) {
  cudaStream_t handle = stateOf(stream).handle;
  ownStreams.remove(stateOf(stream));
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

bool ApiDevice::isHeldUp(runtime::StreamId earlier) {
  const StreamState &state = stateOf(earlier);
  if (state.kind == StreamKind::PerThread)
    return calls.areAheadOf(state) && captures.takesPart(*state.api, cudaStreamLegacy);
  return !state.isOwn && captures.takesPart(*state.api, state.handle);
}

bool ApiDevice::putOnApplications(runtime::StreamId ofApplication,
                                  const std::function<void()> &put) {
  StreamState &state = stateOf(ofApplication);
  if (!isOneClassUnderMps || state.kind != StreamKind::Legacy || state.device != device)
    return false;
  return putOn(ofApplication, [&](cudaStream_t) {
    state.getsLaneWork = true;
    put();
    state.getsLaneWork = false;
  });
}

bool ApiDevice::hasNews(runtime::StreamId earlier) {
  const StreamState &state = stateOf(earlier);
  return state.isOwn || calls.areNewOn(state);
}

Result<bool> ApiDevice::waitFor(runtime::StreamId later, runtime::StreamId earlier) {
  StreamState &before = stateOf(earlier);
  std::uint64_t noted = calls.sum(), notedLegacy = calls.onLegacy();
  bool isNew = before.isOwn || before.callsSeen != noted;
  if (later == earlier) {
    before.callsSeen = noted;
    return isNew;
  }
  if (!isNew && !before.getsLaneWork)
    return false;
  cudaStream_t behind = stateOf(later).handle;
  Result<bool> done = captures.steadily([&]() -> Result<bool> {
    // A record would become part of the capture, or make the capture invalid.
    if (isHeldUp(earlier))
      return Error{"the stream takes part in a capture"};
    bool ofThread = before.kind == StreamKind::PerThread;
    bool needsRecord = !ofThread || calls.areAheadOf(before);
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
