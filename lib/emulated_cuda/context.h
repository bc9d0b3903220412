// What all served calls share: the device, the thread's last error, and what is said on standard
// error and standard output.
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

/// One line on standard error, once in the process for each `topic`.
void sayOnce(const std::string &topic, const std::string &line);

/// The call's answer where it is not served: named once on standard error.
cudaError_t notServed(const char *call);

/// The one device of the process. It lives until the process ends: threads may still call while
/// static objects are destroyed.
class Context {
public:
  static Context &get();

  /// Opens the device at the first call. Null where that fails, and standard error has said why.
  runtime::EmulatorDevice *device();
  /// TALLY_EMULATOR_UUID's bytes: processes that have the same one share a GPU, as far as they are
  /// told. Zeros: the device has none.
  std::array<char, 16> uuid() const;
  bool wasOpened() const { return wasTried.load(std::memory_order_acquire); }
  /// The sticky error: that of the device's opening, or of the fault that ended it, which is
  /// printed once.
  cudaError_t health();
  /// What a failed call of the device means: the sticky error where there is one, else `otherwise`.
  cudaError_t meaning(const Result<void> &done, cudaError_t otherwise = cudaErrorUnknown);

  /// What kernels printed so far goes to standard output; CUDA does that when the host waits.
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

/// Runs `call(device)` unless the device is in error, and remembers what it returns.
template <class Call> cudaError_t served(Call call) {
  Context &context = Context::get();
  if (cudaError_t bad = context.health(); bad != cudaSuccess)
    return remember(bad);
  return remember(call(*context.device()));
}

} // namespace tally::hooks::emulated

#endif
