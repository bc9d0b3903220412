#include "work/kernel_use.h"

#include "state/api_calls.h"
#include "state/own_thread.h"
#include "work/graph_parts.h"
#include "work/kernel_launch.h"

#include <algorithm>
#include <set>
#include <thread>

namespace tally::hooks {

namespace {

/// Limit on remembered kernels and shapes of a graph; updates add more.
constexpr std::size_t maxKernels = 1024;

bool isSet(const CudaApi &api, cudaGraphNode_t node, cudaLaunchAttributeID id) {
  cudaLaunchAttributeValue value{};
  if (api.cudaGraphKernelNodeGetAttribute(node, id, &value) != cudaSuccess)
    return false; // an attribute that the driver does not know cannot have been set
  return id == cudaLaunchAttributeCooperative
             ? value.cooperative != 0
             : value.deviceUpdatableKernelNode.deviceUpdatable != 0;
}

bool isSame(const KernelUse &a, const KernelUse &b) {
  return a.function.registers == b.function.registers &&
         a.function.staticSharedBytes == b.function.staticSharedBytes &&
         runtime::LoadedKernel::keyOf(a.shape) == runtime::LoadedKernel::keyOf(b.shape) &&
         a.together == b.together;
}

std::optional<KernelUse> madeOf(const std::optional<runtime::FunctionAttributes> &function,
                                const cudaKernelNodeParams &parameters, bool cooperative) {
  if (!function)
    return std::nullopt;
  return KernelUse{*function,
                   shapeOf(parameters.gridDim, parameters.blockDim, parameters.sharedMemBytes),
                   cooperative};
}

} // namespace

std::optional<runtime::FunctionAttributes> attributesOf(KernelRecord &kernel, int device) {
  std::unique_lock lock(kernel.mutex);
  if (kernel.taken)
    return kernel.taken;
  cudaFuncAttributes found{};
  cudaError_t status = cudaSuccess;
  std::thread([&] {
    beOnOwnThread(*kernel.api, device);
    status = kernel.api->cudaFuncGetAttributes(&found, kernel.function);
  }).join();
  if (status != cudaSuccess)
    return std::nullopt;
  kernel.taken = {static_cast<std::uint32_t>(found.numRegs),
                  static_cast<std::uint32_t>(found.sharedSizeBytes),
                  static_cast<std::uint32_t>(found.maxThreadsPerBlock)};
  return kernel.taken;
}

void GraphUse::addGraph(cudaGraph_t graph) {
  std::size_t count = 0;
  if (api.cudaGraphGetNodes(graph, nullptr, &count) != cudaSuccess) {
    known = false;
    return;
  }
  std::vector<cudaGraphNode_t> nodes(count);
  if (count != 0 && api.cudaGraphGetNodes(graph, nodes.data(), &count) != cudaSuccess)
    known = false;
  // In a chain each node comes behind another node, and the first behind none.
  std::set<cudaGraphNode_t> ahead;
  for (cudaGraphNode_t each : nodes) {
    branches |= !ahead.insert(nodeAhead(each)).second;
    addNode(each);
  }
}

/// The node that this node comes behind, or nullptr. A graph with a node behind several is no
/// chain.
cudaGraphNode_t GraphUse::nodeAhead(cudaGraphNode_t node) {
  std::size_t count = 0;
  if (api.cudaGraphNodeGetDependencies(node, nullptr, nullptr, &count) != cudaSuccess)
    known = false;
  if (count == 0)
    return nullptr;
  std::vector<cudaGraphNode_t> before(count);
  std::vector<cudaGraphEdgeData> edges(count);
  if (api.cudaGraphNodeGetDependencies(node, before.data(), edges.data(), &count) != cudaSuccess)
    known = false;
  branches |= count > 1;
  return before.front();
}

void GraphUse::addNode(cudaGraphNode_t node) {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  cudaMemcpy3DParms copy{};
  cudaGraph_t inner = nullptr;
  if (api.cudaGraphNodeGetType(node, &type) != cudaSuccess) {
    known = false;
    return;
  }
  switch (type) {
  case cudaGraphNodeTypeKernel:
    return addKernelNode(node);
  case cudaGraphNodeTypeMemcpy:
    ofDriver |=
        api.cudaGraphMemcpyNodeGetParams(node, &copy) != cudaSuccess || isOfDriver(copy.kind);
    return;
  case cudaGraphNodeTypeMemset:
    ofDriver = true;
    return;
  case cudaGraphNodeTypeGraph:
    if (api.cudaGraphChildGraphNodeGetGraph(node, &inner) != cudaSuccess)
      known = false;
    else
      addGraph(inner);
    return;
  case cudaGraphNodeTypeConditional:
    known = false;
    return;
  default:
    return;
  }
}

void GraphUse::addKernelNode(cudaGraphNode_t node) {
  // Kernels may change the node's grid.
  if (isSet(api, node, cudaLaunchAttributeDeviceUpdatableKernelNode))
    known = false;
  bool cooperative = isSet(api, node, cudaLaunchAttributeCooperative);
  together |= cooperative;
  cudaKernelNodeParams parameters{};
  // CUDA returns an error for a kernel that the CUDA runtime of this module does not know.
  if (api.cudaGraphKernelNodeGetParams(node, &parameters) == cudaSuccess)
    add(useOf(parameters, cooperative));
  else if (auto byDriver = driverParameters(api, node))
    add(useByDriver(*byDriver, cooperative));
  else
    known = false;
}

/// CUDA does not tell which nodes of an executable graph are cooperative: if any is, all are
/// assumed to be.
void GraphUse::setKernel(const cudaKernelNodeParams &parameters) {
  add(useOf(parameters, together));
}

std::optional<KernelUse> GraphUse::useOf(const cudaKernelNodeParams &parameters,
                                         bool cooperative) const {
  return madeOf(attributesOf(registry.findHandle(api, parameters.func), device), parameters,
                cooperative);
}

/// Like setKernel().
void GraphUse::setKernelByDriver(const CUDA_KERNEL_NODE_PARAMS_v2 &parameters) {
  add(useByDriver(parameters, together));
}

std::optional<KernelUse> GraphUse::useByDriver(const CUDA_KERNEL_NODE_PARAMS_v2 &parameters,
                                               bool cooperative) const {
  DriverLaunches driver;
  driver.attribute =
      reinterpret_cast<DriverLaunches::Attribute>(driverEntry(api, "cuFuncGetAttribute"));
  driver.functionOfKernel =
      reinterpret_cast<DriverLaunches::FunctionOfKernel>(driverEntry(api, "cuKernelGetFunction"));
  cudaKernelNodeParams known = runtimeParameters(parameters);
  return madeOf(attributesOf(driver, static_cast<CUfunction>(known.func)), known, cooperative);
}

void GraphUse::add(const std::optional<KernelUse> &use) {
  if (!use || kernels.size() >= maxKernels) {
    known = false;
    return;
  }
  auto same = std::find_if(kernels.begin(), kernels.end(),
                           [&](const Counted &each) { return isSame(each.use, *use); });
  if (same == kernels.end())
    kernels.push_back({*use});
  else
    ++same->count;
}

runtime::Headroom::Asked GraphUse::askedOf(const runtime::Headroom &headroom) const {
  runtime::Headroom::Asked all;
  for (const Counted &each : kernels) {
    auto one = headroom.ask(each.use.function, each.use.shape, each.use.together);
    // Headroom has an upper limit, so more kernels make no difference.
    std::uint32_t times = branches ? std::min(each.count, 64u) : 1;
    for (std::uint32_t i = 0; i < times; ++i)
      all.add(one, branches);
  }
  if (ofDriver)
    all.add(headroom.ofDriver(), branches);
  all.known &= known;
  return all;
}

} // namespace tally::hooks
