// Streams of the CUDA runtime over the device's streams, and the rules of the default streams (CUDA
// Runtime API, "Stream synchronization behavior").
#ifndef TALLY_LIB_EMULATED_CUDA_STREAMS_H
#define TALLY_LIB_EMULATED_CUDA_STREAMS_H

#include "context.h"
#include "graph.h"

#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace tally::hooks::emulated {

struct Stream {
  runtime::StreamId id{};
  unsigned flags = cudaStreamDefault;
  int priority = 0;
  unsigned long long number = 0;
  bool isLegacy = false;
  std::shared_ptr<Capture> capture; ///< set while operations on the stream are captured
  std::vector<GraphNode *> tips;    ///< in a capture: the next operation comes after these

  /// Whether the stream and the legacy default stream wait for each other.
  bool isBlocking() const { return !isLegacy && !(flags & cudaStreamNonBlocking); }
};

/// Thread-safe, except the capture state of a stream, which one thread uses at a time.
class Streams {
public:
  static Streams &get();

  /// The stream of a handle; null for an unknown handle.
  Stream *find(cudaStream_t handle);
  cudaError_t create(unsigned flags, int priority, cudaStream_t *result);
  cudaError_t destroy(cudaStream_t handle);

  /// Makes the stream's next operation wait as the rules of the default streams demand.
  Result<void> prepare(runtime::EmulatorDevice &device, Stream &stream);
  /// Waits for the stream like the host's synchronisation.
  Result<void> synchronize(runtime::EmulatorDevice &device, Stream &stream);
  Result<bool> isIdle(runtime::EmulatorDevice &device, Stream &stream);
  Result<void> synchronizeAll(runtime::EmulatorDevice &device);
  /// Takes all streams out of the capture. Returns whether all of their captured work comes before
  /// `tips`.
  bool leaveCapture(const Capture &capture, const std::vector<GraphNode *> &tips);

private:
  Stream *legacyStream(runtime::EmulatorDevice &device);
  std::unique_ptr<Stream> make(runtime::EmulatorDevice &device, unsigned flags, int priority);

  std::mutex mutex; ///< guards the members below
  std::unordered_map<const void *, std::unique_ptr<Stream>> streams;
  std::unordered_set<Stream *> all; ///< including default streams of threads
  std::unique_ptr<Stream> legacy;
  unsigned long long lastNumber = 0;
};

/// For a call that a captured stream forbids: makes the capture invalid and returns the error.
cudaError_t refuseInCapture(Stream &stream);
/// Puts an operation on the stream, or into the graph of its capture.
cudaError_t submit(runtime::EmulatorDevice &device, Stream &stream, cudaGraphNodeType type,
                   GraphWork work);

/// The same on the stream of a handle; returns cudaErrorInvalidResourceHandle for an unknown
/// handle.
cudaError_t submit(runtime::EmulatorDevice &device, cudaStream_t handle, cudaGraphNodeType type,
                   GraphWork work);

} // namespace tally::hooks::emulated

#endif
