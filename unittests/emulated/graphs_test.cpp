#include "program.h"

namespace tally::hooks {

namespace {

/// out[0] = out[0] * 2 + `value`: each order of steps gives another result.
const std::string steps = ptxHeader + R"(
.visible .entry step(.param .u64 out, .param .u32 value) {
  .reg .b64 %a; .reg .b32 %v, %x;
  ld.param.u64 %a, [out];
  ld.param.u32 %v, [value];
  ld.global.u32 %x, [%a];
  mad.lo.u32 %x, %x, 2, %v;
  st.global.u32 [%a], %x;
  ret;
})";

cudaGraphNode_t addStep(cudaGraph_t graph, std::vector<cudaGraphNode_t> after, const void *kernel,
                        int *out, int value) {
  void *arguments[] = {&out, &value};
  cudaKernelNodeParams parameters{};
  parameters.func = const_cast<void *>(kernel);
  parameters.gridDim = parameters.blockDim = dim3{1, 1, 1};
  parameters.kernelParams = arguments;
  cudaGraphNode_t node = nullptr;
  CHECK(cuda().cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &parameters) ==
        cudaSuccess);
  return node;
}

} // namespace

TEST_CASE("a captured graph holds what two streams were given, in their order") {
  Program program({{steps, 90}});
  const void *step = program.kernel("step");
  Ints out(1);
  CHECK(cuda().cudaMemset(out.device, 0, 4) == cudaSuccess);
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
  REQUIRE(cuda().cudaStreamCreate(&first) == cudaSuccess);
  REQUIRE(cuda().cudaStreamCreate(&second) == cudaSuccess);
  REQUIRE(cuda().cudaEventCreate(&fork) == cudaSuccess);
  REQUIRE(cuda().cudaEventCreate(&join) == cudaSuccess);
  REQUIRE(cuda().cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(launch(step, 1, 1, 0, first, out.device, 1) == cudaSuccess);
  CHECK(cuda().cudaEventRecord(fork, first) == cudaSuccess);
  CHECK(cuda().cudaStreamWaitEvent(second, fork, 0) == cudaSuccess);
  CHECK(launch(step, 1, 1, 0, second, out.device, 3) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  SUBCASE("joined") {
    CHECK(cuda().cudaEventRecord(join, second) == cudaSuccess);
    CHECK(cuda().cudaStreamWaitEvent(first, join, 0) == cudaSuccess);
    CHECK(launch(step, 1, 1, 0, first, out.device, 5) == cudaSuccess);
    REQUIRE(cuda().cudaStreamEndCapture(first, &graph) == cudaSuccess);
    CHECK(out.values()[0] == 0); // nothing has run
    std::size_t count = 0;
    CHECK(cuda().cudaGraphGetNodes(graph, nullptr, &count) == cudaSuccess);
    CHECK(count == 3);
    cudaGraphExec_t exec = nullptr;
    REQUIRE(cuda().cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
    CHECK(cuda().cudaGraphLaunch(exec, first) == cudaSuccess);
    CHECK(cuda().cudaGraphLaunch(exec, first) == cudaSuccess);
    CHECK(cuda().cudaStreamSynchronize(first) == cudaSuccess);
    CHECK(out.values()[0] == 15 * 8 + 15);
    CHECK(cuda().cudaGraphExecDestroy(exec) == cudaSuccess);
    CHECK(cuda().cudaGraphDestroy(graph) == cudaSuccess);
  }
  SUBCASE("a call that a captured stream forbids makes the capture invalid") {
    unsigned flags = 0;
    SUBCASE("a wait") {
      CHECK(cuda().cudaStreamSynchronize(first) == cudaErrorStreamCaptureUnsupported);
    }
    SUBCASE("a query") {
      CHECK(cuda().cudaStreamQuery(second) == cudaErrorStreamCaptureUnsupported);
    }
    SUBCASE("a question about its flags") {
      CHECK(cuda().cudaStreamGetFlags(first, &flags) == cudaErrorStreamCaptureUnsupported);
    }
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    CHECK(cuda().cudaStreamIsCapturing(second, &status) == cudaSuccess);
    CHECK(status == cudaStreamCaptureStatusInvalidated);
    CHECK(launch(step, 1, 1, 0, first, out.device, 5) == cudaErrorStreamCaptureInvalidated);
    CHECK(cuda().cudaStreamEndCapture(first, &graph) == cudaErrorStreamCaptureInvalidated);
    CHECK(graph == nullptr);
    CHECK(launch(step, 1, 1, 0, first, out.device, 5) == cudaSuccess);
    CHECK(cuda().cudaStreamSynchronize(first) == cudaSuccess);
    CHECK(out.values()[0] == 5);
  }
  SUBCASE("a stream left behind is an error, and no stream stays in the capture") {
    CHECK(cuda().cudaStreamEndCapture(first, &graph) == cudaErrorStreamCaptureUnjoined);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    CHECK(cuda().cudaStreamIsCapturing(second, &status) == cudaSuccess);
    CHECK(status == cudaStreamCaptureStatusNone);
  }
  for (cudaEvent_t each : {fork, join})
    CHECK(cuda().cudaEventDestroy(each) == cudaSuccess);
  for (cudaStream_t each : {first, second})
    CHECK(cuda().cudaStreamDestroy(each) == cudaSuccess);
  (void)cuda().cudaGetLastError();
}

TEST_CASE("a graph of nodes keeps dependencies that were added late, and takes updates") {
  Program program({{steps, 90}});
  const void *step = program.kernel("step");
  Ints out(1);
  cudaGraph_t graph = nullptr;
  REQUIRE(cuda().cudaGraphCreate(&graph, 0) == cudaSuccess);
  cudaGraphNode_t last = addStep(graph, {}, step, out.device, 7);
  cudaGraphNode_t middle = addStep(graph, {}, step, out.device, 3);
  cudaMemsetParams clearing{};
  clearing.dst = out.device;
  clearing.elementSize = 4;
  clearing.width = clearing.height = 1;
  clearing.value = 100;
  cudaGraphNode_t clear = nullptr;
  REQUIRE(cuda().cudaGraphAddMemsetNode(&clear, graph, nullptr, 0, &clearing) == cudaSuccess);
  cudaGraphNode_t from[] = {clear, middle}, to[] = {middle, last};
  CHECK(cuda().cudaGraphAddDependencies(graph, from, to, nullptr, 2) == cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cuda().cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  CHECK(cuda().cudaGraphLaunch(exec, nullptr) == cudaSuccess);
  CHECK(out.values()[0] == (100 * 2 + 3) * 2 + 7);
  clearing.value = 10;
  CHECK(cuda().cudaGraphExecMemsetNodeSetParams(exec, clear, &clearing) == cudaSuccess);
  CHECK(cuda().cudaGraphNodeSetEnabled(exec, last, 0) == cudaSuccess);
  CHECK(cuda().cudaGraphLaunch(exec, nullptr) == cudaSuccess);
  CHECK(out.values()[0] == 10 * 2 + 3);
  CHECK(cuda().cudaGraphExecDestroy(exec) == cudaSuccess);
  cudaGraphNode_t back[] = {last}, forth[] = {clear};
  CHECK(cuda().cudaGraphAddDependencies(graph, back, forth, nullptr, 1) == cudaSuccess);
  CHECK(cuda().cudaGraphInstantiate(&exec, graph, 0) == cudaErrorInvalidValue); // a cycle
  CHECK(cuda().cudaGraphDestroy(graph) == cudaSuccess);
  (void)cuda().cudaGetLastError();
}

TEST_CASE("memory that is allocated and freed in a capture is the graph's own") {
  Ints out(4);
  cudaStream_t stream = nullptr;
  REQUIRE(cuda().cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(cuda().cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  void *memory = nullptr;
  CHECK(cuda().cudaMallocAsync(&memory, 16, stream) == cudaSuccess);
  REQUIRE(memory);
  CHECK(cuda().cudaMemsetAsync(memory, 1, 16, stream) == cudaSuccess);
  CHECK(cuda().cudaMemcpyAsync(out.device, memory, 16, cudaMemcpyDeviceToDevice, stream) ==
        cudaSuccess);
  CHECK(cuda().cudaFreeAsync(memory, stream) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  REQUIRE(cuda().cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  std::size_t count = 0;
  CHECK(cuda().cudaGraphGetNodes(graph, nullptr, &count) == cudaSuccess);
  CHECK(count == 4);
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cuda().cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  for (int i = 0; i < 2; ++i) {
    CHECK(cuda().cudaMemset(out.device, 0, 16) == cudaSuccess);
    CHECK(cuda().cudaGraphLaunch(exec, stream) == cudaSuccess);
    CHECK(cuda().cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(out.values() == std::vector<int>(4, 0x01010101));
  }
  // A launch of a graph cannot become a node of another graph.
  cudaGraph_t none = nullptr;
  REQUIRE(cuda().cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(cuda().cudaGraphLaunch(exec, stream) == cudaErrorStreamCaptureUnsupported);
  REQUIRE(cuda().cudaStreamEndCapture(stream, &none) == cudaSuccess);
  CHECK(cuda().cudaGraphDestroy(none) == cudaSuccess);
  CHECK(cuda().cudaGraphExecDestroy(exec) == cudaSuccess);
  CHECK(cuda().cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cuda().cudaStreamDestroy(stream) == cudaSuccess);
}

} // namespace tally::hooks
