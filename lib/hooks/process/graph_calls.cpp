#include "process/graph_calls.h"

#include <mutex>
#include <utility>

namespace tally::hooks {

namespace {

/// The calling thread's CUcontext, which the CUDA runtime does not tell.
void *contextOf(const CudaApi &api) {
  return api.copyGraphNode && api.driver ? api.driver().contextOfThread() : nullptr;
}

} // namespace

void GraphCalls::instantiated(const CudaApi &api, cudaGraphExec_t handle, cudaGraph_t graph,
                              unsigned long long flags) {
  // Without best-effort work the hooks ask CUDA nothing and keep nothing about a graph. There is
  // one exception: where best-effort work may come later and pause, the hooks keep the resources
  // that the graph takes of an SM. CUDA does not tell these after the instantiation.
  bool isWatched = !settings.bestEffort && contains(settings.variants.kinds, Kind::Pause);
  bool mayBeBestEffort = served.engine() || settings.bestEffort;
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

cudaError_t GraphCalls::update(cudaGraphExec_t handle, cudaGraph_t graph, const Run &call) {
  InHook inside;
  std::shared_ptr<ExecutableGraph> known = graphs.find(handle);
  if (known && graphs.holdObjects)
    waitForLaunches(*known);
  cudaError_t status = call();
  if (status == cudaSuccess && known)
    known->update(graph, served.isAhead());
  return status;
}

cudaError_t GraphCalls::destroy(const CudaApi &api, cudaGraphExec_t handle) {
  InHook inside;
  std::shared_ptr<ExecutableGraph> known = graphs.remove(handle);
  if (known && graphs.holdObjects)
    waitForLaunches(*known);
  return api.cudaGraphExecDestroy(handle);
}

/// Waits for the graph's queued operations. CUDA keeps a graph's objects until its launches are
/// over, and does not know of queued operations.
void GraphCalls::waitForLaunches(const ExecutableGraph &graph) {
  if (BestEffortEngine *now = served.engine())
    now->wait(graph.lastTicket.load());
}

cudaError_t GraphCalls::launch(const CudaApi &api, cudaGraphExec_t graph, cudaStream_t handle) {
  auto call = [&api, graph, handle] { return api.cudaGraphLaunch(graph, handle); };
  StreamState &state = streams.find(api, handle);
  if (!state.bestEffort)
    return launchHigh(api, state, graph, call);
  BestEffortEngine *running = served.start(api);
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

cudaError_t GraphCalls::launchHigh(const CudaApi &api, StreamState &state, cudaGraphExec_t graph,
                                   const Run &call) {
  BestEffortEngine *now = served.engine();
  std::shared_ptr<ExecutableGraph> known =
      now && !captures.takesPart(api, state.handle) ? graphs.find(graph) : nullptr;
  // CUDA orders the launches of one executable graph, of either class.
  if (known)
    now->queue().wait(known->lastTicket.load(), true);
  if (HighFootprints *seen = served.footprints())
    seen->graph(api, state, known.get());
  cudaError_t status = rules.pass(state, call);
  if (status == cudaSuccess && known)
    known->launchedHigh(state.handle);
  launches.knowLast(state);
  return status;
}

} // namespace tally::hooks
