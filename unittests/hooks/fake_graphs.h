// The graphs of the fake CUDA runtime. A launch runs the nodes in the order in which they were
// added, and then notes "graph" and the number of nodes.
#ifndef TALLY_UNITTESTS_HOOKS_FAKE_GRAPHS_H
#define TALLY_UNITTESTS_HOOKS_FAKE_GRAPHS_H

#include "tables/cuda_api.h"

#include <map>
#include <memory>
#include <vector>

namespace tally::test {

struct FakeNode {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  std::vector<FakeNode *> after;
  cudaKernelNodeParams kernel{};
  std::vector<std::vector<std::byte>> arguments;
  std::vector<void *> pointers;
  std::map<int, cudaLaunchAttributeValue> attributes;
  cudaMemsetParams fill{};
  cudaHostNodeParams host{};
  bool isOfLibrary = false; ///< only the driver knows its kernel
  /// For a node of an executable graph: the original graph's node.
  const FakeNode *original = nullptr;

  /// Copies the arguments of `given`.
  void setKernel(const cudaKernelNodeParams &given);
  static FakeNode &of(cudaGraphNode_t handle) { return *reinterpret_cast<FakeNode *>(handle); }
};

struct FakeGraph {
  std::vector<std::unique_ptr<FakeNode>> nodes;

  /// Adds a node of any type, which does no work.
  cudaGraphNode_t add(cudaGraphNodeType type, const cudaGraphNode_t *after = nullptr,
                      std::size_t count = 0);
  std::unique_ptr<FakeGraph> copy() const;
  static FakeGraph &of(cudaGraph_t handle) { return *reinterpret_cast<FakeGraph *>(handle); }
};

void setGraphs(hooks::CudaApi &table);
/// Returns an entry point of the driver, or nullptr.
void *driverGraphEntry(const char *name);

} // namespace tally::test

#endif
