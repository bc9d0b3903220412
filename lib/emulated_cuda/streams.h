// Streams of the CUDA runtime over those of the device, and the rules of the default streams (CUDA
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
  std::shared_ptr<Capture> capture; ///< set while what is put on the stream is recorded
  std::vector<GraphNode *> tips;    ///< of a capture: what the next operation comes after

  /// Whether it and the legacy default stream wait for each other.
  bool isBlocking() const { return !isLegacy && !(flags & cudaStreamNonBlocking); }
};

/// Thread-safe, but for the capture state of a stream, which one thread uses at a time.
class Streams {
public:
  static Streams &get();

  /// The stream of a handle; null for one that there is not.
  Stream *find(cudaStream_t handle);
  cudaError_t create(unsigned flags, int priority, cudaStream_t *result);
  cudaError_t destroy(cudaStream_t handle);

  /// Puts the waits before the next operation on the stream that the default stream's rules ask
  /// for.
  Result<void> prepare(runtime::EmulatorDevice &device, Stream &stream);
  /// Waits for the stream as the host's synchronisation does.
  Result<void> synchronize(runtime::EmulatorDevice &device, Stream &stream);
  Result<bool> isIdle(runtime::EmulatorDevice &device, Stream &stream);
  Result<void> synchronizeAll(runtime::EmulatorDevice &device);
  /// Takes all streams out of the capture. Whether each other's work comes before `tips`.
  bool leaveCapture(const Capture &capture, const std::vector<GraphNode *> &tips);

private:
  Stream *legacyStream(runtime::EmulatorDevice &device);
  std::unique_ptr<Stream> make(runtime::EmulatorDevice &device, unsigned flags, int priority);

  std::mutex mutex; ///< guards what follows
  std::unordered_map<const void *, std::unique_ptr<Stream>> streams;
  std::unordered_set<Stream *> all; ///< those of threads included
  std::unique_ptr<Stream> legacy;
  unsigned long long lastNumber = 0;
};

/// A call that a captured stream forbids: it makes the capture invalid.
cudaError_t refuseInCapture(Stream &stream);
/// Puts an operation on the stream, or into the graph that the stream is captured into.
cudaError_t submit(runtime::EmulatorDevice &device, Stream &stream, cudaGraphNodeType type,
                   GraphWork work);

/// The same on the stream of a handle; cudaErrorInvalidResourceHandle without one.
cudaError_t submit(runtime::EmulatorDevice &device, cudaStream_t handle, cudaGraphNodeType type,
                   GraphWork work);

} // namespace tally::hooks::emulated

#endif
