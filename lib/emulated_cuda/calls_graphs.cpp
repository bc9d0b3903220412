// Graphs that the program builds node by node, and queries of graphs.
#include "calls.h"
#include "graph_work.h"
#include "memory.h"

#include <algorithm>
#include <vector>

namespace tally::hooks::emulated {

namespace {

Graph *graphOf(cudaGraph_t handle) { return reinterpret_cast<Graph *>(handle); }
GraphNode *nodeOf(cudaGraphNode_t handle) { return reinterpret_cast<GraphNode *>(handle); }
cudaGraphNode_t handleOf(const GraphNode *node) {
  return reinterpret_cast<cudaGraphNode_t>(const_cast<GraphNode *>(node));
}

cudaError_t added(cudaGraphNode_t *result, cudaGraph_t graph, const cudaGraphNode_t *after,
                  std::size_t count, cudaGraphNodeType type, GraphWork work) {
  if (!result || !graph || (count && !after))
    return cudaErrorInvalidValue;
  std::vector<GraphNode *> before;
  for (std::size_t i = 0; i < count; ++i) {
    if (!graphOf(graph)->holds(nodeOf(after[i])))
      return cudaErrorInvalidValue;
    before.push_back(nodeOf(after[i]));
  }
  *result = handleOf(graphOf(graph)->add(type, std::move(work), std::move(before)));
  return cudaSuccess;
}

/// Adds a node with the work that `make` sets, or returns the error of `make`.
template <class Make>
cudaError_t addedNode(cudaGraphNode_t *result, cudaGraph_t graph, const cudaGraphNode_t *after,
                      std::size_t count, cudaGraphNodeType type, Make make) {
  return served([&](runtime::EmulatorDevice &device) {
    GraphWork work;
    if (cudaError_t bad = make(device, work); bad != cudaSuccess)
      return bad;
    return added(result, graph, after, count, type, std::move(work));
  });
}

/// The list convention of CUDA's queries: without an array for the list, only the count is
/// returned.
cudaError_t listed(const std::vector<const GraphNode *> &nodes, cudaGraphNode_t *result,
                   std::size_t *count) {
  if (result)
    for (std::size_t i = 0; i < *count; ++i)
      result[i] = i < nodes.size() ? handleOf(nodes[i]) : nullptr;
  *count = result ? std::min(*count, nodes.size()) : nodes.size();
  return cudaSuccess;
}

} // namespace

cudaError_t Calls::cudaGraphCreate(cudaGraph_t *result, unsigned) {
  return served([&](runtime::EmulatorDevice &) {
    *result = reinterpret_cast<cudaGraph_t>(new Graph); // until cudaGraphDestroy
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaGraphDestroy(cudaGraph_t graph) {
  if (!graph)
    return remember(cudaErrorInvalidValue);
  delete graphOf(graph);
  return cudaSuccess;
}

cudaError_t Calls::cudaGraphClone(cudaGraph_t *result, cudaGraph_t original) {
  return served([&](runtime::EmulatorDevice &) {
    if (!result || !original)
      return cudaErrorInvalidValue;
    *result = reinterpret_cast<cudaGraph_t>(graphOf(original)->clone().release());
    return cudaSuccess;
  });
}

cudaError_t Calls::cudaGraphNodeFindInClone(cudaGraphNode_t *result, cudaGraphNode_t original,
                                            cudaGraph_t clone) {
  for (const auto &each : graphOf(clone)->nodes)
    if (each->original == nodeOf(original)) {
      *result = handleOf(each.get());
      return cudaSuccess;
    }
  return remember(cudaErrorInvalidValue);
}

cudaError_t Calls::cudaGraphAddKernelNode(cudaGraphNode_t *result, cudaGraph_t graph,
                                          const cudaGraphNode_t *after, size_t count,
                                          const cudaKernelNodeParams *parameters) {
  return addedNode(result, graph, after, count, cudaGraphNodeTypeKernel, workMaker(parameters));
}

cudaError_t Calls::cudaGraphAddMemcpyNode(cudaGraphNode_t *result, cudaGraph_t graph,
                                          const cudaGraphNode_t *after, size_t count,
                                          const cudaMemcpy3DParms *parameters) {
  return addedNode(result, graph, after, count, cudaGraphNodeTypeMemcpy, workMaker(parameters));
}

cudaError_t Calls::cudaGraphAddMemcpyNode1D(cudaGraphNode_t *result, cudaGraph_t graph,
                                            const cudaGraphNode_t *after, size_t count, void *to,
                                            const void *from, size_t bytes, cudaMemcpyKind kind) {
  return addedNode(result, graph, after, count, cudaGraphNodeTypeMemcpy,
                   [&](runtime::EmulatorDevice &device, GraphWork &work) {
                     return workOf(device, linear(to, from, bytes), kind, work);
                   });
}

cudaError_t Calls::cudaGraphAddMemsetNode(cudaGraphNode_t *result, cudaGraph_t graph,
                                          const cudaGraphNode_t *after, size_t count,
                                          const cudaMemsetParams *parameters) {
  return addedNode(result, graph, after, count, cudaGraphNodeTypeMemset, workMaker(parameters));
}

cudaError_t Calls::cudaGraphAddHostNode(cudaGraphNode_t *result, cudaGraph_t graph,
                                        const cudaGraphNode_t *after, size_t count,
                                        const cudaHostNodeParams *parameters) {
  return addedNode(
      result, graph, after, count, cudaGraphNodeTypeHost,
      [&](runtime::EmulatorDevice &, GraphWork &work) { return workOf(parameters, work); });
}

cudaError_t Calls::cudaGraphAddChildGraphNode(cudaGraphNode_t *result, cudaGraph_t graph,
                                              const cudaGraphNode_t *after, size_t count,
                                              cudaGraph_t child) {
  cudaError_t error = addedNode(result, graph, after, count, cudaGraphNodeTypeGraph,
                                [&](runtime::EmulatorDevice &, GraphWork &) {
                                  return child ? cudaSuccess : cudaErrorInvalidValue;
                                });
  if (error == cudaSuccess)
    nodeOf(*result)->child = graphOf(child)->clone();
  return error;
}

cudaError_t Calls::cudaGraphAddEmptyNode(cudaGraphNode_t *result, cudaGraph_t graph,
                                         const cudaGraphNode_t *after, size_t count) {
  return addedNode(result, graph, after, count, cudaGraphNodeTypeEmpty,
                   [](runtime::EmulatorDevice &, GraphWork &) { return cudaSuccess; });
}

cudaError_t Calls::cudaGraphAddMemAllocNode(cudaGraphNode_t *result, cudaGraph_t graph,
                                            const cudaGraphNode_t *after, size_t count,
                                            cudaMemAllocNodeParams *parameters) {
  return addedNode(result, graph, after, count, cudaGraphNodeTypeMemAlloc,
                   [&](runtime::EmulatorDevice &, GraphWork &) {
                     return Memory::get().allocateForGraph(parameters->bytesize, &parameters->dptr);
                   });
}

cudaError_t Calls::cudaGraphAddMemFreeNode(cudaGraphNode_t *result, cudaGraph_t graph,
                                           const cudaGraphNode_t *after, size_t count,
                                           void *pointer) {
  return addedNode(result, graph, after, count, cudaGraphNodeTypeMemFree,
                   [&](runtime::EmulatorDevice &, GraphWork &) {
                     return Memory::get().find(pointer).isOfGraph ? cudaSuccess
                                                                  : cudaErrorInvalidValue;
                   });
}

cudaError_t Calls::cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                                const cudaKernelNodeParams *parameters) {
  return served([&](runtime::EmulatorDevice &device) {
    return workOf(device, parameters, nodeOf(node)->work);
  });
}

cudaError_t Calls::cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node,
                                                const cudaMemcpy3DParms *parameters) {
  return served([&](runtime::EmulatorDevice &device) {
    return workOf(device, parameters, nodeOf(node)->work);
  });
}

cudaError_t Calls::cudaGraphMemsetNodeSetParams(cudaGraphNode_t node,
                                                const cudaMemsetParams *parameters) {
  return served([&](runtime::EmulatorDevice &device) {
    return workOf(device, parameters, nodeOf(node)->work);
  });
}

cudaError_t Calls::cudaGraphHostNodeSetParams(cudaGraphNode_t node,
                                              const cudaHostNodeParams *parameters) {
  return served([&](runtime::EmulatorDevice &) { return workOf(parameters, nodeOf(node)->work); });
}

cudaError_t Calls::cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                            const cudaGraphNode_t *to, const cudaGraphEdgeData *,
                                            size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!graphOf(graph)->holds(nodeOf(from[i])) || !graphOf(graph)->holds(nodeOf(to[i])))
      return remember(cudaErrorInvalidValue);
    nodeOf(to[i])->after.push_back(nodeOf(from[i]));
  }
  return cudaSuccess;
}

cudaError_t Calls::cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *result) {
  if (!node || !nodeOf(node)->child || !result)
    return remember(cudaErrorInvalidValue);
  *result = reinterpret_cast<cudaGraph_t>(nodeOf(node)->child.get());
  return cudaSuccess;
}

cudaError_t Calls::cudaGraphDestroyNode(cudaGraphNode_t handle) {
  const GraphNode *node = nodeOf(handle);
  Graph &graph = *node->graph;
  for (const auto &each : graph.nodes)
    std::erase(each->after, node);
  std::erase_if(graph.nodes, [&](const auto &each) { return each.get() == node; });
  return cudaSuccess;
}

cudaError_t Calls::cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType *type) {
  *type = nodeOf(node)->type;
  return cudaSuccess;
}

cudaError_t Calls::cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *result, size_t *count) {
  std::vector<const GraphNode *> all;
  for (const auto &each : graphOf(graph)->nodes)
    all.push_back(each.get());
  return listed(all, result, count);
}

cudaError_t Calls::cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *result,
                                         size_t *count) {
  std::vector<const GraphNode *> roots;
  for (const auto &each : graphOf(graph)->nodes)
    if (each->after.empty())
      roots.push_back(each.get());
  return listed(roots, result, count);
}

cudaError_t Calls::cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *result,
                                                cudaGraphEdgeData *edges, size_t *count) {
  const auto &after = nodeOf(node)->after;
  if (result && edges)
    std::fill_n(edges, *count, cudaGraphEdgeData{});
  return listed({after.begin(), after.end()}, result, count);
}

} // namespace tally::hooks::emulated
