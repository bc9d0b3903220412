// The rules that cuda_api.def names: the effect of a CUDA call on the queue of best-effort work and
// on the counting of high-priority work. The effect depends on the stream that orders the call.
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

/// `call` makes the CUDA call itself. Thread-safe.
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

  /// Returns a copy or a fill as a launch of the hooks' own kernel; nothing where CUDA has to make
  /// it. `isIdle`: no operation is queued. What the driver makes with a kernel is then a launch of
  /// the hooks' own all the same: such a kernel on the program's stream is one on a second stream,
  /// which slows graphs (docs/design/hooks.md, *One stream for kernels under MPS*).
  using ByKernel = std::function<std::optional<OwnLaunch>(OwnKernels &, bool isIdle)>;
  /// queue() for a copy or a fill, with the stream as `copy`'s parameter. `byKernel`: a ByKernel,
  /// or nullptr.
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

  /// Makes a call on a best-effort stream: on the calling thread, when all queued operations are
  /// over.
  template <class Call> auto afterDrain(StreamState &state, const Call &call) {
    served.drain();
    InHook inside;
    auto result = call();
    if (BestEffortEngine *now = served.engine())
      now->noteCall(state);
    return result;
  }
  /// Makes a call on a high-priority stream.
  template <class Call> auto pass(StreamState &state, const Call &call, bool recordsEvent = false) {
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
    std::uint64_t ticket; ///< 0: the call was made at once
    bool onLane = false;  ///< on the lane's stream, not the program's
  };
  /// Queues a call on a best-effort stream. `work`: as RunAhead has it. `byKernel`: returns the
  /// launch that makes a copy or a fill, if a kernel can make it.
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
