// The hooks' record of each thread. It fits one cache line, since a launch fetches it anew after
// each call of the driver.
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
  StreamState *state = nullptr; ///< nullptr: the thread has used none
  std::uint64_t generation = 0;
  /// Set where a launch on the stream needs no more checks: the stream is of high priority, waits
  /// for nothing, and is counted here. `footprints` is told of the launch, where there are any.
  runtime::RequestScopeTracker *scopes = nullptr;
  runtime::HighStream *high = nullptr;
  HighFootprints *footprints = nullptr;
  /// `high`, where the thread owns it and its launches are reported to no one else.
  runtime::HighStream *own = nullptr;
};

struct alignas(64) ThreadState {
  KnownStream last;
  int hooksEntered = 0;      ///< nesting depth of hook calls on this thread
  bool launchedHigh = false; ///< the thread's last work was of high priority
  bool hasQueued = false;    ///< the thread has put best-effort work on a stream at some time
};
static_assert(sizeof(ThreadState) == 64);

/// One for all modules of the process, like tallySharedHooks4: one module's wrapper may call into
/// another module. The namespace's name changes with the layout.
inline namespace thread_state_2 {
__attribute__((visibility("default"))) inline constinit thread_local ThreadState threadState;
}

} // namespace tally::hooks

#endif
