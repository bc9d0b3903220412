#include "work/control_signal.h"

#include "state/api_calls.h"
#include "state/settings.h"
#include "tables/driver_launches.h"

#include <string>

namespace tally::hooks {

namespace {

constexpr std::size_t wordCount = 1024;

} // namespace

MemoryOperations MemoryOperations::find(const CudaApi &api) {
  MemoryOperations found;
  bool isEmulated = Settings::get().emulator.isOn;
  // Without a driver, copies serve as stores in stream order.
  found.writeValue =
      isEmulated
          ? api.driver().writeValue
          : reinterpret_cast<decltype(found.writeValue)>(driverEntry(api, "cuStreamWriteValue64"));
  found.batch = reinterpret_cast<runtime::BatchMemOp>(driverEntry(api, "cuStreamBatchMemOp"));
  found.wordWait = isEmulated ? api.driver().batchMemOp : found.batch;
  return found;
}

Result<void> MemoryOperations::did(CUresult status) {
  if (status != CUDA_SUCCESS)
    return Error{"cuStreamBatchMemOp: error " + std::to_string(status)};
  return {};
}

/// The stream has the device's highest priority, which applications do not get. Where the driver
/// can, it also has connections that no application's stream shares.
Result<void> ControlSignal::openStream(runtime::GreenStreams &confined) {
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

Result<void> ControlSignal::open(runtime::GreenStreams &confined, int onDevice,
                                 const MemoryOperations &operations,
                                 const runtime::MappedMemory &trigger) {
  device = onDevice;
  by = operations;
  if (Result<void> made = openStream(confined); !made)
    return made;
  void *memory = nullptr;
  TALLY_API_TRY(api, cudaHostAlloc, &memory, wordCount * sizeof(std::uint64_t),
                cudaHostAllocDefault);
  words = static_cast<std::uint64_t *>(memory);
  TALLY_API_TRY(api, cudaMalloc, &memory, sizeof(std::uint64_t));
  control = reinterpret_cast<runtime::DevicePtr>(memory);
  triggerWord = reinterpret_cast<std::atomic<std::uint64_t> *>(trigger.host);
  triggerAddress = trigger.device;
  opened = true;
  return {};
}

Result<void> ControlSignal::writeOn(cudaStream_t stream, runtime::DevicePtr to,
                                    std::uint64_t value) {
  // No lock: a request must not wait for a write that another thread makes on another stream. Only
  // one thread at a time writes on one stream.
  if (!by.writeValue)
    return copyOn(stream, to, value);
  int status = by.writeValue(stream, to, value, 0);
  if (status != 0) {
    // The thread has made no call of the runtime yet, or uses another device: for the driver it has
    // no context, or another one.
    int current = device;
    api.cudaGetDevice(&current);
    api.cudaSetDevice(device);
    status = by.writeValue(stream, to, value, 0);
    if (current != device)
      api.cudaSetDevice(current);
  }
  if (status != 0)
    return Error{"cuStreamWriteValue64: error " + std::to_string(status)};
  return {};
}

Result<void> ControlSignal::copyOn(cudaStream_t stream, runtime::DevicePtr to,
                                   std::uint64_t value) {
  std::unique_lock lock(mutex);
  if (nextWord == wordCount) {
    // Copies of the ring's first words may still be in progress.
    TALLY_API_TRY(api, cudaStreamSynchronize, controlStream);
    if (Result<void> over = ownStreams.synchronize(api); !over)
      return over;
    nextWord = 0;
  }
  std::uint64_t *word = &words[nextWord++];
  *word = value;
  TALLY_API_TRY(api, cudaMemcpyAsync, reinterpret_cast<void *>(to), word, sizeof *word,
                cudaMemcpyDefault, stream);
  return {};
}

Result<void> ControlSignal::writeWhen(std::uint64_t reached, std::uint64_t value) {
  auto both = runtime::triggeredWrite(triggerAddress, reached, control, value);
  return MemoryOperations::did(by.batch(controlStream, both.size(), both.data(), 0));
}

Result<void> ControlSignal::synchronize() {
  TALLY_API_TRY(api, cudaStreamSynchronize, controlStream);
  return {};
}

} // namespace tally::hooks
