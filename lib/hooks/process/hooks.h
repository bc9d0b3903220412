// The hooks' logic, the same over the real CUDA runtime and the emulated one: what each call means
// for the queue of best-effort work, and for the counting of high-priority work.
//
// One object per process, whichever of its modules (the program, shared libraries) were linked with
// the hooks; each module passes the CUDA runtime that it was linked with. Hooks holds what is known
// of the process, and a class for each group of calls; wrappers call these.
#ifndef TALLY_LIB_HOOKS_PROCESS_HOOKS_H
#define TALLY_LIB_HOOKS_PROCESS_HOOKS_H

#include "process/call_rules.h"
#include "process/copy_calls.h"
#include "process/event_calls.h"
#include "process/graph_calls.h"
#include "process/known_launch.h"
#include "process/launch_calls.h"
#include "process/library_calls.h"
#include "process/memory_calls.h"
#include "process/request_calls.h"
#include "process/served_device.h"
#include "process/stream_calls.h"
#include "state/captures.h"
#include "state/in_hook.h"
#include "state/memory_account.h"
#include "state/registry.h"
#include "state/requests.h"
#include "state/settings.h"
#include "state/streams.h"
#include "tables/cuda_api.h"
#include "work/direct_launches.h"
#include "work/loaded_images.h"

#include <atomic>
#include <memory>

namespace tally::hooks {

class Hooks;
/// The process's hooks. Modules that were linked with this library each have the variable; being
/// inline it is one symbol (STB_GNU_UNIQUE) to the loader, which takes one of them for all. Its
/// name changes with the layout of Hooks, so that modules of different versions do not meet.
__attribute__((visibility("default"))) inline std::atomic<Hooks *> tallySharedHooks4{nullptr};

/// Thread-safe.
class Hooks {
public:
  explicit Hooks(const Settings &settings);
  ~Hooks() { servedDevice.endJoining(); }
  /// The process's. Never destroyed.
  static Hooks &shared() {
    Hooks *known = tallySharedHooks4.load(std::memory_order_acquire);
    return known ? *known : makeShared();
  }

  const Settings &configuration() const { return settings; }
  ServedDevice &served() { return servedDevice; }

  // Calls, by kind.

  CallRules &rules() { return callRules; }
  StreamCalls &streams() { return streamCalls; }
  EventCalls &events() { return eventCalls; }
  GraphCalls &graphs() { return graphCalls; }
  CopyCalls &copies() { return copyCalls; }
  /// Memory in stream order, and memory whose allocation has others see the process; other
  /// allocations use memory() alone.
  MemoryCalls &allocations() { return memoryCalls; }
  MemoryAccount &memory() { return account; }
  LaunchCalls &launches() { return launchCalls; }
  RequestCalls &requests() { return requestCalls; }
  LibraryCalls &libraries() { return libraryCalls; }

  // Launches. The shortest way reads members of this object: a reference between would cost a load
  // of each launch.

  DirectLaunches &direct() { return directLaunches; }
  /// `request` gives the LaunchRequest; of high priority it is asked for where work may pause only.
  template <class Request, class Call>
  cudaError_t launch(const CudaApi &api, cudaStream_t handle, Request request, Call call) {
    if (ownsStream(handle)) [[likely]]
      return launchOwn(call);
    return launchOnAny(api, handle, request, call);
  }
  /// Whether launchOwn() may be called: the thread's last launch was on this stream, and nothing
  /// more has to be asked.
  bool ownsStream(cudaStream_t handle) const {
    return streamTable.isLast(handle) && threadState.last.own;
  }
  cudaError_t launchGraph(const CudaApi &api, cudaGraphExec_t graph, cudaStream_t handle);

  // Code.

  Registry &registered() { return registry; }
  /// Code that the program loads by the driver.
  LoadedImages &loadedImages() { return images; }
  /// Handles of kernels may come to mean others.
  void kernelsUnloaded();

  // The device, and the errors of all calls.

  template <class Call> cudaError_t synchronizeDevice(const Call &call) {
    InHook inside;
    cudaError_t status = callRules.drained(call);
    if (Activity *shared = servedDevice.activity())
      shared->noteAtRest();
    return servedDevice.withDeferred(status);
  }
  cudaError_t synchronizeDevice(const CudaApi &api) {
    return synchronizeDevice([&] { return api.cudaDeviceSynchronize(); });
  }
  cudaError_t resetDevice(const CudaApi &api);
  cudaError_t lastError(const CudaApi &api, bool clear);

  // The process's life.

  /// In a forked child, which has none of the threads: from here on calls go to the CUDA runtime as
  /// they are, which says what it makes of them.
  void beInForkedChild();
  Totals totals();
  void writeStatistics(); ///< once, where they are wanted
  void writeTrace();      ///< where there is one

private:
  static Hooks &makeShared();
  template <class Request, class Call>
  [[gnu::noinline]] cudaError_t launchOnAny(const CudaApi &api, cudaStream_t handle,
                                            const Request &request, const Call &call) {
    if (streamTable.isLast(handle) && threadState.last.scopes)
      return launchKnown(threadState.last, api, request, call);
    return launchCalls.launch(api, handle, request, call);
  }
  void prepareDriver();

  const Settings settings;
  const std::unique_ptr<runtime::Trace> trace; ///< or none
  StreamTable streamTable;
  Registry registry;
  LoadedImages images;
  Captures captures;
  Requests openRequests;
  DirectLaunches directLaunches;
  MemoryAccount account;
  ServedDevice servedDevice;
  CallRules callRules;
  StreamCalls streamCalls;
  EventCalls eventCalls;
  LaunchCalls launchCalls;
  GraphCalls graphCalls;
  CopyCalls copyCalls;
  MemoryCalls memoryCalls;
  RequestCalls requestCalls;
  LibraryCalls libraryCalls;
  std::atomic<bool> wroteStatistics{false};
};

} // namespace tally::hooks

#endif
