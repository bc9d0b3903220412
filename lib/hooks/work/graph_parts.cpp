#include "work/graph_parts.h"

#include "state/api_calls.h"
#include "state/in_hook.h"

#include <cuda.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace tally::hooks {

namespace {

struct ReasonText {
  std::string_view name, text;
};

constexpr std::array<ReasonText, static_cast<std::size_t>(WholeReason::Count)> reasons = {{
    {"none", "for no reason"},
    {"not-seen", "it was instantiated before anything was best effort, or not through the hooks"},
    {"not-readable", "CUDA does not tell what one of its nodes does"},
    {"kernel", "a kernel of it cannot be launched by itself: its function, shape or arguments"},
    {"device-updatable", "kernels may change a node of it"},
    {"device-launch", "it was instantiated for launches by kernels"},
    {"event-node", "it records an event or waits for one"},
    {"semaphore-node", "it signals or waits for external semaphores"},
    {"memory-node", "it allocates or frees memory"},
    {"conditional-node", "it has a conditional node"},
    {"unknown-node", "it has a node of an unknown type"},
    {"after-high-priority", "it was last launched as high priority"},
    {"after-at-once", "it was last launched on another stream, while nobody else was there"},
    {"several-devices", "the process uses several devices"},
    {"other-context", "it was made in another context than the first"},
    {"update", "it was updated in a way that could not be followed"},
}};

WholeReason refusalOf(cudaGraphNodeType type) {
  switch (type) {
  case cudaGraphNodeTypeWaitEvent:
  case cudaGraphNodeTypeEventRecord:
    return WholeReason::EventNode;
  case cudaGraphNodeTypeExtSemaphoreSignal:
  case cudaGraphNodeTypeExtSemaphoreWait:
    return WholeReason::SemaphoreNode;
  case cudaGraphNodeTypeMemAlloc:
  case cudaGraphNodeTypeMemFree:
    return WholeReason::MemoryNode;
  case cudaGraphNodeTypeConditional:
    return WholeReason::ConditionalNode;
  default:
    return WholeReason::UnknownNode;
  }
}

/// Whether a launch has to set the attribute: default values are left out. The priority is left out
/// too: it could only change the order of best-effort work, which the queue decides.
bool isSet(const cudaLaunchAttribute &attribute) {
  const cudaLaunchAttributeValue &value = attribute.val;
  switch (attribute.id) {
  case cudaLaunchAttributeCooperative:
    return value.cooperative != 0;
  case cudaLaunchAttributeClusterDimension:
    return value.clusterDim.x * value.clusterDim.y * value.clusterDim.z > 1;
  case cudaLaunchAttributeAccessPolicyWindow:
    return value.accessPolicyWindow.num_bytes != 0;
  case cudaLaunchAttributeClusterSchedulingPolicyPreference:
    return value.clusterSchedulingPolicyPreference != cudaClusterSchedulingPolicyDefault;
  case cudaLaunchAttributeMemSyncDomain:
    return value.memSyncDomain != cudaLaunchMemSyncDomainDefault;
  case carveoutLaunchAttribute:
    return carveoutOf(value) != cudaSharedmemCarveoutDefault;
  case cudaLaunchAttributeDeviceUpdatableKernelNode:
    return value.deviceUpdatableKernelNode.deviceUpdatable != 0;
  default:
    return false;
  }
}

/// Reads a list by CUDA's convention: first its length, then the list. Returns false where CUDA
/// refuses.
template <class Entry, class Ask> bool listOf(std::vector<Entry> &list, Ask ask) {
  std::size_t count = 0;
  if (ask(nullptr, &count) != cudaSuccess)
    return false;
  list.resize(count);
  return count == 0 || ask(list.data(), &count) == cudaSuccess;
}

} // namespace

std::string_view nameOf(WholeReason reason) {
  return reasons[static_cast<std::size_t>(reason)].name;
}
std::string_view textOf(WholeReason reason) {
  return reasons[static_cast<std::size_t>(reason)].text;
}

std::shared_ptr<const SmallGraph> SmallGraph::create(const CudaApi &api, const Add &add) {
  std::shared_ptr<SmallGraph> made(new SmallGraph(api));
  cudaGraphNode_t node = nullptr;
  if (api.cudaGraphCreate(&made->graph, 0) != cudaSuccess ||
      add(made->graph, &node) != cudaSuccess ||
      api.cudaGraphInstantiateWithFlags(&made->exec, made->graph, 0) != cudaSuccess)
    return nullptr;
  return made;
}

/// CUDA keeps the executable graph until its launches are over.
SmallGraph::~SmallGraph() {
  InHook inside;
  if (exec)
    api.cudaGraphExecDestroy(exec);
  if (graph)
    api.cudaGraphDestroy(graph);
}

void GraphSnapshot::addTo(std::unordered_map<cudaGraphNode_t, SnapshotNode *> &index) {
  for (SnapshotNode &each : nodes) {
    if (each.handle)
      index[each.handle] = &each;
    if (each.child)
      each.child->addTo(index);
  }
}

bool GraphSnapshot::takeHandles(const GraphSnapshot &older) {
  if (nodes.size() != older.nodes.size())
    return false;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const SnapshotNode &old = older.nodes[i];
    if (nodes[i].type != old.type || nodes[i].after != old.after ||
        (nodes[i].child && !nodes[i].child->takeHandles(*old.child)))
      return false;
    nodes[i].handle = old.handle;
  }
  return true;
}

void GraphSnapshot::forgetHandles() {
  for (SnapshotNode &each : nodes) {
    each.handle = nullptr;
    if (each.child)
      each.child->forgetHandles();
  }
}

bool GraphSnapshot::hasDisabled() const {
  return std::any_of(nodes.begin(), nodes.end(), [](const SnapshotNode &each) {
    return !each.isEnabled || (each.child && each.child->hasDisabled());
  });
}

void GraphSnapshot::addParts(std::vector<GraphPart> &parts) const {
  std::vector<std::size_t> missing(nodes.size()), order;
  std::vector<std::vector<std::size_t>> followers(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    missing[i] = nodes[i].after.size();
    for (std::size_t before : nodes[i].after)
      followers[before].push_back(i);
    if (missing[i] == 0)
      order.push_back(i);
  }
  // All ready nodes come before the nodes that they make ready. So kernels of parallel branches are
  // adjacent, and so are nodes that end a batch (copies and the like).
  for (std::size_t next = 0; next < order.size(); ++next) {
    const SnapshotNode &node = nodes[order[next]];
    if (node.child)
      node.child->addParts(parts);
    else if (node.isEnabled && (node.part.kernel || node.part.foreign || node.part.other))
      parts.push_back(node.part);
    for (std::size_t each : followers[order[next]])
      if (--missing[each] == 0)
        order.push_back(each);
  }
}

cudaKernelNodeParams runtimeParameters(const CUDA_KERNEL_NODE_PARAMS_v2 &given) {
  cudaKernelNodeParams result{};
  result.func = given.func ? static_cast<void *>(given.func) : given.kern;
  result.gridDim = dim3(given.gridDimX, given.gridDimY, given.gridDimZ);
  result.blockDim = dim3(given.blockDimX, given.blockDimY, given.blockDimZ);
  result.sharedMemBytes = given.sharedMemBytes;
  result.kernelParams = given.kernelParams;
  result.extra = given.extra;
  return result;
}

std::optional<CUDA_KERNEL_NODE_PARAMS_v2> driverParameters(const CudaApi &api,
                                                           cudaGraphNode_t node) {
  using Get = CUresult (*)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v2 *);
  auto get = reinterpret_cast<Get>(driverEntry(api, "cuGraphKernelNodeGetParams"));
  CUDA_KERNEL_NODE_PARAMS_v2 found{};
  return get && get(node, &found) == CUDA_SUCCESS ? std::optional(found) : std::nullopt;
}

bool GraphReader::refuse(WholeReason reason) {
  why = reason;
  return false;
}

std::unique_ptr<GraphSnapshot> GraphReader::read(cudaGraph_t graph) {
  std::vector<cudaGraphNode_t> handles;
  bool known = listOf(handles, [&](cudaGraphNode_t *list, std::size_t *count) {
    return api.cudaGraphGetNodes(graph, list, count);
  });
  auto snapshot = std::make_unique<GraphSnapshot>();
  snapshot->nodes.resize(handles.size());
  for (std::size_t i = 0; known && i < handles.size(); ++i) {
    SnapshotNode &node = snapshot->nodes[i];
    node.handle = handles[i];
    known = api.cudaGraphNodeGetType(node.handle, &node.type) == cudaSuccess;
  }
  if (!known) {
    refuse(WholeReason::NotReadable);
    return nullptr;
  }
  if (!readEdges(*snapshot))
    return nullptr;
  for (SnapshotNode &each : snapshot->nodes)
    if (!readNode(each))
      return nullptr;
  return snapshot;
}

/// Data of an edge (programmatic launches) asks for less than a full dependency.
bool GraphReader::readEdges(GraphSnapshot &snapshot) {
  std::unordered_map<cudaGraphNode_t, std::size_t> indices;
  for (std::size_t i = 0; i < snapshot.nodes.size(); ++i)
    indices[snapshot.nodes[i].handle] = i;
  for (SnapshotNode &node : snapshot.nodes) {
    std::vector<cudaGraphNode_t> before;
    std::vector<cudaGraphEdgeData> edges;
    if (!listOf(before, [&](cudaGraphNode_t *list, std::size_t *count) {
          edges.resize(*count);
          return api.cudaGraphNodeGetDependencies(node.handle, list, list ? edges.data() : nullptr,
                                                  count);
        }))
      return refuse(WholeReason::NotReadable);
    for (cudaGraphNode_t each : before) {
      auto found = indices.find(each);
      if (found == indices.end())
        return refuse(WholeReason::NotReadable);
      node.after.push_back(found->second);
    }
  }
  return true;
}

bool GraphReader::readNode(SnapshotNode &node) {
  bool isCopied = node.type == cudaGraphNodeTypeMemcpy || node.type == cudaGraphNodeTypeMemset ||
                  node.type == cudaGraphNodeTypeHost;
  if (isCopied && api.copyGraphNode)
    return readOther(node, [&](cudaGraph_t graph, cudaGraphNode_t *made) {
      return api.copyGraphNode(graph, made, node.handle);
    });
  switch (node.type) {
  case cudaGraphNodeTypeKernel:
    return readKernel(node);
  case cudaGraphNodeTypeMemcpy: {
    cudaMemcpy3DParms copy{};
    if (api.cudaGraphMemcpyNodeGetParams(node.handle, &copy) != cudaSuccess)
      return refuse(WholeReason::NotReadable);
    return readOther(node, [&](cudaGraph_t graph, cudaGraphNode_t *made) {
      return api.cudaGraphAddMemcpyNode(made, graph, nullptr, 0, &copy);
    });
  }
  case cudaGraphNodeTypeMemset: {
    cudaMemsetParams fill{};
    if (api.cudaGraphMemsetNodeGetParams(node.handle, &fill) != cudaSuccess)
      return refuse(WholeReason::NotReadable);
    return readOther(node, [&](cudaGraph_t graph, cudaGraphNode_t *made) {
      return api.cudaGraphAddMemsetNode(made, graph, nullptr, 0, &fill);
    });
  }
  case cudaGraphNodeTypeHost: {
    cudaHostNodeParams host{};
    if (api.cudaGraphHostNodeGetParams(node.handle, &host) != cudaSuccess)
      return refuse(WholeReason::NotReadable);
    return readOther(node, [&](cudaGraph_t graph, cudaGraphNode_t *made) {
      return api.cudaGraphAddHostNode(made, graph, nullptr, 0, &host);
    });
  }
  case cudaGraphNodeTypeGraph:
    return readChild(node);
  case cudaGraphNodeTypeEmpty:
    return true;
  default:
    return refuse(refusalOf(node.type));
  }
}

bool GraphReader::readOther(SnapshotNode &node, const SmallGraph::Add &add) {
  node.part.other = SmallGraph::create(api, add);
  return node.part.other || refuse(WholeReason::NotReadable);
}

bool GraphReader::readChild(SnapshotNode &node) {
  cudaGraph_t inner = nullptr;
  if (api.cudaGraphChildGraphNodeGetGraph(node.handle, &inner) != cudaSuccess)
    return refuse(WholeReason::NotReadable);
  node.child = read(inner);
  return node.child != nullptr;
}

bool GraphReader::readKernel(SnapshotNode &node) {
  if (!readAttributes(node))
    return false;
  cudaKernelNodeParams parameters{};
  // CUDA returns an error for a kernel that the CUDA runtime of this module does not know.
  if (api.cudaGraphKernelNodeGetParams(node.handle, &parameters) == cudaSuccess)
    node.part.kernel = kernelPart(parameters, node.attributes);
  return node.part.kernel || readByDriver(node) || refuse(WholeReason::Kernel);
}

bool GraphReader::readByDriver(SnapshotNode &node) {
  using Add = CUresult (*)(CUgraphNode *, CUgraph, const CUgraphNode *, std::size_t,
                           const CUDA_KERNEL_NODE_PARAMS_v2 *);
  auto add = reinterpret_cast<Add>(driverEntry(api, "cuGraphAddKernelNode"));
  auto found = driverParameters(api, node.handle);
  if (!add || !found)
    return false;
  if ((node.part.foreign = foreignPart(*found, node)))
    return true;
  node.part.other = SmallGraph::create(api, [&](cudaGraph_t graph, cudaGraphNode_t *made) {
    if (add(made, graph, nullptr, 0, &*found) != CUDA_SUCCESS)
      return cudaErrorInvalidDeviceFunction;
    return api.cudaGraphKernelNodeCopyAttributes(*made, node.handle);
  });
  cudaKernelNodeParams known = runtimeParameters(*found);
  node.part.otherKernel = reinterpret_cast<std::uint64_t>(known.func);
  node.part.otherShape = shapeOf(known.gridDim, known.blockDim, known.sharedMemBytes);
  return node.part.other != nullptr;
}

bool GraphReader::setByDriver(SnapshotNode &node, const CUDA_KERNEL_NODE_PARAMS_v2 &parameters,
                              bool mayHaveVariants) {
  node.part = {};
  if (mayHaveVariants)
    node.part.kernel = kernelPart(runtimeParameters(parameters), node.attributes);
  if (!node.part.kernel)
    node.part.foreign = foreignPart(parameters, node);
  return node.part.kernel || node.part.foreign;
}

/// Returns nullptr where the kernel cannot be launched alone. Also in a program that is linked with
/// the hooks: there the context of the kernels is not known.
std::shared_ptr<const ForeignLaunch>
GraphReader::foreignPart(const CUDA_KERNEL_NODE_PARAMS_v2 &found, const SnapshotNode &node) {
  if (!api.driver || !api.copyGraphNode)
    return nullptr;
  CUlaunchConfig config{};
  config.gridDimX = found.gridDimX;
  config.gridDimY = found.gridDimY;
  config.gridDimZ = found.gridDimZ;
  config.blockDimX = found.blockDimX;
  config.blockDimY = found.blockDimY;
  config.blockDimZ = found.blockDimZ;
  config.sharedMemBytes = found.sharedMemBytes;
  std::vector<CUlaunchAttribute> attributes(node.attributes.size());
  static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute));
  if (!attributes.empty())
    std::memcpy(attributes.data(), node.attributes.data(),
                attributes.size() * sizeof(CUlaunchAttribute));
  config.attrs = attributes.data();
  config.numAttrs = static_cast<unsigned>(attributes.size());
  auto function = static_cast<CUfunction>(runtimeParameters(found).func); // a CUkernel works too
  return takeLaunch(api.driver(), foreignKernels, config, function, found.kernelParams, found.extra)
      .launch;
}

bool GraphReader::readAttributes(SnapshotNode &node) {
  for (cudaLaunchAttributeID id :
       {cudaLaunchAttributeCooperative, cudaLaunchAttributeClusterDimension,
        cudaLaunchAttributeAccessPolicyWindow, cudaLaunchAttributeClusterSchedulingPolicyPreference,
        cudaLaunchAttributeMemSyncDomain, carveoutLaunchAttribute,
        cudaLaunchAttributeDeviceUpdatableKernelNode}) {
    cudaLaunchAttribute attribute{};
    attribute.id = id;
    bool decides =
        id == cudaLaunchAttributeCooperative || id == cudaLaunchAttributeClusterDimension;
    cudaError_t status = api.cudaGraphKernelNodeGetAttribute(node.handle, id, &attribute.val);
    if (status != cudaSuccess && decides)
      return refuse(WholeReason::NotReadable);
    // An attribute that the driver does not know cannot have been set.
    if (status != cudaSuccess || !isSet(attribute))
      continue;
    if (id == cudaLaunchAttributeDeviceUpdatableKernelNode)
      return refuse(WholeReason::DeviceUpdatable);
    node.attributes.push_back(attribute);
  }
  return true;
}

std::shared_ptr<const KernelLaunch>
GraphReader::kernelPart(const cudaKernelNodeParams &parameters,
                        const std::vector<cudaLaunchAttribute> &attributes) {
  if (parameters.extra)
    return nullptr; // arguments in a buffer, which only the driver understands
  LaunchRequest request;
  request.function = parameters.func;
  request.grid = parameters.gridDim;
  request.block = parameters.blockDim;
  request.sharedBytes = parameters.sharedMemBytes;
  request.attributes = attributes;
  request.arguments = parameters.kernelParams;
  return makeLaunch(registry.findHandle(api, request.function), device, request);
}

} // namespace tally::hooks
