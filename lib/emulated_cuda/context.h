// State and helpers that all served calls share: the device, the thread's last error, and the
// output on standard error and standard output.
#ifndef TALLY_LIB_EMULATED_CUDA_CONTEXT_H
#define TALLY_LIB_EMULATED_CUDA_CONTEXT_H

#include "device/emulator_device.h"

#include "tables/cuda_versions.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

namespace tally::hooks::emulated {

/// Remembers an error as the calling thread's last, and returns it.
cudaError_t remember(cudaError_t error);
cudaError_t lastError();
void clearLastError();

/// Writes one line on standard error, once in the process for each `topic`.
void sayOnce(const std::string &topic, const std::string &line);

/// Returns the error of a call that is not served, and names the call once on standard error.
cudaError_t notServed(const char *call);

/// The one device of the process. It lives until the process ends: threads may still call while
/// static objects are destroyed.
class Context {
public:
  static Context &get();

  /// Opens the device at the first call. Returns null where that fails; standard error then has the
  /// reason.
  runtime::EmulatorDevice *device();
  /// The bytes of TALLY_EMULATOR_UUID: processes with the same UUID appear to share a GPU. All
  /// zero: the device has none.
  std::array<char, 16> uuid() const;
  bool wasOpened() const { return wasTried.load(std::memory_order_acquire); }
  /// The sticky error: the error of opening the device, or of the fault that ended it. The fault is
  /// printed once.
  cudaError_t health();
  /// The error of a failed device call: the sticky error where there is one, else `otherwise`.
  cudaError_t meaning(const Result<void> &done, cudaError_t otherwise = cudaErrorUnknown);

  /// Writes the kernels' prints so far to standard output; CUDA does that when the host waits.
  void flushPrints();

private:
  Context() = default;
  void print(std::string_view text);

  std::once_flag opened;
  std::atomic<bool> wasTried{false};
  std::unique_ptr<runtime::EmulatorDevice> emulator;
  std::mutex printMutex; ///< guards `printed`
  std::string printed;
};

/// Runs `call(device)` unless the device is in error, and remembers the error that it returns.
template <class Call> cudaError_t served(Call call) {
  Context &context = Context::get();
  if (cudaError_t bad = context.health(); bad != cudaSuccess)
    return remember(bad);
  return remember(call(*context.device()));
}

} // namespace tally::hooks::emulated

#endif
