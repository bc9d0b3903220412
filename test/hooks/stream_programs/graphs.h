// The handles that a running program has, and its graphs.
#ifndef TALLY_TEST_HOOKS_STREAM_PROGRAMS_GRAPHS_H
#define TALLY_TEST_HOOKS_STREAM_PROGRAMS_GRAPHS_H

#include "kernels.h"
#include "order.h"

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

namespace tally::programs {

struct Buffer {
  std::uint32_t *words = nullptr;
  std::uint32_t size = 0;
  Memory memory = Memory::Device;
  std::vector<std::uint32_t> pageable;
};

/// A host function changes each word of a buffer.
struct HostCall {
  std::uint32_t *words = nullptr;
  std::uint32_t count = 0, value = 0;
  static void run(void *call);
};

/// A thread's second stream in a capture.
struct Side {
  cudaStream_t stream = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
};

struct Handles {
  std::vector<cudaStream_t> streams;
  std::vector<bool> streamsLeft;
  std::vector<cudaEvent_t> events;
  std::vector<Buffer> buffers{1};
  std::vector<Side> sides;           ///< by thread
  std::uint32_t *meetings = nullptr; ///< KernelCall::meeting, by buffer
  std::size_t graphs = 0;

  /// Allocates the objects that the operation names.
  void need(const Operation &operation);
  cudaStream_t streamOf(int stream) const;
  KernelCall kernelCall(const Operation &operation) const;
  /// Frees the objects that the program has left.
  void release();
};

/// A graph from the program's description, made by capture or node by node.
class Graph {
public:
  Graph(const Handles &handles, const GraphState &state);
  ~Graph() { destroy(); }

  // Each returns the first error of its calls.

  cudaError_t build();
  cudaError_t launch(cudaStream_t stream) { return cudaGraphLaunch(executable, stream); }
  /// Sets another value in the node's work.
  cudaError_t update(int node, std::uint32_t value);
  cudaError_t destroy();

private:
  cudaError_t capture(cudaGraph_t &made);
  cudaError_t put(std::size_t at, cudaStream_t stream);
  cudaError_t addNodes();
  cudaError_t addNode(std::size_t at, const std::vector<cudaGraphNode_t> &after);
  const Buffer &bufferOf(int number) const {
    return handles.buffers[static_cast<std::size_t>(number)];
  }
  std::size_t copyBytes(const Operation &operation) const;
  cudaMemsetParams fillOf(const Operation &operation) const;

  const Handles &handles;
  std::vector<Operation> body;
  std::vector<HostCall> hostCalls; ///< calls of host nodes, by position
  int stream, owner;
  bool byNodes;
  std::vector<cudaGraphNode_t> nodes;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
};

} // namespace tally::programs

#endif
