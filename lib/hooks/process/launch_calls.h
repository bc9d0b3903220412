// Kernel launches through the CUDA runtime, on streams that the thread does not own.
#ifndef TALLY_LIB_HOOKS_PROCESS_LAUNCH_CALLS_H
#define TALLY_LIB_HOOKS_PROCESS_LAUNCH_CALLS_H

#include "process/call_rules.h"
#include "process/served_device.h"
#include "state/captures.h"
#include "state/registry.h"
#include "state/settings.h"
#include "state/streams.h"
#include "tables/cuda_api.h"
#include "work/kernel_launch.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

namespace tally::hooks {

/// Thread-safe.
class LaunchCalls {
public:
  LaunchCalls(const Settings &settings, StreamTable &streams, Registry &registry,
              const Captures &captures, ServedDevice &served, CallRules &rules)
      : settings(settings), streams(streams), registry(registry), captures(captures),
        served(served), rules(rules) {}

  /// `request` gives the LaunchRequest; on high-priority streams it is called only where work may
  /// pause.
  template <class Request, class Call>
  cudaError_t launch(const CudaApi &api, cudaStream_t handle, const Request &request,
                     const Call &call) {
    StreamState &state = streams.find(api, handle);
    checkOnce();
    if (state.bestEffort.load(std::memory_order_relaxed)) {
      LaunchRequest made = request();
      if (auto status = tryAhead(api, state, handle, made, call))
        return *status;
      return launchBestEffort(api, state, handle, made, Run(call));
    }
    state.launches.fetch_add(1, std::memory_order_relaxed);
    if (HighFootprints *seen = served.footprints())
      seen->launch(api, state, request);
    cudaError_t status = rules.pass(state, call);
    knowLast(state);
    return status;
  }
  /// After a high-priority launch: stores the checks that the thread need not repeat for its last
  /// stream. Code that changes the result of a check calls StreamTable::forgetKnown() afterwards.
  void knowLast(const StreamState &state);

  /// `call` sets the attribute.
  cudaError_t setAttribute(const CudaApi &api, const void *function, cudaFuncAttribute attribute,
                           int value, const std::function<cudaError_t()> &call);

private:
  template <class Call>
  std::optional<cudaError_t> tryAhead(const CudaApi &api, StreamState &state, cudaStream_t handle,
                                      const LaunchRequest &request, const Call &call) {
    BestEffortEngine *now = served.start(api);
    if (!now || captures.takesPart(api, handle))
      return std::nullopt;
    std::uint64_t blocks = std::uint64_t{request.grid.x} * request.grid.y * request.grid.z;
    return now->tryAhead(state, {request.function, blocks}, call,
                         [&] { meetKernel(api, request.function); });
  }
  void meetKernel(const CudaApi &api, const void *function);
  cudaError_t launchBestEffort(const CudaApi &api, StreamState &state, cudaStream_t handle,
                               const LaunchRequest &request, const Run &call);
  void checkOnce() {
    if (!checked.load(std::memory_order_relaxed))
      selfCheck();
  }
  void selfCheck();

  const Settings &settings;
  StreamTable &streams;
  Registry &registry;
  const Captures &captures;
  ServedDevice &served;
  CallRules &rules;
  std::atomic<bool> checked{false};
};

} // namespace tally::hooks

#endif
