// What the wrappers share: which table a call goes to.
#ifndef TALLY_LIB_HOOKS_WRAPPERS_H
#define TALLY_LIB_HOOKS_WRAPPERS_H

#include "cuda_api.h"
#include "hooks.h"
#include "real_calls.h"
#include "settings.h"

namespace tally::hooks {

/// TALLY_DISABLE=1: the call goes to the real function, and nothing else happens.
inline bool isOff() { return Settings::get().disabled; }

/// Stream 0 in a call that takes it for the thread's own default stream.
inline cudaStream_t ownStream(cudaStream_t stream) { return stream ? stream : cudaStreamPerThread; }

} // namespace tally::hooks

#endif
