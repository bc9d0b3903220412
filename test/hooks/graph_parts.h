// Parts of the graph programs. Each kernel launch counts in its data, so the data shows a launch
// that ran twice, not at all or with wrong arguments.
#ifndef TALLY_TEST_HOOKS_GRAPH_PARTS_H
#define TALLY_TEST_HOOKS_GRAPH_PARTS_H

#include "check.h"

#include <cstring>
#include <vector>

namespace {

constexpr int count = 1 << 13;
constexpr int bytes = count * static_cast<int>(sizeof(int));

/// data[i] = data[i] * 3 + value for the whole array, block by block.
__global__ void step(int *data, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int r = 0; r < 20; ++r) // long enough for requests to come meanwhile
    __syncthreads();
  data[i] = data[i] * 3 + value;
}

__global__ void addInto(int *sum, const int *addend) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  sum[i] = sum[i] + addend[i];
}

__global__ void join(int *to, const int *left, const int *right) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = to[i] * 7 + left[i] * 5 + right[i];
}

constexpr dim3 grid(count / 64), block(64);

int stepped(int value, int addend) {
  return static_cast<int>(static_cast<unsigned>(value) * 3 + static_cast<unsigned>(addend));
}

/// Returns the value that all elements of an array have; a check fails where they differ.
int valueOf(const int *data) {
  std::vector<int> host(count);
  MUST(cudaMemcpy(host.data(), data, bytes, cudaMemcpyDeviceToHost));
  bool same = true;
  for (int each : host)
    same = same && each == host[0];
  EXPECT(same);
  return host[0];
}

/// An array on the device whose elements all have one value.
struct Array {
  explicit Array(int value = 0) {
    MUST(cudaMalloc(&data, bytes));
    set(value);
  }
  ~Array() { MUST(cudaFree(data)); }
  void set(int value) {
    std::vector<int> host(count, value);
    MUST(cudaMemcpy(data, host.data(), bytes, cudaMemcpyHostToDevice));
  }
  int value() const { return valueOf(data); }
  int *data = nullptr;
};

struct Stream {
  explicit Stream(int priority = 0) {
    MUST(cudaStreamCreateWithPriority(&handle, cudaStreamNonBlocking, priority));
  }
  ~Stream() { MUST(cudaStreamDestroy(handle)); }
  operator cudaStream_t() const { return handle; }
  void wait() const { MUST(cudaStreamSynchronize(handle)); }
  cudaStream_t handle = nullptr;
};

/// Captures the operations that `record` puts on the stream, as a graph.
template <class Record> cudaGraph_t captured(cudaStream_t stream, Record record) {
  cudaGraph_t graph = nullptr;
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  record();
  MUST(cudaStreamEndCapture(stream, &graph));
  return graph;
}

cudaGraphExec_t instantiated(cudaGraph_t graph) {
  cudaGraphExec_t executable = nullptr;
  MUST(cudaGraphInstantiate(&executable, graph, 0));
  return executable;
}

/// Parameters of a kernel's node, with the arguments that they point to.
template <class... Arguments> struct KernelNode {
  explicit KernelNode(void (*kernel)(Arguments...), Arguments... given) {
    int index = 0;
    (keep(index++, given), ...);
    parameters.func = reinterpret_cast<void *>(kernel);
    parameters.gridDim = grid;
    parameters.blockDim = block;
    parameters.kernelParams = pointers;
  }
  template <class Argument> void keep(int index, Argument argument) {
    std::memcpy(values[index], &argument, sizeof argument);
    pointers[index] = values[index];
  }
  /// Overwrites the arguments after the call that took the parameters: CUDA must have copied them.
  void spoil() { std::memset(values, 0x7f, sizeof values); }
  alignas(8) char values[sizeof...(Arguments)][8];
  void *pointers[sizeof...(Arguments)];
  cudaKernelNodeParams parameters{};
};

cudaGraphNode_t addStep(cudaGraph_t graph, int *data, int value,
                        std::vector<cudaGraphNode_t> after = {}) {
  KernelNode<int *, int> node(step, data, value);
  cudaGraphNode_t made = nullptr;
  MUST(cudaGraphAddKernelNode(&made, graph, after.data(), after.size(), &node.parameters));
  node.spoil();
  return made;
}

/// Parameters of a node that sets a whole array.
cudaMemsetParams filling(int *data, int value) {
  cudaMemsetParams parameters{};
  parameters.dst = data;
  parameters.elementSize = sizeof(int);
  parameters.value = static_cast<unsigned>(value);
  parameters.width = count;
  parameters.height = 1;
  return parameters;
}

} // namespace

#endif
