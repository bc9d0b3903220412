// Finds ways in which driver calls may bypass the hooks unseen: a driver that was used before the
// hooks were loaded, a library in a namespace of its own, a symbol table that cannot be written.
#include "intercept/unseen_calls.h"

#include "device/driver_exports.h"
#include "device/redirected_exports.h"
#include "intercept/driver_hook.h"
#include "process/hooks.h"

#include <cuda.h>

#include <dlfcn.h>
#include <link.h>

#include <memory>
#include <string_view>

using namespace tally;
using namespace tally::hooks;

// The loader finds the object that calls dlmopen from the return address. So tallyDlmopen jumps to
// dlmopen with the caller's return address.
extern "C" {
/// The C library's own dlmopen.
__attribute__((visibility("hidden"))) void *tallyRealDlmopen = nullptr;
__attribute__((visibility("hidden"))) void tallyNoteNamespace() {
  launchesPassUnseen(Unseen::Namespace);
}
__attribute__((visibility("hidden"))) void *tallyDlmopen(Lmid_t, const char *, int);
}
static_assert(LM_ID_BASE == 0);
#if defined(__x86_64__)
asm(R"(
    .text
    .hidden tallyDlmopen
    .globl tallyDlmopen
    .type tallyDlmopen, @function
tallyDlmopen:
    endbr64
    testq %rdi, %rdi
    je 1f
    pushq %rdi
    pushq %rsi
    pushq %rdx
    call tallyNoteNamespace
    popq %rdx
    popq %rsi
    popq %rdi
1:
    jmp *tallyRealDlmopen(%rip)
    .size tallyDlmopen, . - tallyDlmopen
)");
#elif defined(__aarch64__)
asm(R"(
    .text
    .hidden tallyDlmopen
    .globl tallyDlmopen
    .type tallyDlmopen, %function
tallyDlmopen:
    cbz x0, 1f
    stp x29, x30, [sp, #-48]!
    stp x0, x1, [sp, #16]
    str x2, [sp, #32]
    bl tallyNoteNamespace
    ldr x2, [sp, #32]
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #48
1:
    adrp x9, tallyRealDlmopen
    ldr x9, [x9, :lo12:tallyRealDlmopen]
    br x9
    .size tallyDlmopen, . - tallyDlmopen
)");
#else
#error "the driver-level hook knows x86-64 and AArch64"
#endif

namespace {

/// Whether there is another namespace than the first; glibc has told debuggers that since 2.35.
bool hasOtherNamespace() {
#if __GLIBC_PREREQ(2, 35)
  const auto *known = static_cast<const r_debug_extended *>(dlsym(RTLD_DEFAULT, "_r_debug"));
  return known && known->base.r_version >= 2 && known->r_next;
#else
  return false;
#endif
}

} // namespace

namespace tally::hooks {

void watchNamespaces() {
  if (hasOtherNamespace())
    launchesPassUnseen(Unseen::Namespace);
  // Before glibc 2.34 the loader's functions are in a library of their own.
  for (const char *name : {"libc.so.6", "libdl.so.2"}) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (!library)
      continue;
    auto choose = [](std::string_view exported, void *function) {
      if (exported != "dlmopen")
        return function;
      tallyRealDlmopen = function;
      return reinterpret_cast<void *>(&tallyDlmopen);
    };
    if (!runtime::redirectExports(library, choose, [] {}))
      launchesPassUnseen(Unseen::NotWritable);
    dlclose(library);
  }
}

/// Linking with the driver leaves its functions in offset tables. A lookup by a constructor
/// (cuBLASLt's, cuDNN's) leaves them in variables. Both are found.
std::optional<Unseen> whyUnseen(void *driver) {
  auto current = reinterpret_cast<CUresult (*)(CUcontext *)>(dlsym(driver, "cuCtxGetCurrent"));
  CUcontext context = nullptr;
  if (current && current(&context) != CUDA_ERROR_NOT_INITIALIZED)
    return Unseen::DriverInUse;
  return runtime::hasAllocatedCopies(driver, &hasWrapper) ? std::optional(Unseen::AllocatedCopies)
                                                          : std::nullopt;
}

} // namespace tally::hooks

namespace {

std::string reasonOf(Unseen why) {
  switch (why) {
  case Unseen::DriverInUse:
    return "the CUDA driver was started before the hooks were loaded, and what was found in it "
           "then "
           "leads past them (load what is linked with tally before the first use of CUDA)";
  case Unseen::AllocatedCopies:
    return "functions of the CUDA driver were looked up before the hooks were loaded, and their "
           "addresses lie in allocated memory (load what is linked with tally earlier)";
  case Unseen::NotWritable:
    return "the CUDA driver's symbol table cannot be written to";
  case Unseen::NoDriver:
    return "no CUDA driver (libcuda.so.1) was found when the hooks were loaded";
  case Unseen::Namespace:
    return "a library was loaded into a namespace of its own (dlmopen)";
  case Unseen::PrivateTable:
    return "a library uses a private table of the CUDA driver that is not known";
  }
  return "";
}

} // namespace

namespace tally::hooks {

void launchesPassUnseen(Unseen why, const std::string &detail) {
  const runtime::DriverExports *known = runtime::driverExports();
  if (!known || known->whyNotAll())
    return;
  auto reason = std::make_unique<std::string>(reasonOf(why) + detail);
  if (!known->notAll(reason->c_str()))
    return;
  (void)reason.release(); // kept until the process ends
  if (Hooks *process = tallySharedHooks4.load())
    process->served().runPlainly();
}

} // namespace tally::hooks
