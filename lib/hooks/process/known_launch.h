// High-priority launches on the stream that the thread used last, where no more checks are needed:
// the launch reads only the thread's record of the stream (ThreadState). A program whose requests
// are many launches waits for the thread that makes them, so this path is short.
#ifndef TALLY_LIB_HOOKS_PROCESS_KNOWN_LAUNCH_H
#define TALLY_LIB_HOOKS_PROCESS_KNOWN_LAUNCH_H

#include "engine/high_footprints.h"
#include "state/in_hook.h"
#include "state/streams.h"
#include "state/thread_state.h"
#include "tables/cuda_api.h"

#include <atomic>

namespace tally::hooks {

/// Launches on a stream that the thread owns: the fastest path.
template <class Call> [[gnu::always_inline]] inline cudaError_t launchOwn(const Call &call) {
  runtime::HighStream *own = threadState.last.own; // the call may make the thread forget
  runtime::RequestScopeTracker *scopes = threadState.last.scopes;
  InHook inside;
  threadState.launchedHigh = true;
  runtime::RequestScopeTracker::OwnCount counted = scopes->countOwnLaunch(*own);
  cudaError_t status = call();
  scopes->endOwnLaunch(*own, counted);
  return status;
}

/// Makes a call that puts work on a stream for which no more checks are needed.
template <class Call> cudaError_t passKnown(const KnownStream &known, const Call &call) {
  InHook inside;
  threadState.launchedHigh = true;
  runtime::RequestScopeTracker *scopes = known.scopes; // as in launchOwn()
  runtime::HighStream *high = known.high;
  bool counted = scopes->countCall(*high);
  cudaError_t status = call();
  if (counted)
    scopes->endCall(*high);
  return status;
}

/// `request` gives the LaunchRequest; it is called only where work may pause.
template <class Request, class Call>
cudaError_t launchKnown(const KnownStream &known, const CudaApi &api, const Request &request,
                        const Call &call) {
  known.state->launches.fetch_add(1, std::memory_order_relaxed);
  if (known.footprints)
    known.footprints->launch(api, *known.state, request);
  return passKnown(known, call);
}

} // namespace tally::hooks

#endif
