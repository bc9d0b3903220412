// Gives the fake driver the emulator's streams. The only part that mentions Tally.
#include "tables/cuda_api.h"

#include <dlfcn.h>

#include <atomic>

namespace tally::hooks {
/// The process's emulator; defined in real_api.cpp.
extern std::atomic<const CudaApi *> tallySharedEmulator2;
} // namespace tally::hooks

using InOrder = void (*)(cudaStream_t, void (*)(void *), void *);

extern "C" void useEmulatorsOrder() {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto *order = driver ? static_cast<InOrder *>(dlsym(driver, "fakeDriverInOrder")) : nullptr;
  if (!order)
    return;
  *order = [](cudaStream_t stream, void (*work)(void *), void *data) {
    tally::hooks::tallySharedEmulator2.load()->cudaLaunchHostFunc(stream, work, data);
  };
}
