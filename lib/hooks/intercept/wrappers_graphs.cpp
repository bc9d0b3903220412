// The wrappers of graphs: they tell the hooks of graphs that are made and changed through the CUDA
// runtime.
#include "intercept/wrappers.h"

using namespace tally::hooks;

TALLY_HOOK_PTSZ(cudaGraphLaunch, (cudaGraphExec_t graphExec, cudaStream_t stream),
                (graphExec, stream), { return hooks().launchGraph(table, graphExec, stream); })

// Instantiation.

TALLY_HOOK(cudaGraphInstantiate,
           (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags),
           (pGraphExec, graph, flags), {
             return hooks().graphs().instantiate(table, pGraphExec, graph, flags, [&] {
               return table.cudaGraphInstantiate(pGraphExec, graph, flags);
             });
           })
TALLY_HOOK(cudaGraphInstantiateWithFlags,
           (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags),
           (pGraphExec, graph, flags), {
             return hooks().graphs().instantiate(table, pGraphExec, graph, flags, [&] {
               return table.cudaGraphInstantiateWithFlags(pGraphExec, graph, flags);
             });
           })
TALLY_HOOK(cudaGraphInstantiateWithParams,
           (cudaGraphExec_t * pGraphExec, cudaGraph_t graph,
            cudaGraphInstantiateParams *instantiateParams),
           (pGraphExec, graph, instantiateParams), {
             unsigned long long flags = instantiateParams ? instantiateParams->flags : 0;
             return hooks().graphs().instantiate(table, pGraphExec, graph, flags, [&] {
               return table.cudaGraphInstantiateWithParams(pGraphExec, graph, instantiateParams);
             });
           })
extern "C" cudaError_t
__wrap_cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams *instantiateParams) {
  if (isOff())
    return __real_cudaGraphInstantiateWithParams_ptsz(pGraphExec, graph, instantiateParams);
  if (!instantiateParams)
    return __wrap_cudaGraphInstantiateWithParams(pGraphExec, graph, instantiateParams);
  // CUDA writes the result into the caller's own structure.
  cudaStream_t given = instantiateParams->uploadStream;
  instantiateParams->uploadStream = ownStream(given);
  cudaError_t status = __wrap_cudaGraphInstantiateWithParams(pGraphExec, graph, instantiateParams);
  instantiateParams->uploadStream = given;
  return status;
}

TALLY_HOOK(cudaGraphExecDestroy, (cudaGraphExec_t graphExec), (graphExec),
           { return hooks().graphs().destroy(table, graphExec); })
TALLY_HOOK(cudaUserObjectCreate,
           (cudaUserObject_t * object_out, void *ptr, cudaHostFn_t destroy,
            unsigned int initialRefcount, unsigned int flags),
           (object_out, ptr, destroy, initialRefcount, flags), {
             InHook inside;
             hooks().graphs().holdObjects();
             return table.cudaUserObjectCreate(object_out, ptr, destroy, initialRefcount, flags);
           })

// Updates. `apply` makes the same change in the ExecutableGraph `graph` after a success.

TALLY_HOOK(cudaGraphExecUpdate,
           (cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
            cudaGraphExecUpdateResultInfo *resultInfo),
           (hGraphExec, hGraph, resultInfo), {
             return hooks().graphs().update(hGraphExec, hGraph, [&] {
               return table.cudaGraphExecUpdate(hGraphExec, hGraph, resultInfo);
             });
           })

#define TALLY_HOOK_CHANGE(name, parameters, arguments, handle, apply)                              \
  TALLY_HOOK(name, parameters, arguments, {                                                        \
    return hooks().graphs().change(                                                                \
        handle, [&] { return table.name arguments; }, [&](ExecutableGraph &graph) { apply; });     \
  })
// `adder` makes a node that is no kernel anew, with these arguments after CUDA's first four.
#define TALLY_HOOK_CHANGE_OTHER(name, parameters, arguments, adder, ...)                           \
  TALLY_HOOK_CHANGE(name, parameters, arguments, hGraphExec,                                       \
                    graph.setOther(node, [&](cudaGraph_t into, cudaGraphNode_t *made) {            \
                      return table.adder(made, into, nullptr, 0, __VA_ARGS__);                     \
                    }))

TALLY_HOOK_CHANGE(cudaGraphExecKernelNodeSetParams,
                  (cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                   const cudaKernelNodeParams *pNodeParams),
                  (hGraphExec, node, pNodeParams), hGraphExec, graph.setKernel(node, *pNodeParams))
TALLY_HOOK_CHANGE(cudaGraphExecChildGraphNodeSetParams,
                  (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, cudaGraph_t childGraph),
                  (hGraphExec, node, childGraph), hGraphExec, graph.setChild(node, childGraph))
TALLY_HOOK_CHANGE(cudaGraphNodeSetEnabled,
                  (cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int isEnabled),
                  (hGraphExec, hNode, isEnabled), hGraphExec,
                  graph.setEnabled(hNode, isEnabled != 0))
TALLY_HOOK_CHANGE_OTHER(cudaGraphExecMemcpyNodeSetParams,
                        (cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                         const cudaMemcpy3DParms *pNodeParams),
                        (hGraphExec, node, pNodeParams), cudaGraphAddMemcpyNode, pNodeParams)
TALLY_HOOK_CHANGE_OTHER(cudaGraphExecMemcpyNodeSetParamsToSymbol,
                        (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const void *symbol,
                         const void *src, size_t count, size_t offset, cudaMemcpyKind kind),
                        (hGraphExec, node, symbol, src, count, offset, kind),
                        cudaGraphAddMemcpyNodeToSymbol, symbol, src, count, offset, kind)
TALLY_HOOK_CHANGE_OTHER(cudaGraphExecMemcpyNodeSetParamsFromSymbol,
                        (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, void *dst,
                         const void *symbol, size_t count, size_t offset, cudaMemcpyKind kind),
                        (hGraphExec, node, dst, symbol, count, offset, kind),
                        cudaGraphAddMemcpyNodeFromSymbol, dst, symbol, count, offset, kind)
TALLY_HOOK_CHANGE_OTHER(cudaGraphExecMemcpyNodeSetParams1D,
                        (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, void *dst,
                         const void *src, size_t count, cudaMemcpyKind kind),
                        (hGraphExec, node, dst, src, count, kind), cudaGraphAddMemcpyNode1D, dst,
                        src, count, kind)
TALLY_HOOK_CHANGE_OTHER(cudaGraphExecMemsetNodeSetParams,
                        (cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                         const cudaMemsetParams *pNodeParams),
                        (hGraphExec, node, pNodeParams), cudaGraphAddMemsetNode, pNodeParams)
TALLY_HOOK_CHANGE_OTHER(cudaGraphExecHostNodeSetParams,
                        (cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                         const cudaHostNodeParams *pNodeParams),
                        (hGraphExec, node, pNodeParams), cudaGraphAddHostNode, pNodeParams)

namespace {

/// An update of a node of any type.
void apply(const CudaApi &table, ExecutableGraph &graph, cudaGraphNode_t node,
           cudaGraphNodeParams *parameters) {
  if (parameters->type == cudaGraphNodeTypeGraph)
    return graph.setChild(node, parameters->graph.graph);
  if (parameters->type != cudaGraphNodeTypeKernel)
    return graph.setOther(node, [&](cudaGraph_t into, cudaGraphNode_t *made) {
      return table.cudaGraphAddNode(made, into, nullptr, nullptr, 0, parameters);
    });
  const cudaKernelNodeParamsV2 &given = parameters->kernel;
  cudaKernelNodeParams kernel{};
  kernel.func = given.func;
  kernel.gridDim = given.gridDim;
  kernel.blockDim = given.blockDim;
  kernel.sharedMemBytes = given.sharedMemBytes;
  kernel.kernelParams = given.kernelParams;
  kernel.extra = given.extra;
  graph.setKernel(node, kernel);
}

} // namespace

TALLY_HOOK_CHANGE(cudaGraphExecNodeSetParams,
                  (cudaGraphExec_t graphExec, cudaGraphNode_t node,
                   cudaGraphNodeParams *nodeParams),
                  (graphExec, node, nodeParams), graphExec, apply(table, graph, node, nodeParams))
