#include "driver_graphs.h"

#include "driver_calls.h"
#include "process/hooks.h"

#include <cstddef>

namespace tally::preload {

namespace {

cudaError_t nodeType(cudaGraphNode_t node, cudaGraphNodeType *type) {
  CUgraphNodeType found = CU_GRAPH_NODE_TYPE_EMPTY;
  CUresult result = driver().cuGraphNodeGetType(node, &found);
  *type = static_cast<cudaGraphNodeType>(found); // numbered alike
  return status(result);
}

cudaError_t dependencies(cudaGraphNode_t node, cudaGraphNode_t *found, cudaGraphEdgeData *edges,
                         std::size_t *count) {
  static_assert(sizeof(CUgraphEdgeData) == sizeof(cudaGraphEdgeData));
  return status(driver().cuGraphNodeGetDependencies(
      node, found, reinterpret_cast<CUgraphEdgeData *>(edges), count));
}

cudaError_t kernelParameters(cudaGraphNode_t node, cudaKernelNodeParams *found) {
  CUDA_KERNEL_NODE_PARAMS given{};
  if (CUresult result = driver().cuGraphKernelNodeGetParams(node, &given); result != CUDA_SUCCESS)
    return status(result);
  cudaKernelNodeParams parameters = hooks::runtimeParameters(given);
  // The kernel's variants may be made later: each launch looks for them.
  if (!hooks::Hooks::shared().loadedImages().knows(parameters.func))
    return cudaErrorInvalidDeviceFunction;
  *found = parameters;
  return cudaSuccess;
}

cudaError_t kernelAttribute(cudaGraphNode_t node, cudaLaunchAttributeID id,
                            cudaLaunchAttributeValue *value) {
  static_assert(sizeof(CUlaunchAttributeValue) == sizeof(cudaLaunchAttributeValue));
  return status(driver().cuGraphKernelNodeGetAttribute(
      node, static_cast<CUlaunchAttributeID>(id), // numbered alike
      reinterpret_cast<CUlaunchAttributeValue *>(value)));
}

cudaError_t copyNode(cudaGraph_t into, cudaGraphNode_t *made, cudaGraphNode_t from) {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUcontext context = nullptr;
  CUresult result = driver().cuGraphNodeGetType(from, &type);
  if (result == CUDA_SUCCESS)
    result = driver().cuCtxGetCurrent(&context);
  if (result != CUDA_SUCCESS)
    return status(result);
  CUDA_MEMCPY3D copy{};
  CUDA_MEMSET_NODE_PARAMS fill{};
  CUDA_HOST_NODE_PARAMS host{};
  switch (type) {
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    result = driver().cuGraphMemcpyNodeGetParams(from, &copy);
    if (result == CUDA_SUCCESS)
      result = driver().cuGraphAddMemcpyNode(made, into, nullptr, 0, &copy, context);
    break;
  case CU_GRAPH_NODE_TYPE_MEMSET:
    result = driver().cuGraphMemsetNodeGetParams(from, &fill);
    if (result == CUDA_SUCCESS)
      result = driver().cuGraphAddMemsetNode(made, into, nullptr, 0, &fill, context);
    break;
  case CU_GRAPH_NODE_TYPE_HOST:
    result = driver().cuGraphHostNodeGetParams(from, &host);
    if (result == CUDA_SUCCESS)
      result = driver().cuGraphAddHostNode(made, into, nullptr, 0, &host);
    break;
  default:
    return cudaErrorNotSupported;
  }
  return status(result);
}

} // namespace

void serveGraphs(hooks::CudaApi &table) {
  table.cudaGraphCreate = [](cudaGraph_t *made, unsigned flags) {
    return status(driver().cuGraphCreate(made, flags));
  };
  table.cudaGraphClone = [](cudaGraph_t *made, cudaGraph_t original) {
    return status(driver().cuGraphClone(made, original));
  };
  table.cudaGraphDestroy = [](cudaGraph_t graph) { return status(driver().cuGraphDestroy(graph)); };
  table.cudaGraphGetNodes = [](cudaGraph_t graph, cudaGraphNode_t *nodes, std::size_t *count) {
    return status(driver().cuGraphGetNodes(graph, nodes, count));
  };
  table.cudaGraphNodeGetType = nodeType;
  table.cudaGraphNodeGetDependencies = dependencies;
  table.cudaGraphChildGraphNodeGetGraph = [](cudaGraphNode_t node, cudaGraph_t *graph) {
    return status(driver().cuGraphChildGraphNodeGetGraph(node, graph));
  };
  table.cudaGraphKernelNodeGetParams = kernelParameters;
  table.cudaGraphKernelNodeGetAttribute = kernelAttribute;
  table.cudaGraphKernelNodeCopyAttributes = [](cudaGraphNode_t to, cudaGraphNode_t from) {
    return status(driver().cuGraphKernelNodeCopyAttributes(to, from));
  };
  table.cudaGraphInstantiateWithFlags = [](cudaGraphExec_t *made, cudaGraph_t graph,
                                           unsigned long long flags) {
    return status(driver().cuGraphInstantiateWithFlags(made, graph, flags));
  };
  table.cudaGraphLaunch = [](cudaGraphExec_t graph, cudaStream_t stream) {
    return status(driver().cuGraphLaunch(graph, stream));
  };
  table.cudaGraphExecDestroy = [](cudaGraphExec_t graph) {
    return status(driver().cuGraphExecDestroy(graph));
  };
  table.copyGraphNode = copyNode;
}

} // namespace tally::preload
