// What a call of CUDA means for the queue of best-effort work, and for the counting of
// high-priority work, by the stream that orders it: the rules that cuda_api.def names.
#ifndef TALLY_LIB_HOOKS_PROCESS_CALL_RULES_H
#define TALLY_LIB_HOOKS_PROCESS_CALL_RULES_H

#include "process/served_device.h"
#include "state/captures.h"
#include "state/in_hook.h"
#include "state/streams.h"
#include "tables/cuda_api.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>

namespace tally::hooks {

/// `call` is the call itself. Thread-safe.
class CallRules {
public:
  CallRules(StreamTable &streams, const Captures &captures, ServedDevice &served)
      : streams(streams), captures(captures), served(served) {}

  template <class Call> auto legacy(const CudaApi &api, cudaStream_t which, const Call &call) {
    StreamState &stream = streams.find(api, which);
    if (stream.bestEffort.load(std::memory_order_relaxed))
      return afterDrain(stream, call);
    return pass(stream, call);
  }
  template <class Call> auto drained(Call call) {
    std::optional<ApiDevice::WaitForDevice> waiting;
    if (BestEffortEngine *now = served.engine())
      waiting.emplace(now->onDevice());
    served.drain();
    InHook inside;
    return call();
  }
  template <class Call> auto stream(const CudaApi &api, cudaStream_t handle, const Call &call) {
    StreamState &state = streams.find(api, handle);
    if (!state.bestEffort.load(std::memory_order_relaxed))
      return pass(state, call);
    if (!captures.takesPart(api, handle))
      return afterDrain(state, call);
    InHook inside;
    return call();
  }
  /// `mayQueue()`: whether the call will succeed whenever it is made (queue_checks.h).
  template <class MayQueue, class Call>
  cudaError_t queue(const CudaApi &api, cudaStream_t handle, MayQueue mayQueue, Call call) {
    StreamState &state = streams.find(api, handle);
    if (!state.bestEffort.load(std::memory_order_relaxed))
      return pass(state, call);
    return queueBestEffort(api, state, handle, mayQueue, Run(call)).status;
  }

  /// A copy or a fill as a launch of the hooks' own; nothing: CUDA makes it.
  using ByKernel = std::function<std::optional<OwnLaunch>(OwnKernels &)>;
  /// The same of a copy or a fill, with the stream as `copy`'s parameter. `byKernel`: a ByKernel,
  /// or none.
  template <class MayQueue, class Copy, class Kernel = std::nullptr_t>
  cudaError_t queueCopy(const CudaApi &api, cudaStream_t handle, MayQueue mayQueue, Copy copy,
                        const AheadWork &work = RunAhead::other(),
                        const Kernel &byKernel = nullptr) {
    StreamState &state = streams.find(api, handle);
    auto call = [copy, handle] { return copy(handle); };
    if (!state.bestEffort.load(std::memory_order_relaxed))
      return pass(state, call);
    ByKernel kernel;
    if constexpr (!std::is_null_pointer_v<Kernel>)
      kernel = std::cref(byKernel);
    return queueBestEffort(api, state, handle, mayQueue, Run(call), OnAnyStream{copy}, work, {},
                           kernel)
        .status;
  }

  /// On a best-effort stream: on the calling thread, when all that is queued is over.
  template <class Call> auto afterDrain(StreamState &state, const Call &call) {
    served.drain();
    InHook inside;
    auto result = call();
    if (BestEffortEngine *now = served.engine())
      now->noteCall(state);
    return result;
  }
  /// On a stream of high priority.
  template <class Call> auto pass(StreamState &state, Call call, bool recordsEvent = false) {
    if (BestEffortEngine *now = served.engine())
      return now->passHigh(state, call, recordsEvent);
    if (Activity *shared = served.activity())
      return shared->pass(state, call, recordsEvent);
    auto result = [&] {
      InHook inside;
      return call();
    }();
    if (served.joinsAfter(static_cast<int>(result)))
      served.joinLater(*state.api);
    return result;
  }

  struct Queued {
    cudaError_t status;
    std::uint64_t ticket; ///< 0: it was called at once
    bool onLane = false;  ///< in place of the program's stream
  };
  /// On a best-effort stream. `work`: as RunAhead has it. `byKernel`: gives the launch that makes a
  /// copy or a fill, if one can.
  Queued queueBestEffort(const CudaApi &api, StreamState &state, cudaStream_t handle,
                         const std::function<bool()> &mayQueue, const Run &call,
                         const OnAnyStream &onAny = {}, const AheadWork &work = RunAhead::other(),
                         Behind behind = {}, const ByKernel &byKernel = {});

private:
  StreamTable &streams;
  const Captures &captures;
  ServedDevice &served;
};

} // namespace tally::hooks

#endif
