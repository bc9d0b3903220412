// The start-up and end of a module: the module installs the driver-level hook, and the host code of
// nvcc and clang calls these wrappers.
#include "intercept/driver_hook.h"
#include "intercept/wrappers.h"
#include "state/settings.h"

#include "tally/hooks.h"

#include <cstdlib>
#include <string_view>

using namespace tally::hooks;

namespace {

/// A program may call the C interface by weak references, for which the linker takes no object from
/// an archive.
__attribute__((used)) int (*const cInterface)(void *, tally_stream_class) = &tally_stream_set_class;

/// The settings are not read yet: a program may still set them.
bool isDisabled() {
  const char *setting = std::getenv("TALLY_DISABLE");
  return setting && std::string_view(setting) == "1";
}

/// Runs before the module's other initializers.
__attribute__((constructor(101))) void install() {
  if (!isDisabled() && !isLedByPreload())
    installDriverHook();
}

} // namespace

extern "C" {

void **__wrap___cudaRegisterFatBinary(void *fatCubin) {
  if (isOff())
    return __real___cudaRegisterFatBinary(fatCubin);
  Hooks &hooks = Hooks::shared();
  InHook inside;
  hooks.libraries().hooked(api());
  return hooks.registered().registerFatBinary(api(), fatCubin);
}

void __wrap___cudaRegisterFatBinaryEnd(void **handle) {
  if (isOff())
    return __real___cudaRegisterFatBinaryEnd(handle);
  InHook inside;
  api().__cudaRegisterFatBinaryEnd(handle);
}

void __wrap___cudaUnregisterFatBinary(void **handle) {
  if (isOff())
    return __real___cudaUnregisterFatBinary(handle);
  Hooks &hooks = Hooks::shared();
  hooks.served().drain();
  InHook inside;
  hooks.registered().unregisterFatBinary(handle);
  hooks.kernelsUnloaded();
  api().__cudaUnregisterFatBinary(handle);
}

void __wrap___cudaRegisterFunction(void **handle, const char *hostFun, char *deviceFun,
                                   const char *deviceName, int threadLimit, uint3 *tid, uint3 *bid,
                                   dim3 *bDim, dim3 *gDim, int *wSize) {
  if (isOff())
    return __real___cudaRegisterFunction(handle, hostFun, deviceFun, deviceName, threadLimit, tid,
                                         bid, bDim, gDim, wSize);
  InHook inside;
  api().__cudaRegisterFunction(handle, hostFun, deviceFun, deviceName, threadLimit, tid, bid, bDim,
                               gDim, wSize);
  Hooks::shared().registered().registerFunction(api(), handle, hostFun, deviceName);
}

} // extern "C"
