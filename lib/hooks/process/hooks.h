// The hooks' logic, the same over the real CUDA runtime and the emulated one: what each call means
// for the queue of best-effort work, and for the counting of high-priority work.
//
// One object per process, whichever of its modules (the program, shared libraries) were linked with
// the hooks; each module passes the CUDA runtime that it was linked with.
#ifndef TALLY_LIB_HOOKS_PROCESS_HOOKS_H
#define TALLY_LIB_HOOKS_PROCESS_HOOKS_H

#include "engine/activity.h"
#include "engine/best_effort_engine.h"
#include "engine/high_footprints.h"
#include "state/captures.h"
#include "state/events.h"
#include "state/in_hook.h"
#include "state/memory_account.h"
#include "state/registry.h"
#include "state/settings.h"
#include "state/streams.h"
#include "tables/cuda_api.h"
#include "work/direct_launches.h"
#include "work/foreign_launch.h"
#include "work/graphs.h"
#include "work/loaded_images.h"
#include "work/queue_checks.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <type_traits>

#include <unistd.h>

namespace tally::hooks {

class Hooks;
/// The process's hooks. Modules that were linked with this library each have the variable; being
/// inline it is one symbol (STB_GNU_UNIQUE) to the loader, which takes one of them for all. Its
/// name changes with the layout of Hooks, so that modules of different versions do not meet.
__attribute__((visibility("default"))) inline std::atomic<Hooks *> tallySharedHooks3{nullptr};

class Hooks {
public:
  explicit Hooks(const Settings &settings);
  ~Hooks() { endJoining(); }
  /// The process's. Never destroyed.
  static Hooks &shared() {
    Hooks *known = tallySharedHooks3.load(std::memory_order_acquire);
    return known ? *known : makeShared();
  }

  const Settings &configuration() const { return settings; }

  // What the rules of cuda_api.def name. `call` is the call itself. (hooks.h, hooks_calls.cpp)

  template <class Call> auto legacy(const CudaApi &api, cudaStream_t which, const Call &call) {
    StreamState &stream = streams.find(api, which);
    if (stream.bestEffort.load(std::memory_order_relaxed))
      return afterDrain(stream, call);
    return pass(stream, call);
  }
  template <class Call> auto drained(Call call) {
    std::optional<ApiDevice::WaitForDevice> waiting;
    if (BestEffortEngine *now = running())
      waiting.emplace(now->onDevice());
    drain();
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

  // Launches. (hooks_launch.cpp)

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
    return streams.isLast(handle) && threadState.last.own;
  }
  /// The shortest way there is: a program whose requests are many launches waits for the thread
  /// that makes them.
  template <class Call> [[gnu::always_inline]] static cudaError_t launchOwn(const Call &call) {
    runtime::HighStream *own = threadState.last.own; // the call may make the thread forget
    runtime::RequestScopeTracker *scopes = threadState.last.scopes;
    InHook inside;
    threadState.launchedHigh = true;
    runtime::RequestScopeTracker::OwnCount counted = scopes->countOwnLaunch(*own);
    cudaError_t status = call();
    scopes->endOwnLaunch(*own, counted);
    return status;
  }

  // Graphs. (hooks_graphs.cpp)

  /// `call` instantiates `graph` as `*made`.
  template <class Call>
  cudaError_t instantiateGraph(const CudaApi &api, cudaGraphExec_t *made, cudaGraph_t graph,
                               unsigned long long flags, Call call) {
    InHook inside;
    cudaError_t status = call();
    if (status == cudaSuccess)
      graphInstantiated(api, *made, graph, flags);
    return status;
  }
  /// `call` changes a node of it; `apply` says to an ExecutableGraph how.
  template <class Call, class Apply>
  cudaError_t changeGraph(cudaGraphExec_t handle, Call call, Apply apply) {
    InHook inside;
    cudaError_t status = call();
    std::shared_ptr<ExecutableGraph> known = graphs.find(handle);
    if (status == cudaSuccess && known)
      apply(*known);
    return status;
  }
  /// `call` updates the executable graph by `graph`.
  cudaError_t updateGraph(cudaGraphExec_t handle, cudaGraph_t graph, const Run &call);
  cudaError_t destroyGraph(const CudaApi &api, cudaGraphExec_t handle);
  /// Graphs may hold objects of the program that are destroyed with them.
  void graphsHoldObjects() { graphs.holdObjects = true; }
  cudaError_t graphLaunch(const CudaApi &api, cudaGraphExec_t graph, cudaStream_t handle);
  bool knowsGraphs() const { return graphs.any(); }

  /// `call` sets the attribute.
  cudaError_t setFunctionAttribute(const CudaApi &api, const void *function,
                                   cudaFuncAttribute attribute, int value,
                                   const std::function<cudaError_t()> &call);

  // Memory in stream order; other allocations use memory() alone.

  MemoryAccount &memory() { return account; }
  /// `call` allocates so many bytes, as the piece that `made` gives. Work will follow: others see
  /// the process by then. (hooks_memory.h)
  template <class Call, class Made>
  cudaError_t allocate(const CudaApi &api, std::size_t bytes, Call call, Made made);
  template <class Call>
  cudaError_t allocateAsync(const CudaApi &api, void **made, std::size_t bytes, cudaStream_t handle,
                            Call call);
  template <class Call>
  cudaError_t freeAsync(const CudaApi &api, void *memory, cudaStream_t handle, Call call);

  // Copies and fills. (hooks_copies.cpp)

  cudaError_t copyAsync(const CudaApi &api, void *to, const void *from, std::size_t bytes,
                        cudaMemcpyKind kind, cudaStream_t handle);
  cudaError_t fillAsync(const CudaApi &api, void *to, int value, std::size_t bytes,
                        cudaStream_t handle);
  /// The same without a stream: `which` default stream orders it. `call` makes it.
  cudaError_t copy(const CudaApi &api, void *to, const void *from, std::size_t bytes,
                   cudaMemcpyKind kind, cudaStream_t which,
                   const std::function<cudaError_t()> &call);
  cudaError_t fill(const CudaApi &api, void *to, int value, std::size_t bytes, cudaStream_t which,
                   const std::function<cudaError_t()> &call);

  // Streams, events, captures, the device. (hooks_calls.cpp)

  cudaError_t createStream(const CudaApi &api, cudaStream_t *made, unsigned flags, int priority);
  cudaError_t destroyStream(const CudaApi &api, cudaStream_t handle);
  // The call itself is the last parameter: the runtime's, or one of the driver's. `on(stream)`
  // makes it on that stream. (hooks_events.h)
  template <class Call>
  cudaError_t synchronizeStream(const CudaApi &api, cudaStream_t handle, const Call &call);
  template <class Call>
  cudaError_t queryStream(const CudaApi &api, cudaStream_t handle, const Call &call);
  template <class On>
  cudaError_t waitEvent(const CudaApi &api, cudaStream_t handle, cudaEvent_t event, unsigned flags,
                        const On &on);
  template <class On>
  cudaError_t recordEvent(const CudaApi &api, cudaEvent_t event, cudaStream_t handle,
                          unsigned flags, const On &on);
  template <class Call> cudaError_t queryEvent(cudaEvent_t event, const Call &call);
  template <class Call> cudaError_t synchronizeEvent(cudaEvent_t event, const Call &call);
  template <class Call>
  cudaError_t destroyEvent(const CudaApi &api, cudaEvent_t event, const Call &call);
  template <class Call>
  cudaError_t elapsedTime(cudaEvent_t start, cudaEvent_t end, const Call &call);
  template <class Call> cudaError_t synchronizeDevice(const Call &call);

  cudaError_t synchronizeStream(const CudaApi &api, cudaStream_t handle);
  cudaError_t queryStream(const CudaApi &api, cudaStream_t handle);
  cudaError_t waitEvent(const CudaApi &api, cudaStream_t handle, cudaEvent_t event, unsigned flags);
  cudaError_t recordEvent(const CudaApi &api, cudaEvent_t event, cudaStream_t handle,
                          unsigned flags);
  cudaError_t queryEvent(const CudaApi &api, cudaEvent_t event);
  cudaError_t synchronizeEvent(const CudaApi &api, cudaEvent_t event);
  cudaError_t destroyEvent(const CudaApi &api, cudaEvent_t event);
  cudaError_t elapsedTime(const CudaApi &api, float *ms, cudaEvent_t start, cudaEvent_t end);
  cudaError_t synchronizeDevice(const CudaApi &api);
  template <class Call> auto beginCapture(const CudaApi &api, cudaStream_t handle, Call call) {
    drain();
    // CUDA does not tell a stream's flags while it is captured, and such a question makes the
    // capture invalid.
    streams.find(api, handle);
    InHook inside;
    return captures.begin(call);
  }
  template <class Call> auto endCapture(Call call) {
    InHook inside;
    return captures.end(call);
  }
  cudaError_t priorityRange(const CudaApi &api, int *lowest, int *highest);
  cudaError_t resetDevice(const CudaApi &api);
  cudaError_t setDevice(const CudaApi &api, int device);
  cudaError_t lastError(const CudaApi &api, bool clear);
  /// A stream's class by the API (tally/hooks.h).
  cudaError_t setClass(const CudaApi &api, cudaStream_t handle, bool bestEffort);
  cudaError_t setBestEffortClass(const CudaApi &api, cudaStream_t handle, std::uint32_t number);

  // Requests (tally/request.h; hooks_requests.cpp).

  cudaError_t beginRequest(const CudaApi &api, cudaStream_t handle, const char *name,
                           runtime::Nanoseconds deadline, std::uint64_t *made);
  cudaError_t addToRequest(const CudaApi &api, std::uint64_t number, cudaStream_t handle);
  cudaError_t endRequest(std::uint64_t number);

  /// In a forked child, which has none of the threads: from here on calls go to the CUDA runtime as
  /// they are, which says what it makes of them.
  void beInForkedChild();

  Registry &registered() { return registry; }
  /// Code that the program loads by the driver.
  LoadedImages &loadedImages() { return images; }
  /// Those of libraries that have been launched.
  ForeignKernels &foreignKernels() { return ofLibraries; }
  /// Their best-effort launches that were not queued.
  const InTurnCounts &inTurnOfLibraries() const { return foreignInTurn; }
  Totals totals();
  /// Of best-effort graphs, in words; empty without any.
  std::string graphStatistics() const { return graphs.statistics(); }
  /// Waits for all best-effort work that is queued.
  void drain() {
    if (BestEffortEngine *running = engine.load(std::memory_order_acquire))
      running->drain();
  }
  BestEffortEngine *running() const { return engine.load(std::memory_order_acquire); }
  /// Launches may pass unseen (driver_hook.h): what is queued is waited for, and best-effort work
  /// runs as it would without tally from here on.
  void runPlainly();

  /// Handles of kernels may come to mean others.
  void kernelsUnloaded() {
    directLaunches.forget();
    registry.forgetHandles();
    ofLibraries.forget();
    if (HighFootprints *seen = footprints.load(std::memory_order_acquire))
      seen->forget();
  }

  // For the driver-level hook: calls that do not come through the runtime that was hooked.

  // (hooks_foreign.h)

  /// A launch by a library, on a stream of the driver's: its class is the stream's.
  /// `work` is what is launched. `take` gives a shared_ptr<const ForeignLaunch>: the launch to be
  /// made later, if it can be.
  /// `see` tells a HighFootprints of one of high priority.
  template <class Call, class Take, class See>
  auto foreignLaunch(cudaStream_t handle, const AheadWork &work, Call call, Take take, See see)
      -> decltype(call());
  /// Another call of a library's. Before there is best-effort work in the process, or the arena was
  /// joined, `call` is made, and no question is asked: the CUDA runtime may be about to start. Else
  /// `hooked`; in a capture too, so that a stream is met before it takes part (beginCapture()).
  template <class Call, class Hooked>
  cudaError_t foreignCall(const Call &call, const Hooked &hooked) {
    bool asks = running() || activity.load(std::memory_order_relaxed) || captures.any();
    return asks ? hooked() : call();
  }
  /// A copy or a fill by a library, on a stream of the driver's. `call` makes it there.
  cudaError_t foreignCopy(cudaStream_t handle, const ForeignCopy &copy,
                          const std::function<cudaError_t()> &call);
  /// A copy or fill that may be a kernel of the driver's is about to be put on a stream.
  void runsDriverKernel(const CudaApi &api, cudaStream_t handle) {
    HighFootprints *seen = footprints.load(std::memory_order_acquire);
    if (!seen)
      return;
    if (StreamState &state = streams.find(api, handle); !state.bestEffort)
      seen->ofDriver(api, state);
  }
  /// What pausing work leaves room for on each SM; nullptr where nothing pauses.
  const runtime::Headroom *headroom() const {
    HighFootprints *seen = footprints.load(std::memory_order_acquire);
    return seen ? &seen->headroom() : nullptr;
  }
  /// A library destroys a stream.
  void foreignDestroy(cudaStream_t handle) {
    if (activity.load())
      forgetStream(streams.find(foreignApi(), handle));
  }
  /// A library has made another context current on the calling thread.
  void contextChanged() { streams.contextChanged(); }
  /// Whether best-effort work of the context can be queued.
  bool isServedContext(const void *context) const {
    BestEffortEngine *now = running();
    return now && now->context() == context;
  }
  /// That of the first module that hooks.
  const CudaApi &foreignApi() const { return *anyApi.load(std::memory_order_acquire); }
  void hooked(const CudaApi &api) {
    const CudaApi *none = anyApi.load(std::memory_order_relaxed);
    if (!none)
      anyApi.compare_exchange_strong(none, &api);
  }

private:
  static Hooks &makeShared();
  struct Queued {
    cudaError_t status;
    std::uint64_t ticket; ///< 0: it was called at once
    bool onLane = false;  ///< in place of the program's stream
  };

  // (hooks_launches.h)
  template <class Request, class Call>
  static cudaError_t launchKnown(const KnownStream &known, const CudaApi &api,
                                 const Request &request, const Call &call);
  /// A call that puts work on a stream of which nothing more has to be asked.
  template <class Call> static cudaError_t passKnown(const KnownStream &known, const Call &call);
  template <class Request, class Call>
  cudaError_t launchOnAny(const CudaApi &api, cudaStream_t handle, const Request &request,
                          const Call &call);
  template <class Call>
  std::optional<cudaError_t> tryLaunchAhead(const CudaApi &api, StreamState &state,
                                            cudaStream_t handle, const LaunchRequest &request,
                                            const Call &call);
  void meetKernel(const CudaApi &api, const void *function);
  /// Whoever changes what is asked here calls streams.forgetKnown() behind that.
  void knowLast(const StreamState &state);
  /// On a best-effort stream: on the calling thread, when all that is queued is over.
  template <class Call> auto afterDrain(StreamState &state, const Call &call) {
    drain();
    InHook inside;
    auto result = call();
    if (BestEffortEngine *now = running())
      now->noteCall(state);
    return result;
  }
  template <class Call> auto pass(StreamState &state, Call call, bool recordsEvent = false) {
    if (BestEffortEngine *running = engine.load(std::memory_order_acquire))
      return running->passHigh(state, call, recordsEvent);
    if (Activity *shared = activity.load(std::memory_order_acquire))
      return shared->pass(state, call, recordsEvent);
    auto result = [&] {
      InHook inside;
      return call();
    }();
    // Success: the device's context is there.
    if (mayJoin.load(std::memory_order_relaxed) && static_cast<int>(result) == cudaSuccess)
      joinLater(*state.api);
    return result;
  }
  /// The first work of high priority is there: joins the arena, on a thread of its own, for the
  /// calling thread's device.
  void joinLater(const CudaApi &api);
  /// At the process's end: no thread of the hooks calls CUDA for the arena any more.
  void endJoining();
  /// Under `starting`. nullptr where it cannot be had, or `forOthers` and there are no others.
  Activity *openActivity(const CudaApi &api, int device, bool forOthers);
  /// Made when it is first needed. nullptr where it cannot be had: then nothing is held back.
  BestEffortEngine *start(const CudaApi &api);
  /// Whether all launches of the process are seen; if not, a line says why.
  bool seesAll();
  /// Whether best-effort work goes to the device at once now.
  bool isAhead() const {
    BestEffortEngine *now = running();
    return now && now->isAhead();
  }
  void openClasses(const CudaApi &api);
  void forgetStream(StreamState &state);
  /// The program asks for the time between two events: says so once if requests came in between.
  void noteTiming(cudaEvent_t start, cudaEvent_t end);
  void countStreams();
  cudaError_t mayName(const StreamState &state) const;
  Queued queueBestEffort(const CudaApi &api, StreamState &state, cudaStream_t handle,
                         const std::function<bool()> &mayQueue, const Run &call,
                         const OnAnyStream &onAny = {}, const AheadWork &work = RunAhead::other(),
                         Behind behind = {}, const ByKernel &byKernel = {});
  BestEffortEngine *queueing(const CudaApi &api, const StreamState &state);
  /// A copy from or to pageable memory by way of the hooks' own. Nothing: CUDA has to make it.
  std::optional<cudaError_t> tryStaged(const CudaApi &api, void *to, const void *from,
                                       std::size_t bytes, cudaMemcpyKind kind, cudaStream_t handle);
  cudaError_t launchBestEffort(const CudaApi &api, StreamState &state, cudaStream_t handle,
                               const LaunchRequest &request, const Run &call);
  void graphInstantiated(const CudaApi &api, cudaGraphExec_t handle, cudaGraph_t graph,
                         unsigned long long flags);
  cudaError_t graphLaunchHigh(const CudaApi &api, StreamState &state, cudaGraphExec_t graph,
                              const Run &call);
  void waitForLaunches(const ExecutableGraph &graph);
  std::optional<int> tryForeignAhead(StreamState &state, AheadWork work,
                                     const std::function<int()> &call);
  bool queueForeign(StreamState &state, const std::function<TakenLaunch()> &take);
  /// The call at once, on the calling thread, when all that is queued is over and a permit is
  /// there.
  void inTurn(StreamState &state, const Run &call);
  /// The error that an operation left whose call had returned, else `status`.
  cudaError_t withDeferred(cudaError_t status, bool clear = true);
  void checkOnce() {
    if (!checked.load(std::memory_order_relaxed))
      selfCheck();
  }
  void selfCheck();
  void drainOnce();
  void prepareDriver();
  void writeStatistics(); ///< once, where they are wanted
  void writeTrace();

  const Settings settings;
  std::unique_ptr<runtime::Trace> trace; ///< or none
  StreamTable streams;
  Registry registry;
  LoadedImages images;
  ForeignKernels ofLibraries;
  Captures captures;
  Requests requests;
  DirectLaunches directLaunches;
  Events events;
  Graphs graphs;
  MemoryAccount account;
  std::atomic<Activity *> activity{nullptr}; ///< there is no engine without it
  std::atomic<BestEffortEngine *> engine{nullptr};
  std::atomic<HighFootprints *> footprints{nullptr}; ///< with the engine, where work may pause
  std::atomic<bool> mayJoin;                         ///< the arena was not tried yet
  std::mutex joinerMutex;
  std::thread joiner; ///< guarded by the mutex
  const pid_t joinerProcess = getpid();
  std::mutex starting; ///< what follows, and making the two
  std::atomic<bool> cannotStart{false};
  std::atomic<bool> isForkedChild{false};
  std::atomic<bool> isPlain{false};     ///< best-effort work is not queued any more
  std::atomic<std::uint64_t> resets{0}; ///< of the device
  std::atomic<bool> checked{false};
  std::atomic<bool> wroteStatistics{false};
  std::atomic<const CudaApi *> anyApi{nullptr};
  std::atomic<std::uint64_t> foreignHigh{0}, foreignBestEffort{0};
  InTurnCounts foreignInTurn;
  Totals earlier; ///< of engines before a reset of the device
};

} // namespace tally::hooks

#include "process/hooks_events.h"
#include "process/hooks_foreign.h"
#include "process/hooks_launches.h"
#include "process/hooks_memory.h"

#endif
