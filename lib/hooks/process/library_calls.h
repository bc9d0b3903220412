// Driver calls by libraries that are not linked with the hooks: these calls do not pass through the
// hooked CUDA runtime.
#ifndef TALLY_LIB_HOOKS_PROCESS_LIBRARY_CALLS_H
#define TALLY_LIB_HOOKS_PROCESS_LIBRARY_CALLS_H

#include "process/call_rules.h"
#include "process/served_device.h"
#include "state/captures.h"
#include "state/settings.h"
#include "state/streams.h"
#include "tables/cuda_api.h"
#include "work/foreign_launch.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

namespace tally::hooks {

/// Thread-safe.
class LibraryCalls {
public:
  LibraryCalls(const Settings &settings, StreamTable &streams, const Captures &captures,
               ServedDevice &served, CallRules &rules)
      : settings(settings), streams(streams), captures(captures), served(served), rules(rules) {}

  /// The API of the first module that hooks.
  const CudaApi &api() const { return *anyApi.load(std::memory_order_acquire); }
  void hooked(const CudaApi &by) {
    const CudaApi *none = anyApi.load(std::memory_order_relaxed);
    if (!none)
      anyApi.compare_exchange_strong(none, &by);
  }

  /// A launch on a stream of the driver. The stream's class is the launch's class. `work` is the
  /// launched work. `take` returns a shared_ptr<const ForeignLaunch>: a copy of the launch to be
  /// made later, if one can be taken. `see` reports a high-priority launch to a HighFootprints.
  template <class Call, class Take, class See>
  auto launch(cudaStream_t handle, const AheadWork &work, const Call &call, const Take &take,
              const See &see) -> decltype(call()) {
    // Without best-effort work no query is made: the runtime may be about to start.
    if (!served.engine() && !served.activity(std::memory_order_relaxed) && !settings.bestEffort) {
      high.fetch_add(1, std::memory_order_relaxed);
      auto status = call();
      if (served.joinsAfter(static_cast<int>(status)))
        served.joinLater(api());
      return status;
    }
    StreamState &state = streams.find(api(), handle);
    if (!state.bestEffort.load(std::memory_order_relaxed)) {
      high.fetch_add(1, std::memory_order_relaxed);
      if (HighFootprints *seen = served.footprints())
        see(*seen, api(), state);
      return rules.pass(state, call);
    }
    bestEffort.fetch_add(1, std::memory_order_relaxed);
    decltype(call()) status{};
    if (auto made = tryAhead(state, work, [&] { return static_cast<int>(call()); }))
      return static_cast<decltype(call())>(*made);
    if (!queue(state, std::cref(take))) // no allocation
      inTurn(state, [&] {
        status = call();
        return static_cast<cudaError_t>(status); // the two number errors alike
      });
    return status;
  }
  /// Any other call. Before the process has best-effort work or has joined the arena, it makes
  /// `call` and no query: the CUDA runtime may be about to start. Later it makes `hooked`. It makes
  /// `hooked` in a capture too, so that the hooks know a stream before the stream takes part
  /// (StreamCalls::beginCapture()).
  template <class Call, class Hooked> cudaError_t call(const Call &call, const Hooked &hooked) {
    bool asks = served.engine() || served.activity(std::memory_order_relaxed) || captures.any();
    return asks ? hooked() : call();
  }

  /// Kernels that libraries have launched.
  ForeignKernels &kernels() { return launched; }
  /// Best-effort launches that were not queued.
  const InTurnCounts &inTurnCounts() const { return counts; }
  std::uint64_t highLaunches() const { return high.load(); }
  /// Without those that RunAhead::passAgain() has passed.
  std::uint64_t bestEffortLaunches() const { return bestEffort.load(); }

private:
  std::optional<int> tryAhead(StreamState &state, AheadWork work, const std::function<int()> &call);
  bool queue(StreamState &state, const std::function<TakenLaunch()> &take);
  /// Makes the call on the calling thread, when all queued operations are over and there is a
  /// permit.
  void inTurn(StreamState &state, const Run &call);

  const Settings &settings;
  StreamTable &streams;
  const Captures &captures;
  ServedDevice &served;
  CallRules &rules;
  std::atomic<const CudaApi *> anyApi{nullptr};
  std::atomic<std::uint64_t> high{0}, bestEffort{0};
  InTurnCounts counts;
  ForeignKernels launched;
};

} // namespace tally::hooks

#endif
