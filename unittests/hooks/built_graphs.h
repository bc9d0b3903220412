// Graphs over the fake CUDA runtime.
#ifndef TALLY_UNITTESTS_HOOKS_BUILT_GRAPHS_H
#define TALLY_UNITTESTS_HOOKS_BUILT_GRAPHS_H

#include "fake_graphs.h"
#include "harness.h"

#include <string>

namespace tally::test {

/// Builds and launches graphs through the hooks, as the wrappers do.
struct Graphs {
  explicit Graphs(Harness &harness) : h(harness), api(harness.cuda.api()) {
    api.cudaGraphCreate(&graph, 0);
  }
  ~Graphs() { api.cudaGraphDestroy(graph); }

  cudaGraphNode_t kernel(std::uint64_t *cell, std::uint32_t value, std::uint32_t blocks = 1,
                         const void *symbol = &Harness::mixSymbol) {
    cudaGraphNode_t node = nullptr;
    withParameters(cell, value, blocks, symbol, [&](const cudaKernelNodeParams &parameters) {
      api.cudaGraphAddKernelNode(&node, graph, &last, last ? 1 : 0, &parameters);
    });
    return last = node;
  }
  cudaGraphNode_t fill(void *to, unsigned value, std::size_t bytes) {
    cudaMemsetParams parameters{};
    parameters.dst = to;
    parameters.value = value;
    parameters.elementSize = 1;
    parameters.width = bytes;
    parameters.height = 1;
    cudaGraphNode_t node = nullptr;
    api.cudaGraphAddMemsetNode(&node, graph, &last, last ? 1 : 0, &parameters);
    return last = node;
  }
  template <class Take>
  static void withParameters(std::uint64_t *cell, std::uint32_t value, std::uint32_t blocks,
                             const void *symbol, Take take) {
    void *arguments[] = {&cell, &value};
    cudaKernelNodeParams parameters{};
    parameters.func = const_cast<void *>(symbol);
    parameters.gridDim = dim3(blocks);
    parameters.blockDim = dim3(32);
    parameters.kernelParams = arguments;
    take(parameters);
  }
  cudaGraphExec_t instantiate(unsigned long long flags = 0) {
    cudaGraphExec_t exec = nullptr;
    auto call = [&] { return api.cudaGraphInstantiate(&exec, graph, flags); };
    CHECK(h.hooks.graphs().instantiate(api, &exec, graph, flags, call) == cudaSuccess);
    return exec;
  }
  void setKernel(cudaGraphExec_t exec, cudaGraphNode_t node, std::uint64_t *cell,
                 std::uint32_t value, std::uint32_t blocks = 1) {
    withParameters(
        cell, value, blocks, &Harness::mixSymbol, [&](const cudaKernelNodeParams &given) {
          auto call = [&] { return api.cudaGraphExecKernelNodeSetParams(exec, node, &given); };
          CHECK(h.hooks.graphs().change(exec, call, [&](hooks::ExecutableGraph &graph) {
            graph.setKernel(node, given);
          }) == cudaSuccess);
        });
  }
  cudaError_t update(cudaGraphExec_t exec, cudaGraph_t by) {
    return h.hooks.graphs().update(exec, by,
                                   [&] { return api.cudaGraphExecUpdate(exec, by, nullptr); });
  }
  cudaError_t launch(cudaGraphExec_t exec, cudaStream_t stream) {
    return h.hooks.launchGraph(api, exec, stream);
  }
  std::string statistics() { return h.hooks.graphs().statistics(); }

  Harness &h;
  const hooks::CudaApi &api;
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t last = nullptr;
};

} // namespace tally::test

#endif
