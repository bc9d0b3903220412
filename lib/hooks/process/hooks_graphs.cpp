// Graphs: what is kept of them when they are instantiated and updated, and their launches.
#include "process/hooks.h"

namespace tally::hooks {

namespace {

/// The calling thread's, which CUDA's runtime keeps to itself.
void *contextOf(const CudaApi &api) {
  CUcontext context = nullptr;
  if (!api.copyGraphNode || !api.driver || !api.driver().currentContext)
    return nullptr;
  return api.driver().currentContext(&context) == CUDA_SUCCESS ? context : nullptr;
}

} // namespace

void Hooks::graphInstantiated(const CudaApi &api, cudaGraphExec_t handle, cudaGraph_t graph,
                              unsigned long long flags) {
  // Without best-effort work nothing is asked and kept, but for what is asked about when that comes
  // and pauses, and CUDA does not tell any more then.
  bool isWatched = !settings.bestEffort && contains(settings.variants.kinds, Kind::Pause);
  bool mayBeBestEffort = running() || settings.bestEffort;
  if (!mayBeBestEffort && !isWatched) {
    graphs.remove(handle);
    return;
  }
  int device = 0;
  api.cudaGetDevice(&device);
  auto added = std::make_shared<ExecutableGraph>(api, registry, device);
  if (isWatched)
    added->watchUse(graph);
  if (!mayBeBestEffort)
    added->keepWhole(WholeReason::NotSeen);
  else if ((flags & cudaGraphInstantiateFlagDeviceLaunch) != 0)
    added->keepWhole(WholeReason::DeviceLaunch);
  else if (!streams.onlyDevice(device))
    added->keepWhole(WholeReason::SeveralDevices);
  else
    added->read(graph, contextOf(api));
  graphs.add(handle, std::move(added));
}

cudaError_t Hooks::updateGraph(cudaGraphExec_t handle, cudaGraph_t graph, const Run &call) {
  InHook inside;
  std::shared_ptr<ExecutableGraph> known = graphs.find(handle);
  if (known && graphs.holdObjects)
    waitForLaunches(*known);
  cudaError_t status = call();
  if (status == cudaSuccess && known)
    known->update(graph, isAhead());
  return status;
}

cudaError_t Hooks::destroyGraph(const CudaApi &api, cudaGraphExec_t handle) {
  InHook inside;
  std::shared_ptr<ExecutableGraph> known = graphs.remove(handle);
  if (known && graphs.holdObjects)
    waitForLaunches(*known);
  return api.cudaGraphExecDestroy(handle);
}

/// What is queued of it. CUDA keeps a graph's objects until its launches are over, and does not
/// know of these.
void Hooks::waitForLaunches(const ExecutableGraph &graph) {
  if (BestEffortEngine *now = running())
    now->wait(graph.lastTicket.load());
}

cudaError_t Hooks::graphLaunch(const CudaApi &api, cudaGraphExec_t graph, cudaStream_t handle) {
  auto call = [&api, graph, handle] { return api.cudaGraphLaunch(graph, handle); };
  // Where no graph is kept, none has to be looked up.
  if (streams.isLast(handle) && threadState.last.scopes && !threadState.last.footprints &&
      !graphs.any())
    return passKnown(threadState.last, call);
  StreamState &state = streams.find(api, handle);
  if (!state.bestEffort)
    return graphLaunchHigh(api, state, graph, call);
  BestEffortEngine *running = start(api);
  InHook inside;
  if (!running || captures.takesPart(api, handle))
    return call();
  std::shared_ptr<ExecutableGraph> known = graphs.find(graph);
  if (auto status = running->tryAhead(state, {graph, 1}, call, [] {})) {
    if (known)
      known->launchedAhead(state);
    return *status;
  }
  ExecutableGraph::Launch launch{nullptr, WholeReason::NotSeen, nullptr};
  std::unique_lock<std::mutex> inOrder;
  Behind behind; // CUDA orders the launches of one executable graph
  if (known) {
    inOrder = std::unique_lock(known->launching);
    behind.one = known->lastTicket.load();
    launch = known->launch(running->deviceNumber(), running->context(), state);
  }
  if (launch.parts && state.device != running->deviceNumber())
    launch = {nullptr, WholeReason::SeveralDevices, nullptr};
  if (!launch.parts) {
    cudaError_t status = running->inTurn(state, true, graph, call, behind);
    if (status == cudaSuccess)
      graphs.launched(launch.reason);
    if (known)
      known->lastTicket = state.lastTicket.load();
    return status;
  }
  graphs.launched(WholeReason::None);
  if (!launch.parts->empty())
    known->lastTicket = running->submit(state, *launch.parts, launch.behind, behind);
  return cudaSuccess;
}

cudaError_t Hooks::graphLaunchHigh(const CudaApi &api, StreamState &state, cudaGraphExec_t graph,
                                   const Run &call) {
  BestEffortEngine *now = running();
  std::shared_ptr<ExecutableGraph> known =
      now && !captures.takesPart(api, state.handle) ? graphs.find(graph) : nullptr;
  // CUDA orders the launches of one executable graph, of whatever class.
  if (known)
    now->queue().wait(known->lastTicket.load(), true);
  if (HighFootprints *seen = footprints.load(std::memory_order_acquire))
    seen->graph(api, state, known.get());
  cudaError_t status = pass(state, call);
  if (status == cudaSuccess && known)
    known->launchedHigh(state.handle);
  knowLast(state);
  return status;
}

} // namespace tally::hooks
