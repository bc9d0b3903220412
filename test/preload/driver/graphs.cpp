// Graphs: their nodes and dependencies, and their launches.
#include "driver.h"

#include "emulated_cuda/memory.h"

namespace tally::preload_driver {

namespace {

CUresult kernelParameters(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *result) {
  cudaKernelNodeParams known{};
  cudaError_t error = runtime().cudaGraphKernelNodeGetParams(node, &known);
  if (error != cudaSuccess || !result)
    return codeOf(error != cudaSuccess ? error : cudaErrorInvalidValue);
  *result = {};
  result->func = static_cast<CUfunction>(known.func);
  result->gridDimX = known.gridDim.x;
  result->gridDimY = known.gridDim.y;
  result->gridDimZ = known.gridDim.z;
  result->blockDimX = known.blockDim.x;
  result->blockDimY = known.blockDim.y;
  result->blockDimZ = known.blockDim.z;
  result->sharedMemBytes = known.sharedMemBytes;
  result->kernelParams = known.kernelParams;
  result->ctx = currentContext();
  return CUDA_SUCCESS;
}

/// Memory that kernels cannot use is host memory.
CUmemorytype typeOf(const void *pointer) {
  using hooks::emulated::MemoryKind;
  auto address = reinterpret_cast<std::uintptr_t>(pointer);
  auto known = hooks::emulated::Memory::get().find(pointer);
  bool isOfDevice =
      known.bytes != 0
          ? known.kind == MemoryKind::Device || known.kind == MemoryKind::Managed
          : bool(hooks::emulated::Context::get().device()->machine().allocationAt(address));
  return isOfDevice ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}

CUresult copyParameters(CUgraphNode node, CUDA_MEMCPY3D *result) {
  cudaMemcpy3DParms known{};
  cudaError_t error = runtime().cudaGraphMemcpyNodeGetParams(node, &known);
  if (error != cudaSuccess || !result)
    return codeOf(error != cudaSuccess ? error : cudaErrorInvalidValue);
  if (known.srcArray || known.dstArray)
    return CUDA_ERROR_NOT_SUPPORTED;
  *result = {};
  result->srcXInBytes = known.srcPos.x;
  result->srcY = known.srcPos.y;
  result->srcZ = known.srcPos.z;
  result->srcMemoryType = typeOf(known.srcPtr.ptr);
  if (result->srcMemoryType == CU_MEMORYTYPE_HOST)
    result->srcHost = known.srcPtr.ptr;
  else
    result->srcDevice = reinterpret_cast<CUdeviceptr>(known.srcPtr.ptr);
  result->srcPitch = known.srcPtr.pitch;
  result->srcHeight = known.srcPtr.ysize;
  result->dstXInBytes = known.dstPos.x;
  result->dstY = known.dstPos.y;
  result->dstZ = known.dstPos.z;
  result->dstMemoryType = typeOf(known.dstPtr.ptr);
  if (result->dstMemoryType == CU_MEMORYTYPE_HOST)
    result->dstHost = known.dstPtr.ptr;
  else
    result->dstDevice = reinterpret_cast<CUdeviceptr>(known.dstPtr.ptr);
  result->dstPitch = known.dstPtr.pitch;
  result->dstHeight = known.dstPtr.ysize;
  result->WidthInBytes = known.extent.width;
  result->Height = known.extent.height;
  result->Depth = known.extent.depth;
  return CUDA_SUCCESS;
}

CUresult fillParameters(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *result) {
  cudaMemsetParams known{};
  cudaError_t error = runtime().cudaGraphMemsetNodeGetParams(node, &known);
  if (error != cudaSuccess || !result)
    return codeOf(error != cudaSuccess ? error : cudaErrorInvalidValue);
  *result = {};
  result->dst = reinterpret_cast<CUdeviceptr>(known.dst);
  result->pitch = known.pitch;
  result->value = known.value;
  result->elementSize = known.elementSize;
  result->width = known.width;
  result->height = known.height;
  return CUDA_SUCCESS;
}

CUresult instantiated(CUgraphExec *result, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *how) {
  if (!how)
    return CUDA_ERROR_INVALID_VALUE;
  cudaError_t error = runtime().cudaGraphInstantiateWithFlags(result, graph, how->flags);
  how->hErrNode_out = nullptr;
  how->result_out =
      error == cudaSuccess ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return codeOf(error);
}

} // namespace

} // namespace tally::preload_driver

using namespace tally::preload_driver;

extern "C" {

CUresult cuGraphCreate(CUgraph *result, unsigned flags) {
  return started([&] {
    return result && flags == 0 ? runtime().cudaGraphCreate(result, flags) : cudaErrorInvalidValue;
  });
}
CUresult cuGraphClone(CUgraph *result, CUgraph original) {
  return started([&] { return runtime().cudaGraphClone(result, original); });
}
CUresult cuGraphDestroy(CUgraph graph) {
  return started([&] { return runtime().cudaGraphDestroy(graph); });
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  return started([&] {
    return graph && count ? runtime().cudaGraphGetNodes(graph, nodes, count)
                          : cudaErrorInvalidValue;
  });
}
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  return started([&] {
    if (!node || !type)
      return cudaErrorInvalidValue;
    cudaGraphNodeType known = cudaGraphNodeTypeEmpty;
    cudaError_t error = runtime().cudaGraphNodeGetType(node, &known);
    *type = static_cast<CUgraphNodeType>(known); // the numbers are the same
    return error;
  });
}
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges,
                                       size_t *count) {
  return started([&] {
    if (!node || !count)
      return cudaErrorInvalidValue;
    static_assert(sizeof(CUgraphEdgeData) == sizeof(cudaGraphEdgeData));
    return runtime().cudaGraphNodeGetDependencies(
        node, nodes, reinterpret_cast<cudaGraphEdgeData *>(edges), count);
  });
}
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count) {
  return cuGraphNodeGetDependencies_v2(node, nodes, nullptr, count);
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *result) {
  return started([&] { return kernelParameters(node, result); });
}
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                       CUkernelNodeAttrValue *value) {
  return started([&] {
    static_assert(sizeof(CUkernelNodeAttrValue) == sizeof(cudaLaunchAttributeValue));
    return node && value ? runtime().cudaGraphKernelNodeGetAttribute(
                               node, static_cast<cudaLaunchAttributeID>(id),
                               reinterpret_cast<cudaLaunchAttributeValue *>(value))
                         : cudaErrorInvalidValue;
  });
}
CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  return started([&] { return runtime().cudaGraphKernelNodeCopyAttributes(to, from); });
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph) {
  return started([&] { return runtime().cudaGraphChildGraphNodeGetGraph(node, graph); });
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *result) {
  return started([&] { return copyParameters(node, result); });
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *result) {
  return started([&] { return fillParameters(node, result); });
}
CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *result) {
  return started([&] {
    cudaHostNodeParams known{};
    cudaError_t error = runtime().cudaGraphHostNodeGetParams(node, &known);
    if (error == cudaSuccess)
      *result = {known.fn, known.userData};
    return error;
  });
}

// Instantiated graphs -----------------------------------------------------------------------------

CUresult cuGraphInstantiateWithFlags(CUgraphExec *result, CUgraph graph, unsigned long long flags) {
  return inContext([&] { return runtime().cudaGraphInstantiateWithFlags(result, graph, flags); });
}
CUresult cuGraphInstantiateWithParams(CUgraphExec *result, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *how) {
  return inContext([&] { return instantiated(result, graph, how); });
}
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *result, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *how) {
  return cuGraphInstantiateWithParams(result, graph, how);
}

TALLY_STREAM_FORMS(cuGraphLaunch, (CUgraphExec graph, CUstream stream),
                   runtime().cudaGraphLaunch(graph, stream))
TALLY_STREAM_FORMS(cuGraphUpload, (CUgraphExec graph, CUstream stream),
                   runtime().cudaGraphUpload(graph, stream))

CUresult cuGraphExecDestroy(CUgraphExec graph) {
  return started(
      [&] { return graph ? runtime().cudaGraphExecDestroy(graph) : cudaErrorInvalidValue; });
}

} // extern "C"
