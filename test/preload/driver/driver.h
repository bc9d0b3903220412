// Declarations that the functions of the emulated driver share: the current contexts of threads,
// error codes, and the emulated CUDA runtime below. Each function is a few lines over that
// runtime's table, whose handles are the driver's too.
#ifndef TALLY_TEST_PRELOAD_DRIVER_DRIVER_H
#define TALLY_TEST_PRELOAD_DRIVER_DRIVER_H

// With __CUDA_API_VERSION_INTERNAL (CMakeLists.txt) the header renames nothing and declares the
// older forms.
#include <cuda.h>
#include <cudaTypedefs.h>

#include "emulated_cuda/context.h"
#include "tables/cuda_api.h"

#include <atomic>
#include <type_traits>
#include <utility>

// Declares each exported symbol with the type that CUDA's headers have for that version of it; a
// definition of another type does not compile, since C functions are not overloaded.
#define TALLY_DECLARED(pointer, symbol)                                                            \
  extern "C" __attribute__((visibility("default"))) std::remove_pointer_t<pointer> symbol;
#define TALLY_DRIVER(base, version, symbol) TALLY_DECLARED(PFN_##base##_v##version, symbol)
#define TALLY_DRIVER_PTSZ(base, version, symbol)                                                   \
  TALLY_DECLARED(PFN_##base##_v##version##_ptsz, symbol)
#define TALLY_DRIVER_PTDS(base, version, symbol)                                                   \
  TALLY_DECLARED(PFN_##base##_v##version##_ptds, symbol)
#include "functions.def"
#undef TALLY_DECLARED

/// A context. The object outlives its destruction: threads may have it on their stacks.
struct CUctx_st {
  std::atomic<bool> isAlive{true};
  std::atomic<unsigned> flags{0};
};

namespace tally::preload_driver {

/// The emulated CUDA runtime.
inline const hooks::CudaApi &runtime() { return hooks::emulatedApi(); }

/// Returns the driver's code for an error of the runtime.
CUresult codeOf(cudaError_t error);
inline CUresult codeOf(CUresult error) { return error; }

/// CUDA_ERROR_NOT_INITIALIZED before cuInit.
CUresult startComplaint();
/// Returns the same, and CUDA_ERROR_INVALID_CONTEXT on a thread without a current context.
CUresult contextComplaint();
/// Returns the thread's current context; nullptr if it has none.
CUcontext currentContext();

/// The context to which a stream or an allocation belongs.
void setOwner(const void *object, CUcontext owner);
void forgetOwner(const void *object);
/// The current context, or the primary one without one; for objects without a recorded context.
CUcontext ownerOf(const void *object);

/// Runs `call` if the driver is initialised.
template <class Call> CUresult started(Call call) {
  CUresult bad = startComplaint();
  return bad == CUDA_SUCCESS ? codeOf(call()) : bad;
}

/// Runs `call` if the thread has a current context.
template <class Call> CUresult inContext(Call call) {
  CUresult bad = contextComplaint();
  return bad == CUDA_SUCCESS ? codeOf(call()) : bad;
}

/// The meaning of a null stream in the `_ptsz` forms.
inline CUstream perThread(CUstream stream) { return stream ? stream : CU_STREAM_PER_THREAD; }

inline void *pointerOf(CUdeviceptr address) { return reinterpret_cast<void *>(address); }

} // namespace tally::preload_driver

// The form `name` of a call and its `_ptsz` form: the parameter named `stream` is the stream.
#define TALLY_STREAM_FORMS(name, parameters, ...)                                                  \
  CUresult name parameters {                                                                       \
    return inContext([&] { return __VA_ARGS__; });                                                 \
  }                                                                                                \
  CUresult name##_ptsz parameters {                                                                \
    stream = perThread(stream);                                                                    \
    return inContext([&] { return __VA_ARGS__; });                                                 \
  }

// The form `name` of a call without a stream, and its `_ptds` form.
#define TALLY_DEFAULT_STREAM_FORMS(name, parameters, ...)                                          \
  CUresult name parameters {                                                                       \
    [[maybe_unused]] constexpr CUstream stream = nullptr;                                          \
    return inContext([&] { return __VA_ARGS__; });                                                 \
  }                                                                                                \
  CUresult name##_ptds parameters {                                                                \
    [[maybe_unused]] const CUstream stream = CU_STREAM_PER_THREAD;                                 \
    return inContext([&] { return __VA_ARGS__; });                                                 \
  }

#endif
