// How a device is told that best-effort work has to yield: by a control word in its memory, which a
// stream of tally's own writes.
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

/// The driver's operations on memory in stream order. nullptr: it has none.
struct MemoryOperations {
  /// cuStreamWriteValue64, or the emulator's; without it the word is copied.
  int (*writeValue)(cudaStream_t, std::uint64_t, std::uint64_t, unsigned) = nullptr;
  /// cuStreamBatchMemOp; without it nothing is armed.
  runtime::BatchMemOp batch = nullptr;
  /// The same, or the emulator's in its place; without it no lane's stream waits.
  runtime::BatchMemOp wordWait = nullptr;

  static MemoryOperations find(const CudaApi &api);
  /// What a call of cuStreamBatchMemOp came to.
  static Result<void> did(CUresult status);
};

/// Of one device. Thread-safe.
class ControlSignal {
public:
  ControlSignal(const CudaApi &api, OwnStreams &ownStreams) : api(api), ownStreams(ownStreams) {}

  /// By a thread whose device it is. The stream is one of `confined` where the driver has these,
  /// and `trigger`, mapped memory, a word that it can wait for. Nothing is written before this.
  Result<void> open(runtime::GreenStreams &confined, int onDevice,
                    const MemoryOperations &operations, const runtime::MappedMemory &trigger);
  bool isOpen() const { return opened; }
  /// The stream has a connection of its own.
  bool isApart() const { return controlIsApart; }
  runtime::DevicePtr address() const { return control; }
  std::atomic<std::uint64_t> *trigger() const { return triggerWord; }

  /// Writes the control word. Does not wait.
  Result<void> write(std::uint64_t value) { return writeOn(controlStream, control, value); }
  /// Once trigger() is at least `reached`; by a thread whose device it is.
  Result<void> writeWhen(std::uint64_t reached, std::uint64_t value);
  /// Writes another word, on a stream of the device's.
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
  std::atomic<bool> opened{false};                   ///< set behind the others
  std::atomic<std::uint64_t> *triggerWord = nullptr; ///< mapped memory
  runtime::DevicePtr triggerAddress = 0;
  std::uint64_t *words = nullptr; ///< pinned; a ring, so that a word stays until it was copied
  std::size_t nextWord = 0;
  std::mutex mutex; ///< of the ring
};

} // namespace tally::hooks

#endif
