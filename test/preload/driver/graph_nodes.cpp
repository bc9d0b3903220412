// Graphs that the program builds node by node, and changes of instantiated graphs. Parameters are
// converted to the emulated runtime's form.
#include "driver.h"

#include <optional>

namespace tally::preload_driver {

namespace {

/// The program names a kernel by a CUfunction or, without one, by a CUkernel.
std::optional<cudaKernelNodeParams> kernelOf(const CUDA_KERNEL_NODE_PARAMS *given) {
  if (!given || !(given->func || given->kern))
    return std::nullopt;
  cudaKernelNodeParams result{};
  result.func = given->func ? static_cast<void *>(given->func) : static_cast<void *>(given->kern);
  result.gridDim = {given->gridDimX, given->gridDimY, given->gridDimZ};
  result.blockDim = {given->blockDimX, given->blockDimY, given->blockDimZ};
  result.sharedMemBytes = given->sharedMemBytes;
  result.kernelParams = given->kernelParams;
  result.extra = given->extra;
  return result;
}

std::optional<cudaMemsetParams> fillOf(const CUDA_MEMSET_NODE_PARAMS *given) {
  if (!given)
    return std::nullopt;
  cudaMemsetParams result{};
  result.dst = pointerOf(given->dst);
  result.pitch = given->pitch;
  result.value = given->value;
  result.elementSize = given->elementSize;
  result.width = given->width;
  result.height = given->height;
  return result;
}

/// Returns nothing for arrays, which are not served.
std::optional<cudaMemcpy3DParms> copyOf(const CUDA_MEMCPY3D *given) {
  if (!given || given->srcMemoryType == CU_MEMORYTYPE_ARRAY ||
      given->dstMemoryType == CU_MEMORYTYPE_ARRAY)
    return std::nullopt;
  auto memoryOf = [](CUmemorytype type, const void *host, CUdeviceptr device) {
    return type == CU_MEMORYTYPE_HOST ? const_cast<void *>(host) : pointerOf(device);
  };
  cudaMemcpy3DParms result{};
  result.srcPos = {given->srcXInBytes, given->srcY, given->srcZ};
  result.srcPtr = {memoryOf(given->srcMemoryType, given->srcHost, given->srcDevice),
                   given->srcPitch, given->srcPitch, given->srcHeight};
  result.dstPos = {given->dstXInBytes, given->dstY, given->dstZ};
  result.dstPtr = {memoryOf(given->dstMemoryType, given->dstHost, given->dstDevice),
                   given->dstPitch, given->dstPitch, given->dstHeight};
  result.extent = {given->WidthInBytes, given->Height, given->Depth};
  result.kind = cudaMemcpyDefault;
  return result;
}

/// Runs `call(parameters)` if there are parameters and `isServed`.
template <class Parameters, class Call>
CUresult with(const std::optional<Parameters> &parameters, bool isServed, Call call) {
  return started(
      [&] { return parameters && isServed ? call(&*parameters) : cudaErrorInvalidValue; });
}

} // namespace

} // namespace tally::preload_driver

using namespace tally::preload_driver;

extern "C" {

CUresult cuGraphAddKernelNode_v2(CUgraphNode *result, CUgraph graph, const CUgraphNode *after,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS_v2 *kernel) {
  return with(kernelOf(kernel), graph != nullptr, [&](const auto *parameters) {
    return runtime().cudaGraphAddKernelNode(result, graph, after, count, parameters);
  });
}
CUresult cuGraphAddMemcpyNode(CUgraphNode *result, CUgraph graph, const CUgraphNode *after,
                              size_t count, const CUDA_MEMCPY3D *copy, CUcontext context) {
  return with(copyOf(copy), graph && context, [&](const auto *parameters) {
    return runtime().cudaGraphAddMemcpyNode(result, graph, after, count, parameters);
  });
}
CUresult cuGraphAddMemsetNode(CUgraphNode *result, CUgraph graph, const CUgraphNode *after,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS *fill,
                              CUcontext context) {
  return with(fillOf(fill), graph && context, [&](const auto *parameters) {
    return runtime().cudaGraphAddMemsetNode(result, graph, after, count, parameters);
  });
}
CUresult cuGraphAddHostNode(CUgraphNode *result, CUgraph graph, const CUgraphNode *after,
                            size_t count, const CUDA_HOST_NODE_PARAMS *host) {
  return started([&] {
    if (!graph || !host)
      return cudaErrorInvalidValue;
    cudaHostNodeParams parameters{host->fn, host->userData};
    return runtime().cudaGraphAddHostNode(result, graph, after, count, &parameters);
  });
}

// Instantiated graphs -----------------------------------------------------------------------------

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec graph, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS_v2 *kernel) {
  return with(kernelOf(kernel), graph != nullptr, [&](const auto *parameters) {
    return runtime().cudaGraphExecKernelNodeSetParams(graph, node, parameters);
  });
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec graph, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context) {
  return with(fillOf(fill), graph && context, [&](const auto *parameters) {
    return runtime().cudaGraphExecMemsetNodeSetParams(graph, node, parameters);
  });
}
CUresult cuGraphExecUpdate_v2(CUgraphExec graph, CUgraph from, CUgraphExecUpdateResultInfo *info) {
  return started([&] {
    if (!graph || !from || !info)
      return cudaErrorInvalidValue;
    cudaGraphExecUpdateResultInfo known{};
    cudaError_t error = runtime().cudaGraphExecUpdate(graph, from, &known);
    *info = {static_cast<CUgraphExecUpdateResult>(known.result), known.errorNode,
             known.errorFromNode};
    return error;
  });
}

} // extern "C"
