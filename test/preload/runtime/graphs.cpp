// Graphs: nodes, instances and their updates.
#include "runtime.h"

namespace tally::preload_runtime {

namespace {

cudaError_t kernelNode(const Driver &driver, const cudaKernelNodeParams *given,
                       CUDA_KERNEL_NODE_PARAMS &result) {
  if (!given)
    return cudaErrorInvalidValue;
  Kernel kernel;
  cudaError_t error = kernelOf(driver, given->func, kernel);
  result = {};
  result.func = kernel.function;
  result.kern = kernel.function ? nullptr : kernel.kernel;
  result.gridDimX = given->gridDim.x;
  result.gridDimY = given->gridDim.y;
  result.gridDimZ = given->gridDim.z;
  result.blockDimX = given->blockDim.x;
  result.blockDimY = given->blockDim.y;
  result.blockDimZ = given->blockDim.z;
  result.sharedMemBytes = given->sharedMemBytes;
  result.kernelParams = given->kernelParams;
  result.extra = given->extra;
  return error;
}

CUDA_MEMSET_NODE_PARAMS fillNode(const cudaMemsetParams &given) {
  CUDA_MEMSET_NODE_PARAMS result{};
  result.dst = addressOf(given.dst);
  result.pitch = given.pitch;
  result.value = given.value;
  result.elementSize = given.elementSize;
  result.width = given.width;
  result.height = given.height;
  return result;
}

/// Gap between any two pieces of memory, so that the driver can tell them apart by address.
CUDA_MEMCPY3D copyNode(void *to, const void *from, std::size_t bytes) {
  CUDA_MEMCPY3D result{};
  result.srcMemoryType = result.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  result.srcDevice = addressOf(from);
  result.dstDevice = addressOf(to);
  result.srcPitch = result.dstPitch = result.WidthInBytes = bytes;
  result.srcHeight = result.dstHeight = result.Height = result.Depth = 1;
  return result;
}

} // namespace

} // namespace tally::preload_runtime

using namespace tally::preload_runtime;

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t *result, unsigned flags) {
  return served([&](const Driver &driver) { return driver.cuGraphCreate(result, flags); });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return served([&](const Driver &driver) { return driver.cuGraphDestroy(graph); });
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *result, cudaGraph_t graph,
                                   const cudaGraphNode_t *after, size_t count,
                                   const cudaKernelNodeParams *given) {
  return served([&](const Driver &driver) {
    CUDA_KERNEL_NODE_PARAMS kernel;
    cudaError_t error = kernelNode(driver, given, kernel);
    return error == cudaSuccess
               ? codeOf(driver.cuGraphAddKernelNode(result, graph, after, count, &kernel))
               : error;
  });
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *result, cudaGraph_t graph,
                                   const cudaGraphNode_t *after, size_t count,
                                   const cudaMemsetParams *given) {
  return served([&](const Driver &driver) {
    CUDA_MEMSET_NODE_PARAMS fill = fillNode(*given);
    return driver.cuGraphAddMemsetNode(result, graph, after, count, &fill, driver.context);
  });
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *result, cudaGraph_t graph,
                                     const cudaGraphNode_t *after, size_t count, void *to,
                                     const void *from, size_t bytes, cudaMemcpyKind) {
  return served([&](const Driver &driver) {
    CUDA_MEMCPY3D copy = copyNode(to, from, bytes);
    return driver.cuGraphAddMemcpyNode(result, graph, after, count, &copy, driver.context);
  });
}
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *result, cudaGraph_t graph,
                                 const cudaGraphNode_t *after, size_t count,
                                 const cudaHostNodeParams *given) {
  return served([&](const Driver &driver) {
    CUDA_HOST_NODE_PARAMS host{given->fn, given->userData};
    return driver.cuGraphAddHostNode(result, graph, after, count, &host);
  });
}

// Instances ---------------------------------------------------------------------------------------

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *result, cudaGraph_t graph,
                                 unsigned long long flags) {
  return served([&](const Driver &driver) {
    return driver.cuGraphInstantiateWithFlags(result, graph, flags);
  });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return served([&](const Driver &driver) { return driver.cuGraphLaunch(graph, stream); });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  return served([&](const Driver &driver) { return driver.cuGraphExecDestroy(graph); });
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node,
                                             const cudaKernelNodeParams *given) {
  return served([&](const Driver &driver) {
    CUDA_KERNEL_NODE_PARAMS kernel;
    cudaError_t error = kernelNode(driver, given, kernel);
    return error == cudaSuccess
               ? codeOf(driver.cuGraphExecKernelNodeSetParams(graph, node, &kernel))
               : error;
  });
}
cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node,
                                             const cudaMemsetParams *given) {
  return served([&](const Driver &driver) {
    CUDA_MEMSET_NODE_PARAMS fill = fillNode(*given);
    return driver.cuGraphExecMemsetNodeSetParams(graph, node, &fill, driver.context);
  });
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t graph, cudaGraph_t from,
                                cudaGraphExecUpdateResultInfo *result) {
  return served([&](const Driver &driver) {
    CUgraphExecUpdateResultInfo info{};
    CUresult error = driver.cuGraphExecUpdate(graph, from, &info);
    *result = {static_cast<cudaGraphExecUpdateResult>(info.result), info.errorNode,
               info.errorFromNode};
    return error;
  });
}

} // extern "C"
