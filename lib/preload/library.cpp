// The entry points of the preloaded library: it leads the driver's functions to the hooks when the
// driver is loaded, and does nothing before that. (`tally run`, docs/guide/tally-run.md)
#include "compilers.h"
#include "device/driver_exports.h"
#include "driver_api.h"
#include "intercept/driver_hook.h"
#include "state/settings.h"
#include "work/loaded_images.h"

#include <cuda.h>

#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <string_view>

using namespace tally;

namespace {

constexpr char driverName[] = "libcuda.so.1";

/// Whether the program, or a library that was loaded with it, is linked with Tally. Such a program
/// has an engine of its own, which sees the calls of the CUDA runtime too.
bool isLinkedWithTally() {
  constexpr char name[] = "tally_request_begin_v1";
  void *first = dlsym(RTLD_DEFAULT, name);
  Dl_info own = {}, found = {};
  dladdr(reinterpret_cast<void *>(&isLinkedWithTally), &own);
  return dlsym(RTLD_NEXT, name) || (dladdr(first, &found) != 0 && found.dli_fbase != own.dli_fbase);
}

/// Whether this library leaves the process alone: where Tally is linked in or disabled.
bool standsAside() {
  static const bool aside = isLinkedWithTally() || hooks::Settings::get().disabled;
  return aside;
}

bool isDriverLoaded() {
  void *loaded = dlopen(driverName, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (loaded)
    dlclose(loaded);
  return loaded != nullptr;
}

/// Leads the driver to the hooks, where the driver is loaded. `load`: loads the driver first. Where
/// the driver is not loaded, nothing is looked up and no setting is read.
void meetDriver(bool load) {
  static std::recursive_mutex meeting; // this call runs dlopen, which calls this function again
  static bool isUnderWay = false;
  std::unique_lock lock(meeting);
  if (isUnderWay || runtime::driverExports())
    return;
  isUnderWay = true;
  // The flags are set here and not in a constructor: a constructor of one of the program's
  // libraries, such as cuBLAS, may open the driver before this library's constructors run.
  hooks::isPreloadedLibrary = true;
  hooks::LoadedImages::beforeLoading = &preload::meetCompilers;
  if ((load || isDriverLoaded()) && !standsAside())
    hooks::installDriverHook();
  isUnderWay = false;
}

/// For a program that is linked with the driver.
__attribute__((constructor(101))) void meetLoadedDriver() { meetDriver(false); }

} // namespace

namespace tally::hooks {

const CudaApi &chooseApi() {
  const CudaApi &chosen = preload::driverApi();
  chosenApi.store(&chosen, std::memory_order_release);
  return chosen;
}

} // namespace tally::hooks

// From dlopen's return address the loader finds the calling object, and searches that object's own
// folders. So this code jumps to dlopen with the caller's return address.
extern "C" {
/// For modules that are linked with Tally and are loaded later.
__attribute__((visibility("default"))) int tally_preload_is_active() {
  return standsAside() ? 0 : 1;
}

/// The C library's own dlopen.
__attribute__((visibility("hidden"))) void *tallyRealDlopen = nullptr;

/// Called before dlopen(name, mode).
__attribute__((visibility("hidden"))) void tallyNoteLibrary(const char *name, int mode) {
  if (!tallyRealDlopen)
    tallyRealDlopen = dlsym(RTLD_NEXT, "dlopen");
  std::string_view path = name ? name : "";
  std::string_view file = path.substr(path.rfind('/') + 1); // npos + 1 is 0
  if (file == driverName || file == "libcuda.so")
    meetDriver(true);
  // NVRTC opens its own second library before it has made any code.
  if (runtime::driverExports())
    preload::meetCompiler(name ? name : "", mode);
}

/// A library that was loaded with the driver finds this function before the driver's own cuInit.
/// When a program looks up the driver's cuInit, the hooks are installed already.
__attribute__((visibility("default"))) CUresult cuInit(unsigned flags) {
  meetDriver(true);
  void *driver = dlopen(driverName, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  auto init = driver ? reinterpret_cast<CUresult (*)(unsigned)>(dlsym(driver, "cuInit")) : nullptr;
  return init ? init(flags) : CUDA_ERROR_NO_DEVICE;
}
}

#if defined(__x86_64__)
asm(R"(
    .text
    .globl dlopen
    .type dlopen, @function
dlopen:
    endbr64
    pushq %rdi
    pushq %rsi
    subq $8, %rsp
    call tallyNoteLibrary
    addq $8, %rsp
    popq %rsi
    popq %rdi
    jmp *tallyRealDlopen(%rip)
    .size dlopen, . - dlopen
)");
#elif defined(__aarch64__)
asm(R"(
    .text
    .globl dlopen
    .type dlopen, %function
dlopen:
    stp x29, x30, [sp, #-32]!
    stp x0, x1, [sp, #16]
    bl tallyNoteLibrary
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #32
    adrp x9, tallyRealDlopen
    ldr x9, [x9, :lo12:tallyRealDlopen]
    br x9
    .size dlopen, . - dlopen
)");
#else
#error "the preloaded library knows x86-64 and AArch64"
#endif
