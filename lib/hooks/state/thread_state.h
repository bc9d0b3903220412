// What the hooks keep of each thread. One line of the cache, since a launch fetches it anew behind
// each call of the driver's.
#ifndef TALLY_LIB_HOOKS_STATE_THREAD_STATE_H
#define TALLY_LIB_HOOKS_STATE_THREAD_STATE_H

#include "tables/cuda_versions.h"

#include <cstdint>

namespace tally::runtime {
class RequestScopeTracker;
struct HighStream;
} // namespace tally::runtime

namespace tally::hooks {

class HighFootprints;
struct StreamState;

/// The stream that a thread used last; valid while the table of streams has that generation.
struct KnownStream {
  cudaStream_t handle = nullptr;
  StreamState *state = nullptr; ///< nullptr: none was used
  std::uint64_t generation = 0;
  /// Set where nothing more has to be asked of a launch on it: it is of high priority, waits for
  /// nothing, and is counted here; `footprints` is told of it, where there are any.
  runtime::RequestScopeTracker *scopes = nullptr;
  runtime::HighStream *high = nullptr;
  HighFootprints *footprints = nullptr;
  /// `high`, where the thread owns it and nobody else is told of its launches.
  runtime::HighStream *own = nullptr;
};

struct alignas(64) ThreadState {
  KnownStream last;
  int hooksEntered = 0;      ///< calls of the hooks that the thread is in
  bool launchedHigh = false; ///< it last put work of high priority on a stream
  bool hasQueued = false;    ///< it has put best-effort work on one, at some time
};
static_assert(sizeof(ThreadState) == 64);

/// One for all modules of the process, as tallySharedHooks4 is: a call that one module's wrapper
/// makes may come to another's. The namespace's name changes with the layout.
inline namespace thread_state_2 {
__attribute__((visibility("default"))) inline constinit thread_local ThreadState threadState;
}

} // namespace tally::hooks

#endif
