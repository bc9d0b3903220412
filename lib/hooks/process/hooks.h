// The hooks' logic, the same over the real CUDA runtime and the emulated one: the effect of each
// call on the queue of best-effort work and on the counting of high-priority work.
//
// A process has one Hooks object, whichever of its modules (the program, shared libraries) were
// linked with the hooks. Each module passes the CUDA runtime that it was linked with. Hooks holds
// the state of the process and a class for each group of calls; the wrappers call these classes.
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
/// The process's hooks. Each module that was linked with this library has the variable. It is
/// inline, so it is one symbol (STB_GNU_UNIQUE) to the loader, which uses one copy for all modules.
/// Its name changes with the layout of Hooks, so that modules of different versions do not share
/// it.
__attribute__((visibility("default"))) inline std::atomic<Hooks *> tallySharedHooks4{nullptr};

/// Thread-safe.
class Hooks {
public:
  explicit Hooks(const Settings &settings);
  ~Hooks() { servedDevice.endJoining(); }
  /// The process's hooks. Never destroyed.
  static Hooks &shared() {
    Hooks *known = tallySharedHooks4.load(std::memory_order_acquire);
    return known ? *known : makeShared();
  }

  const Settings &configuration() const { return settings; }
  ServedDevice &served() { return servedDevice; }

  // The calls, by group.

  CallRules &rules() { return callRules; }
  StreamCalls &streams() { return streamCalls; }
  EventCalls &events() { return eventCalls; }
  GraphCalls &graphs() { return graphCalls; }
  CopyCalls &copies() { return copyCalls; }
  /// Allocations in stream order, and allocations after which other processes see this one. Other
  /// allocations use memory() alone.
  MemoryCalls &allocations() { return memoryCalls; }
  MemoryAccount &memory() { return account; }
  LaunchCalls &launches() { return launchCalls; }
  RequestCalls &requests() { return requestCalls; }
  LibraryCalls &libraries() { return libraryCalls; }

  // Launches. The fastest path reads members of this object: a reference in between would cost one
  // load per launch.

  DirectLaunches &direct() { return directLaunches; }
  /// `request` gives the LaunchRequest; on high-priority streams it is called only where work may
  /// pause.
  template <class Request, class Call>
  cudaError_t launch(const CudaApi &api, cudaStream_t handle, const Request &request,
                     const Call &call) {
    if (ownsStream(handle)) [[likely]]
      return launchOwn(call);
    return launchOnAny(api, handle, request, call);
  }
  /// A best-effort launch through the driver on the thread's last stream, of a kernel that went
  /// there at once before. It needs few checks, whichever module the kernel is of. Nothing: it
  /// needs more of them.
  template <class Call>
  auto passAgain(cudaStream_t handle, const AheadWork &work, const Call &call)
      -> std::optional<decltype(call())> {
    BestEffortEngine *engine = servedDevice.engine();
    if (!engine || !streamTable.isLast(handle) || !threadState.last.state)
      return std::nullopt;
    return engine->passAgain(*threadState.last.state, work, call);
  }
  /// Whether launchOwn() may be called: the thread's last launch was on this stream, and no more
  /// checks are needed.
  bool ownsStream(cudaStream_t handle) const {
    return streamTable.isLast(handle) && threadState.last.own;
  }
  cudaError_t launchGraph(const CudaApi &api, cudaGraphExec_t graph, cudaStream_t handle);

  // Code.

  Registry &registered() { return registry; }
  /// Code that the program loads through the driver.
  LoadedImages &loadedImages() { return images; }
  /// Handles of kernels may name other kernels from now on.
  void kernelsUnloaded();

  // The device, and the errors of all calls.

  template <class Call> cudaError_t synchronizeDevice(const Call &call) {
    InHook inside;
    cudaError_t status = callRules.drained(call);
    if (Activity *shared = servedDevice.activity()) {
      shared->noteAtRest();
      shared->noteWait(status);
    }
    return servedDevice.withDeferred(status);
  }
  cudaError_t synchronizeDevice(const CudaApi &api) {
    return synchronizeDevice([&] { return api.cudaDeviceSynchronize(); });
  }
  cudaError_t resetDevice(const CudaApi &api);
  cudaError_t lastError(const CudaApi &api, bool clear);

  // The life of the process.

  /// Call this in a forked child, which has none of the threads. From then on all calls go to the
  /// CUDA runtime unchanged.
  void beInForkedChild();
  Totals totals();
  void writeStatistics(); ///< once, where the settings ask for them
  void writeTrace();      ///< where there is a trace

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
  const std::unique_ptr<runtime::Trace> trace; ///< may be nullptr
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
