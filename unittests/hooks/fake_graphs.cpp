#include "fake_graphs.h"

#include "fake_cuda.h"

#include <cuda.h>

#include <algorithm>
#include <cstring>

namespace tally::test {

namespace {

FakeGraph &execOf(cudaGraphExec_t handle) { return *reinterpret_cast<FakeGraph *>(handle); }
cudaGraphNode_t handleOf(FakeNode *node) { return reinterpret_cast<cudaGraphNode_t>(node); }

cudaError_t listed(const std::vector<FakeNode *> &nodes, cudaGraphNode_t *list,
                   std::size_t *count) {
  if (list)
    std::transform(nodes.begin(), nodes.end(), list, handleOf);
  *count = nodes.size();
  return cudaSuccess;
}

cudaError_t instantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
  *exec = reinterpret_cast<cudaGraphExec_t>(FakeGraph::of(graph).copy().release());
  return cudaSuccess;
}

void run(FakeCuda &cuda, const FakeNode &node, cudaStream_t stream) {
  if (node.type == cudaGraphNodeTypeKernel)
    cuda.launch(node.kernel.func, node.kernel.gridDim, node.kernel.blockDim,
                const_cast<void **>(node.pointers.data()), stream, false);
  else if (node.type == cudaGraphNodeTypeMemset)
    cuda.put(stream, [fill = node.fill] {
      std::memset(fill.dst, static_cast<int>(fill.value), fill.width);
    });
  else if (node.type == cudaGraphNodeTypeHost)
    cuda.put(stream, [host = node.host] { host.fn(host.userData); });
}

void setBuilding(hooks::CudaApi &table) {
  table.cudaGraphCreate = [](cudaGraph_t *graph, unsigned) {
    *graph = reinterpret_cast<cudaGraph_t>(new FakeGraph);
    return cudaSuccess;
  };
  table.cudaGraphDestroy = [](cudaGraph_t graph) {
    delete &FakeGraph::of(graph);
    return cudaSuccess;
  };
  table.cudaGraphClone = [](cudaGraph_t *made, cudaGraph_t graph) {
    *made = reinterpret_cast<cudaGraph_t>(FakeGraph::of(graph).copy().release());
    return cudaSuccess;
  };
  table.cudaGraphAddKernelNode = [](cudaGraphNode_t *node, cudaGraph_t graph,
                                    const cudaGraphNode_t *after, std::size_t count,
                                    const cudaKernelNodeParams *parameters) {
    *node = FakeGraph::of(graph).add(cudaGraphNodeTypeKernel, after, count);
    FakeNode::of(*node).setKernel(*parameters);
    return cudaSuccess;
  };
  table.cudaGraphAddMemsetNode = [](cudaGraphNode_t *node, cudaGraph_t graph,
                                    const cudaGraphNode_t *after, std::size_t count,
                                    const cudaMemsetParams *parameters) {
    *node = FakeGraph::of(graph).add(cudaGraphNodeTypeMemset, after, count);
    FakeNode::of(*node).fill = *parameters;
    return cudaSuccess;
  };
  table.cudaGraphAddHostNode = [](cudaGraphNode_t *node, cudaGraph_t graph,
                                  const cudaGraphNode_t *after, std::size_t count,
                                  const cudaHostNodeParams *parameters) {
    *node = FakeGraph::of(graph).add(cudaGraphNodeTypeHost, after, count);
    FakeNode::of(*node).host = *parameters;
    return cudaSuccess;
  };
}

void setQuestions(hooks::CudaApi &table) {
  table.cudaGraphGetNodes = [](cudaGraph_t graph, cudaGraphNode_t *list, std::size_t *count) {
    std::vector<FakeNode *> nodes;
    for (const auto &each : FakeGraph::of(graph).nodes)
      nodes.push_back(each.get());
    return listed(nodes, list, count);
  };
  table.cudaGraphNodeGetType = [](cudaGraphNode_t node, cudaGraphNodeType *type) {
    *type = FakeNode::of(node).type;
    return cudaSuccess;
  };
  table.cudaGraphNodeGetDependencies = [](cudaGraphNode_t node, cudaGraphNode_t *list,
                                          cudaGraphEdgeData *, std::size_t *count) {
    return listed(FakeNode::of(node).after, list, count);
  };
  table.cudaGraphKernelNodeGetParams = [](cudaGraphNode_t node, cudaKernelNodeParams *parameters) {
    *parameters = FakeNode::of(node).kernel;
    return FakeNode::of(node).isOfLibrary ? cudaErrorInvalidDeviceFunction : cudaSuccess;
  };
  table.cudaGraphKernelNodeGetAttribute = [](cudaGraphNode_t node, cudaLaunchAttributeID id,
                                             cudaLaunchAttributeValue *value) {
    *value = FakeNode::of(node).attributes[id];
    if (id == cudaLaunchAttributePreferredSharedMemoryCarveout)
      value->sharedMemCarveout = static_cast<unsigned>(cudaSharedmemCarveoutDefault);
    return cudaSuccess;
  };
  table.cudaGraphKernelNodeCopyAttributes = [](cudaGraphNode_t to, cudaGraphNode_t from) {
    FakeNode::of(to).attributes = FakeNode::of(from).attributes;
    return cudaSuccess;
  };
  table.cudaGraphMemsetNodeGetParams = [](cudaGraphNode_t node, cudaMemsetParams *parameters) {
    *parameters = FakeNode::of(node).fill;
    return cudaSuccess;
  };
  table.cudaGraphHostNodeGetParams = [](cudaGraphNode_t node, cudaHostNodeParams *parameters) {
    *parameters = FakeNode::of(node).host;
    return cudaSuccess;
  };
}

CUresult getByDriver(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v2 *parameters) {
  const cudaKernelNodeParams &kernel = FakeNode::of(handle).kernel;
  parameters->func = static_cast<CUfunction>(kernel.func);
  parameters->gridDimX = kernel.gridDim.x;
  parameters->blockDimX = kernel.blockDim.x;
  parameters->kernelParams = kernel.kernelParams;
  return CUDA_SUCCESS;
}

CUresult addByDriver(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, std::size_t count,
                     const CUDA_KERNEL_NODE_PARAMS_v2 *parameters) {
  cudaKernelNodeParams kernel{};
  kernel.func = parameters->func;
  kernel.gridDim = dim3(parameters->gridDimX);
  kernel.blockDim = dim3(parameters->blockDimX);
  kernel.kernelParams = parameters->kernelParams;
  *node = FakeGraph::of(graph).add(cudaGraphNodeTypeKernel, after, count);
  FakeNode::of(*node).setKernel(kernel);
  return CUDA_SUCCESS;
}

void setExecutable(hooks::CudaApi &table) {
  table.cudaGraphInstantiate = instantiate;
  table.cudaGraphInstantiateWithFlags = instantiate;
  table.cudaGraphExecDestroy = [](cudaGraphExec_t exec) {
    FakeCuda::current().note("destroyed");
    delete &execOf(exec);
    return cudaSuccess;
  };
  table.cudaGraphExecUpdate = [](cudaGraphExec_t exec, cudaGraph_t graph,
                                 cudaGraphExecUpdateResultInfo *) {
    FakeGraph &target = execOf(exec);
    std::unique_ptr<FakeGraph> source = FakeGraph::of(graph).copy();
    if (source->nodes.size() != target.nodes.size())
      return cudaErrorGraphExecUpdateFailure;
    for (std::size_t i = 0; i < source->nodes.size(); ++i)
      source->nodes[i]->original = target.nodes[i]->original;
    target.nodes = std::move(source->nodes);
    return cudaSuccess;
  };
  table.cudaGraphExecKernelNodeSetParams = [](cudaGraphExec_t exec, cudaGraphNode_t node,
                                              const cudaKernelNodeParams *parameters) {
    for (auto &each : execOf(exec).nodes)
      if (each->original == &FakeNode::of(node)) {
        each->setKernel(*parameters);
        return cudaSuccess;
      }
    return cudaErrorInvalidValue;
  };
  table.cudaGraphLaunch = [](cudaGraphExec_t exec, cudaStream_t stream) {
    if (!exec)
      return cudaErrorInvalidValue;
    FakeCuda &cuda = FakeCuda::current();
    const FakeGraph &graph = execOf(exec);
    for (const auto &each : graph.nodes)
      run(cuda, *each, stream);
    cuda.put(stream,
             [&cuda, count = graph.nodes.size()] { cuda.note("graph " + std::to_string(count)); });
    return cudaSuccess;
  };
}

} // namespace

void FakeNode::setKernel(const cudaKernelNodeParams &given) {
  kernel = given;
  if (!given.kernelParams)
    return;
  arguments.clear();
  pointers.clear();
  std::vector<std::size_t> sizes = FakeCuda::current().parameterSizes(given.func);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    auto bytes = static_cast<const std::byte *>(given.kernelParams[i]);
    arguments.emplace_back(bytes, bytes + sizes[i]);
  }
  for (auto &each : arguments)
    pointers.push_back(each.data());
  kernel.kernelParams = pointers.data();
}

cudaGraphNode_t FakeGraph::add(cudaGraphNodeType type, const cudaGraphNode_t *after,
                               std::size_t count) {
  FakeNode &made = *nodes.emplace_back(std::make_unique<FakeNode>());
  made.type = type;
  for (std::size_t i = 0; i < count; ++i)
    made.after.push_back(&FakeNode::of(after[i]));
  return handleOf(&made);
}

std::unique_ptr<FakeGraph> FakeGraph::copy() const {
  auto made = std::make_unique<FakeGraph>();
  std::map<const FakeNode *, FakeNode *> copies;
  for (const auto &each : nodes) {
    FakeNode &node = *made->nodes.emplace_back(std::make_unique<FakeNode>(*each));
    node.original = each.get();
    if (node.type == cudaGraphNodeTypeKernel)
      node.setKernel(each->kernel);
    for (FakeNode *&before : node.after)
      before = copies.at(before);
    copies[each.get()] = &node;
  }
  return made;
}

void *driverGraphEntry(const char *name) {
  if (std::strcmp(name, "cuGraphKernelNodeGetParams") == 0)
    return reinterpret_cast<void *>(getByDriver);
  if (std::strcmp(name, "cuGraphAddKernelNode") == 0)
    return reinterpret_cast<void *>(addByDriver);
  return nullptr;
}

void setGraphs(hooks::CudaApi &table) {
  setBuilding(table);
  setQuestions(table);
  setExecutable(table);
}

} // namespace tally::test
