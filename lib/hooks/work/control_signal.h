// Tells a device that best-effort work has to yield: a stream of tally's own writes a control word
// in device memory.
#ifndef TALLY_LIB_HOOKS_WORK_CONTROL_SIGNAL_H
#define TALLY_LIB_HOOKS_WORK_CONTROL_SIGNAL_H

#include "device/green_context.h"
#include "device/stream_memory.h"
#include "state/own_streams.h"
#include "tables/cuda_api.h"

#include "tally/runtime/device.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace tally::hooks {

/// The driver's operations on memory in stream order. nullptr: the driver does not have it.
struct MemoryOperations {
  /// cuStreamWriteValue64, or the emulator's; without it the word is copied.
  int (*writeValue)(cudaStream_t, std::uint64_t, std::uint64_t, unsigned) = nullptr;
  /// cuStreamBatchMemOp; without it no write is armed.
  runtime::BatchMemOp batch = nullptr;
  /// The same function, or the emulator's in its place; without it no lane's stream waits.
  runtime::BatchMemOp wordWait = nullptr;

  static MemoryOperations find(const CudaApi &api);
  /// Turns the status of cuStreamBatchMemOp into a Result.
  static Result<void> did(CUresult status);
};

/// The control signal of one device. Thread-safe.
class ControlSignal {
public:
  ControlSignal(const CudaApi &api, OwnStreams &ownStreams) : api(api), ownStreams(ownStreams) {}

  /// Called by a thread that uses the device. The stream is one of `confined` where the driver has
  /// such streams. `trigger` is mapped memory that holds a word for the stream to wait for. Nothing
  /// is written before this call.
  Result<void> open(runtime::GreenStreams &confined, int onDevice,
                    const MemoryOperations &operations, const runtime::MappedMemory &trigger);
  bool isOpen() const { return opened; }
  /// Whether the stream has a connection of its own.
  bool isApart() const { return controlIsApart; }
  runtime::DevicePtr address() const { return control; }
  std::atomic<std::uint64_t> *trigger() const { return triggerWord; }

  /// Writes the control word. Does not wait.
  Result<void> write(std::uint64_t value) { return writeOn(controlStream, control, value); }
  /// Writes the control word once trigger() is at least `reached`. Called by a thread that uses the
  /// device.
  Result<void> writeWhen(std::uint64_t reached, std::uint64_t value);
  /// Writes another word, on a stream of the device.
  Result<void> writeOn(cudaStream_t stream, runtime::DevicePtr to, std::uint64_t value);
  Result<void> synchronize();

private:
  Result<void> openStream(runtime::GreenStreams &confined);
  Result<void> copyOn(cudaStream_t stream, runtime::DevicePtr to, std::uint64_t value);

  const CudaApi &api;
  OwnStreams &ownStreams;
  int device = 0;
  MemoryOperations by;
  runtime::DevicePtr control = 0;
  cudaStream_t controlStream = nullptr;
  bool controlIsApart = false;
  std::atomic<bool> opened{false};                   ///< set after the other members
  std::atomic<std::uint64_t> *triggerWord = nullptr; ///< mapped memory
  runtime::DevicePtr triggerAddress = 0;
  std::uint64_t *words = nullptr; ///< pinned; a ring, so that a word stays until it is copied
  std::size_t nextWord = 0;
  std::mutex mutex; ///< guards the ring
};

} // namespace tally::hooks

#endif
