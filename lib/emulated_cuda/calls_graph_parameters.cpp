// Queries of the parameters that a graph's nodes were given.
#include "calls.h"
#include "graph.h"

namespace tally::hooks::emulated {

namespace {

/// The node's details, if they are of this type; null otherwise.
template <class Details> const Details *detailsOf(cudaGraphNode_t node) {
  const auto *found = reinterpret_cast<const GraphNode *>(node);
  return found && found->work.details ? std::get_if<Details>(found->work.details.get()) : nullptr;
}

/// For parameters that are kept unchanged.
template <class Parameters> cudaError_t given(cudaGraphNode_t node, Parameters *result) {
  const auto *kept = detailsOf<Parameters>(node);
  if (!kept || !result)
    return remember(cudaErrorInvalidValue);
  *result = *kept;
  return cudaSuccess;
}

dim3 dimOf(const Dim3 &extents) { return {extents.x, extents.y, extents.z}; }

} // namespace

cudaError_t Calls::cudaGraphKernelNodeGetParams(cudaGraphNode_t node,
                                                cudaKernelNodeParams *result) {
  const auto *kernel = detailsOf<KernelDetails>(node);
  if (!kernel || !result)
    return remember(cudaErrorInvalidValue);
  *result = {};
  result->func = const_cast<void *>(kernel->function);
  result->gridDim = dimOf(kernel->shape.grid);
  result->blockDim = dimOf(kernel->shape.block);
  result->sharedMemBytes = kernel->shape.dynamicSharedBytes;
  // The node's own pointers, for the caller to read.
  result->kernelParams = const_cast<void **>(kernel->pointers.data());
  return cudaSuccess;
}

cudaError_t Calls::cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node,
                                                   cudaLaunchAttributeID attribute,
                                                   cudaLaunchAttributeValue *value) {
  const auto *kernel = detailsOf<KernelDetails>(node);
  if (!kernel || !value)
    return remember(cudaErrorInvalidValue);
  *value = {};
  const Dim3 &cluster = kernel->shape.cluster;
  switch (attribute) {
  case cudaLaunchAttributeCooperative:
    value->cooperative = kernel->isCooperative;
    return cudaSuccess;
  case cudaLaunchAttributeClusterDimension:
    value->clusterDim.x = cluster.x;
    value->clusterDim.y = cluster.y;
    value->clusterDim.z = cluster.z;
    return cudaSuccess;
  case carveoutLaunchAttribute:
    carveoutOf(*value) = cudaSharedmemCarveoutDefault;
    return cudaSuccess;
  // These attributes have no effect here, so they read as if never set.
  case cudaLaunchAttributeAccessPolicyWindow:
  case cudaLaunchAttributeClusterSchedulingPolicyPreference:
  case cudaLaunchAttributePriority:
  case cudaLaunchAttributeMemSyncDomainMap:
  case cudaLaunchAttributeMemSyncDomain:
  case cudaLaunchAttributeDeviceUpdatableKernelNode:
    return cudaSuccess;
  default:
    return remember(cudaErrorInvalidValue);
  }
}

cudaError_t Calls::cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms *result) {
  return given(node, result);
}

cudaError_t Calls::cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams *result) {
  return given(node, result);
}

cudaError_t Calls::cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams *result) {
  return given(node, result);
}

} // namespace tally::hooks::emulated
