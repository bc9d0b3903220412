// Instantiated graphs and their launches.
#include "calls.h"
#include "copies.h"
#include "graph_work.h"
#include "streams.h"

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace tally::hooks::emulated {

namespace {

/// The nodes in the order in which a launch issues them, including the nodes of embedded graphs.
struct GraphExec {
  /// The end of the last launch: the next launch, on any stream, comes behind it.
  struct Order {
    std::mutex mutex;
    std::optional<runtime::EmulatorDevice::Marker> last;
  };

  std::vector<GraphNode> nodes;
  unsigned long long flags = 0;
  std::shared_ptr<Order> order = std::make_shared<Order>();

  GraphNode *find(cudaGraphNode_t original) {
    for (GraphNode &each : nodes)
      if (each.original == reinterpret_cast<const GraphNode *>(original))
        return &each;
    return nullptr;
  }
};

GraphExec *execOf(cudaGraphExec_t handle) { return reinterpret_cast<GraphExec *>(handle); }

cudaError_t instantiated(const Graph &graph, unsigned long long flags, cudaGraphExec_t *result) {
  auto exec = std::make_unique<GraphExec>();
  exec->flags = flags;
  if (graph.ordered().size() != graph.nodes.size())
    return cudaErrorInvalidValue;
  for (const GraphNode *each : graph.flattened()) {
    exec->nodes.push_back(*each);
    exec->nodes.back().original = each;
  }
  *result = reinterpret_cast<cudaGraphExec_t>(exec.release()); // until cudaGraphExecDestroy
  return cudaSuccess;
}

/// Copies the work of each node in `from` to its node in `to`. Returns false where the two lists do
/// not match.
bool takeWorks(const std::vector<GraphNode *> &from, const std::vector<GraphNode *> &to) {
  bool fits = from.size() == to.size();
  for (std::size_t i = 0; fits && i < from.size(); ++i)
    fits = from[i]->type == to[i]->type && from[i]->after.size() == to[i]->after.size();
  for (std::size_t i = 0; fits && i < from.size(); ++i)
    to[i]->work = from[i]->work;
  return fits;
}

/// Replaces the work of an instantiated node by the work that `make(device, work)` sets.
template <class Make>
cudaError_t replaced(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraphNodeType type,
                     Make make) {
  return served([&](runtime::EmulatorDevice &device) {
    GraphNode *found = exec ? execOf(exec)->find(node) : nullptr;
    if (!found || found->type != type)
      return cudaErrorInvalidValue;
    return make(device, found->work);
  });
}

} // namespace

cudaError_t Calls::cudaGraphInstantiate(cudaGraphExec_t *result, cudaGraph_t graph,
                                        unsigned long long flags) {
  return served([&](runtime::EmulatorDevice &) {
    if (!result || !graph)
      return cudaErrorInvalidValue;
    return instantiated(*reinterpret_cast<Graph *>(graph), flags, result);
  });
}

cudaError_t Calls::cudaGraphInstantiateWithFlags(cudaGraphExec_t *result, cudaGraph_t graph,
                                                 unsigned long long flags) {
  return cudaGraphInstantiate(result, graph, flags);
}

cudaError_t Calls::cudaGraphInstantiateWithParams(cudaGraphExec_t *result, cudaGraph_t graph,
                                                  cudaGraphInstantiateParams *parameters) {
  cudaError_t error = cudaGraphInstantiate(result, graph, parameters ? parameters->flags : 0);
  if (parameters) {
    parameters->errNode_out = nullptr;
    parameters->result_out =
        error == cudaSuccess ? cudaGraphInstantiateSuccess : cudaGraphInstantiateError;
  }
  return error;
}

cudaError_t Calls::cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long *flags) {
  *flags = execOf(exec)->flags;
  return cudaSuccess;
}

cudaError_t Calls::cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete execOf(exec);
  return cudaSuccess;
}

cudaError_t Calls::cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }

cudaError_t Calls::cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return served([&](runtime::EmulatorDevice &device) {
    if (!exec)
      return cudaErrorInvalidValue;
    if (Stream *target = Streams::get().find(stream); target && target->capture)
      return cudaErrorStreamCaptureUnsupported;
    std::vector<GraphWork> steps;
    for (const GraphNode &each : execOf(exec)->nodes)
      if (each.work && each.isEnabled)
        steps.push_back(each.work);
    return submit(device, stream, cudaGraphNodeTypeGraph,
                  [steps, order = execOf(exec)->order](runtime::EmulatorDevice &to,
                                                       runtime::StreamId id) -> Result<void> {
                    std::unique_lock lock(order->mutex);
                    if (order->last)
                      if (auto done = to.waitFor(id, *order->last); !done)
                        return done;
                    for (const GraphWork &each : steps)
                      if (auto done = each(to, id); !done)
                        return done;
                    auto last = to.mark(id);
                    if (!last)
                      return last.error();
                    order->last = std::move(*last);
                    return {};
                  });
  });
}

cudaError_t Calls::cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                    const cudaKernelNodeParams *parameters) {
  return replaced(exec, node, cudaGraphNodeTypeKernel, workMaker(parameters));
}

cudaError_t Calls::cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                    const cudaMemcpy3DParms *parameters) {
  return replaced(exec, node, cudaGraphNodeTypeMemcpy, workMaker(parameters));
}

cudaError_t Calls::cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                      void *to, const void *from, size_t bytes,
                                                      cudaMemcpyKind kind) {
  return replaced(exec, node, cudaGraphNodeTypeMemcpy,
                  [&](runtime::EmulatorDevice &device, GraphWork &work) {
                    return workOf(device, linear(to, from, bytes), kind, work);
                  });
}

cudaError_t Calls::cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                    const cudaMemsetParams *parameters) {
  return replaced(exec, node, cudaGraphNodeTypeMemset, workMaker(parameters));
}

cudaError_t Calls::cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  const cudaHostNodeParams *parameters) {
  return replaced(
      exec, node, cudaGraphNodeTypeHost,
      [&](runtime::EmulatorDevice &, GraphWork &work) { return workOf(parameters, work); });
}

cudaError_t Calls::cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node,
                                           unsigned isEnabled) {
  GraphNode *found = execOf(exec)->find(node);
  if (!found)
    return remember(cudaErrorInvalidValue);
  found->isEnabled = isEnabled != 0;
  return cudaSuccess;
}

cudaError_t Calls::cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node,
                                           unsigned *isEnabled) {
  const GraphNode *found = execOf(exec)->find(node);
  if (!found)
    return remember(cudaErrorInvalidValue);
  *isEnabled = found->isEnabled;
  return cudaSuccess;
}

cudaError_t Calls::cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                       cudaGraphExecUpdateResultInfo *info) {
  std::vector<GraphNode *> nodes;
  for (GraphNode &each : execOf(exec)->nodes)
    nodes.push_back(&each);
  bool fits = takeWorks(reinterpret_cast<Graph *>(graph)->flattened(), nodes);
  if (info)
    *info = {fits ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged, nullptr,
             nullptr};
  return fits ? cudaSuccess : remember(cudaErrorGraphExecUpdateFailure);
}

cudaError_t Calls::cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                        cudaGraph_t child) {
  const auto *embedding = reinterpret_cast<const GraphNode *>(node);
  if (!exec || !node || !child || !embedding->child)
    return remember(cudaErrorInvalidValue);
  std::vector<GraphNode *> nodes;
  for (GraphNode *each : embedding->child->flattened()) {
    nodes.push_back(execOf(exec)->find(reinterpret_cast<cudaGraphNode_t>(each)));
    if (!nodes.back())
      return remember(cudaErrorInvalidValue);
  }
  return takeWorks(reinterpret_cast<Graph *>(child)->flattened(), nodes)
             ? cudaSuccess
             : remember(cudaErrorGraphExecUpdateFailure);
}

} // namespace tally::hooks::emulated
