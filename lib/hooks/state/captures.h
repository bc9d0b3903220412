// Stream captures: queries that a device must not get while a capture is open.
#ifndef TALLY_LIB_HOOKS_STATE_CAPTURES_H
#define TALLY_LIB_HOOKS_STATE_CAPTURES_H

#include "tables/cuda_api.h"

#include <atomic>
#include <mutex>

namespace tally::hooks {

/// The captures that the application has open. Calls are the runtime's or the driver's; both use
/// the same codes. Thread-safe.
class Captures {
public:
  bool any() const { return open.load() != 0; }

  /// cudaStreamBeginCapture; `call` begins the capture if it succeeds.
  template <class Call> auto begin(Call call) {
    std::unique_lock lock(mutex);
    auto status = call();
    if (static_cast<int>(status) == cudaSuccess)
      open.fetch_add(1);
    return status;
  }
  /// cudaStreamEndCapture; `call` ends the capture.
  template <class Call> auto end(Call call) {
    auto status = call();
    // A failed end ends no capture, or ends a capture that had been made invalid.
    int code = static_cast<int>(status);
    if (code == cudaSuccess || code == cudaErrorStreamCaptureInvalidated ||
        code == cudaErrorStreamCaptureUnjoined)
      open.fetch_sub(1);
    return status;
  }
  /// Runs `question` where no capture is open; none begins meanwhile. A query of a stream would
  /// make a capture that the stream takes part in invalid. Returns whether `question` ran.
  template <class Question> bool ask(Question question) {
    std::unique_lock lock(mutex);
    if (any())
      return false;
    question();
    return true;
  }

  /// Runs `action`; no capture begins meanwhile.
  template <class Action> auto steadily(Action action) {
    std::unique_lock lock(mutex);
    return action();
  }

  bool takesPart(const CudaApi &api, cudaStream_t stream) const {
    if (!any())
      return false;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    // The legacy stream cannot be queried while another stream captures: then the call itself
    // returns the error.
    return api.cudaStreamIsCapturing(stream, &status) != cudaSuccess ||
           status != cudaStreamCaptureStatusNone;
  }

private:
  std::recursive_mutex mutex; ///< recursive for calls within steadily()
  std::atomic<int> open{0};
};

} // namespace tally::hooks

#endif
