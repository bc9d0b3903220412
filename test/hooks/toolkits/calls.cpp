// Calls whose form or name differs between the CUDA runtimes 12 and 13, through the hooks, on the
// emulator. The source compiles with both; scripts/toolkits compiles it with each toolkit and links
// that toolkit's runtime.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

namespace {

void check(cudaError_t status, int line) {
  if (status == cudaSuccess)
    return;
  std::printf("line %d: %s\n", line, cudaGetErrorString(status));
  std::exit(1);
}
#define CHECK(call) check(call, __LINE__)

void require(bool holds, int line) { check(holds ? cudaSuccess : cudaErrorUnknown, line); }
#define REQUIRE(condition) require(condition, __LINE__)

constexpr std::size_t size = 4096;

void managedMemory(cudaStream_t stream) {
  void *memory = nullptr;
  CHECK(cudaMallocManaged(&memory, size, cudaMemAttachGlobal));
#if CUDART_VERSION < 13000
  CHECK(cudaMemAdvise(memory, size, cudaMemAdviseSetPreferredLocation, 0));
  CHECK(cudaMemPrefetchAsync(memory, size, 0, stream));
  CHECK(cudaMemPrefetchAsync(memory, size, cudaCpuDeviceId, stream));
  CHECK(cudaMemPrefetchAsync_v2(memory, size, {cudaMemLocationTypeDevice, 0}, 0, stream));
#else
  CHECK(cudaMemAdvise(memory, size, cudaMemAdviseSetPreferredLocation,
                      {cudaMemLocationTypeDevice, 0}));
  CHECK(cudaMemPrefetchAsync(memory, size, {cudaMemLocationTypeDevice, 0}, 0, stream));
#endif
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaFree(memory));
}

/// Returns the node that depends on the other one.
const cudaGraphNode_t *last(const cudaGraphNode_t (&nodes)[2]) {
  std::size_t count = 0;
#if CUDART_VERSION < 13000
  CHECK(cudaGraphNodeGetDependencies(nodes[1], nullptr, &count));
#else
  CHECK(cudaGraphNodeGetDependencies(nodes[1], nullptr, nullptr, &count));
#endif
  return &nodes[count == 1 ? 1 : 0];
}

/// A graph of three fills, captured and then changed by calls.
void graphs(cudaStream_t stream) {
  void *memory = nullptr;
  CHECK(cudaMalloc(&memory, size));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaMemsetAsync(memory, 1, size, stream));
  CHECK(cudaMemsetAsync(memory, 2, size, stream));
  cudaStreamCaptureStatus status{};
  cudaGraph_t captured = nullptr;
  const cudaGraphNode_t *ends = nullptr;
  std::size_t lasts = 0;
#if CUDART_VERSION < 13000
  CHECK(cudaStreamGetCaptureInfo(stream, &status, nullptr, &captured, &ends, &lasts));
#else
  CHECK(cudaStreamGetCaptureInfo(stream, &status, nullptr, &captured, &ends, nullptr, &lasts));
#endif
  REQUIRE(status == cudaStreamCaptureStatusActive && captured && lasts == 1);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphNode_t nodes[2] = {}, added = nullptr;
  std::size_t count = 2, edges = 0;
  CHECK(cudaGraphGetNodes(graph, nodes, &count));
  cudaMemsetParams fill{};
  fill.dst = memory;
  fill.value = 3;
  fill.elementSize = 1;
  fill.width = size;
  fill.height = 1;
  CHECK(cudaGraphAddMemsetNode(&added, graph, nullptr, 0, &fill));
#if CUDART_VERSION < 13000
  CHECK(cudaGraphAddDependencies(graph, last(nodes), &added, 1));
  CHECK(cudaGraphNodeGetDependencies(added, nullptr, &count));
  // The emulator does not serve these calls; the test makes them all the same.
  REQUIRE(cudaGraphGetEdges(graph, nullptr, nullptr, &edges) == cudaErrorNotSupported);
  REQUIRE(cudaGraphNodeGetDependentNodes(added, nullptr, &edges) == cudaErrorNotSupported);
#else
  CHECK(cudaGraphAddDependencies(graph, last(nodes), &added, nullptr, 1));
  CHECK(cudaGraphNodeGetDependencies(added, nullptr, nullptr, &count));
  REQUIRE(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges) == cudaErrorNotSupported);
  REQUIRE(cudaGraphNodeGetDependentNodes(added, nullptr, nullptr, &edges) == cudaErrorNotSupported);
#endif
  REQUIRE(count == 1);
  CHECK(cudaGetLastError() == cudaErrorNotSupported ? cudaSuccess : cudaErrorUnknown);
  cudaGraphExec_t executable = nullptr;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, stream));
  unsigned char bytes[size] = {};
  CHECK(cudaMemcpyAsync(bytes, memory, size, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  REQUIRE(bytes[0] == 3 && bytes[size - 1] == 3);
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaFree(memory));
}

} // namespace

int main() {
  cudaDeviceProp properties{};
  CHECK(cudaGetDeviceProperties(&properties, 0));
  REQUIRE(properties.warpSize == 32 && properties.multiProcessorCount > 0);
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  managedMemory(stream);
  graphs(stream);
  CHECK(cudaStreamDestroy(stream));
  int version = 0;
  CHECK(cudaRuntimeGetVersion(&version));
  std::printf("right: %d\n", version);
}
