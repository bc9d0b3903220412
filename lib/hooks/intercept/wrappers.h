// Code that the wrappers share: the table that a call goes to.
#ifndef TALLY_LIB_HOOKS_INTERCEPT_WRAPPERS_H
#define TALLY_LIB_HOOKS_INTERCEPT_WRAPPERS_H

#include "intercept/real_calls.h"
#include "process/hooks.h"
#include "state/settings.h"
#include "tables/cuda_api.h"

namespace tally::hooks {

/// TALLY_DISABLE=1: the call goes to the real function, and nothing else happens.
inline bool isOff() {
  static const bool off = Settings::get().disabled;
  return off;
}

/// Stream 0 in a call that uses it for the thread's own default stream.
inline cudaStream_t ownStream(cudaStream_t stream) { return stream ? stream : cudaStreamPerThread; }

inline Hooks &hooks() { return Hooks::shared(); }

} // namespace tally::hooks

// __wrap_NAME and, where the call has it, __wrap_NAME_ptsz; `body` is the hooked call.
#define TALLY_HOOK(name, parameters, arguments, ...)                                               \
  extern "C" cudaError_t __wrap_##name parameters {                                                \
    if (isOff()) [[unlikely]]                                                                      \
      return __real_##name arguments;                                                              \
    [[maybe_unused]] const CudaApi &table = api();                                                 \
    __VA_ARGS__                                                                                    \
  }
#define TALLY_HOOK_PTSZ(name, parameters, arguments, ...)                                          \
  TALLY_HOOK(name, parameters, arguments, __VA_ARGS__)                                             \
  extern "C" cudaError_t __wrap_##name##_ptsz parameters {                                         \
    if (isOff())                                                                                   \
      return __real_##name##_ptsz arguments;                                                       \
    stream = ownStream(stream);                                                                    \
    return __wrap_##name arguments;                                                                \
  }
// TALLY_HOOK for a call that is ordered on a default stream, `which`; `call` is the call itself.
#define TALLY_HOOK_PTDS(name, parameters, arguments, ...)                                          \
  TALLY_HOOK_ON(name, nullptr, parameters, arguments, __VA_ARGS__)                                 \
  TALLY_HOOK_ON(name##_ptds, cudaStreamPerThread, parameters, arguments, __VA_ARGS__)
#define TALLY_HOOK_ON(name, stream, parameters, arguments, ...)                                    \
  TALLY_HOOK(name, parameters, arguments, {                                                        \
    cudaStream_t which = stream;                                                                   \
    auto call = [&] { return table.name arguments; };                                              \
    __VA_ARGS__                                                                                    \
  })

#endif
