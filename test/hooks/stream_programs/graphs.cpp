#include "graphs.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace tally::programs {

#define TALLY_TRY(call)                                                                            \
  do {                                                                                             \
    if (cudaError_t tallyStatus = (call); tallyStatus != cudaSuccess)                              \
      return tallyStatus;                                                                          \
  } while (false)

void HostCall::run(void *data) {
  const auto &call = *static_cast<HostCall *>(data);
  // Some host functions hold their stream up, so that missing waits become visible.
  if (call.value % 8 == 0)
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  for (std::uint32_t i = 0; i < call.count; ++i)
    call.words[i] = call.words[i] * 69069u + call.value + i;
}

// Handles -----------------------------------------------------------------------------------------

void Handles::need(const Operation &operation) {
  auto atLeast = [](auto &list, int number) {
    if (number >= static_cast<int>(list.size()))
      list.resize(static_cast<std::size_t>(number) + 1);
  };
  atLeast(streams, std::max(operation.stream, firstCreated));
  atLeast(streamsLeft, std::max(operation.stream, firstCreated));
  atLeast(buffers, std::max(operation.to, 1));
  if (operation.kind == OperationKind::CreateStream ||
      operation.kind == OperationKind::DestroyStream)
    streamsLeft[static_cast<std::size_t>(operation.stream)] =
        operation.kind == OperationKind::CreateStream;
  graphs = std::max(graphs, static_cast<std::size_t>(operation.graph + 1));
}

cudaStream_t Handles::streamOf(int stream) const {
  if (stream <= legacyStream)
    return cudaStreamLegacy;
  return stream < firstCreated ? cudaStreamPerThread : streams[static_cast<std::size_t>(stream)];
}

KernelCall Handles::kernelCall(const Operation &operation) const {
  KernelCall call;
  call.kernel = static_cast<KernelId>(operation.kernel);
  call.value = operation.value;
  call.rounds = operation.rounds;
  const Buffer &to = buffers[static_cast<std::size_t>(operation.to)];
  call.to = to.words;
  call.words = to.size;
  call.meeting = meetings + operation.to;
  auto source = [&](int number, const std::uint32_t *&words) {
    if (number < 0)
      return;
    const Buffer &buffer = buffers[static_cast<std::size_t>(number)];
    words = buffer.words;
    call.words = std::min(call.words, buffer.size);
  };
  source(operation.from, call.from);
  source(operation.also, call.also);
  return call;
}

void Handles::release() {
  for (std::size_t i = 1; i < buffers.size(); ++i)
    switch (buffers[i].memory) {
    case Memory::Pinned:
      cudaFreeHost(buffers[i].words);
      break;
    case Memory::Ordered:
      if (buffers[i].words)
        cudaFreeAsync(buffers[i].words, cudaStreamLegacy);
      break;
    case Memory::Device:
      cudaFree(buffers[i].words);
      break;
    default:
      break;
    }
  cudaFree(meetings);
  for (std::size_t i = firstCreated; i < streams.size(); ++i)
    if (streamsLeft[i] && streams[i])
      cudaStreamDestroy(streams[i]);
  for (cudaEvent_t each : events)
    cudaEventDestroy(each);
  for (const Side &side : sides) {
    cudaStreamDestroy(side.stream);
    cudaEventDestroy(side.fork);
    cudaEventDestroy(side.join);
  }
}

// Graphs ------------------------------------------------------------------------------------------

Graph::Graph(const Handles &handles, const GraphState &state)
    : handles(handles), body(state.body), hostCalls(state.body.size()), stream(state.stream),
      owner(state.owner), byNodes(state.byNodes) {
  for (std::size_t i = 0; i < body.size(); ++i)
    if (body[i].kind == OperationKind::HostFunction)
      hostCalls[i] = {bufferOf(body[i].to).words, bufferOf(body[i].to).size, body[i].value};
}

cudaError_t Graph::build() {
  TALLY_TRY(byNodes ? addNodes() : capture(graph));
  return cudaGraphInstantiate(&executable, graph, 0);
}

cudaError_t Graph::destroy() {
  if (!graph)
    return cudaSuccess;
  TALLY_TRY(cudaGraphExecDestroy(std::exchange(executable, nullptr)));
  return cudaGraphDestroy(std::exchange(graph, nullptr));
}

std::size_t Graph::copyBytes(const Operation &operation) const {
  return std::min(bufferOf(operation.to).size, bufferOf(operation.from).size) *
         sizeof(std::uint32_t);
}

cudaMemsetParams Graph::fillOf(const Operation &operation) const {
  cudaMemsetParams parameters{};
  parameters.dst = bufferOf(operation.to).words;
  parameters.elementSize = 1;
  parameters.width = bufferOf(operation.to).size * sizeof(std::uint32_t);
  parameters.height = 1;
  parameters.value = operation.value & 255;
  return parameters;
}

cudaError_t Graph::put(std::size_t at, cudaStream_t on) {
  const Operation &operation = body[at];
  switch (operation.kind) {
  case OperationKind::Launch: {
    PackedCall packed;
    pack(handles.kernelCall(operation), packed);
    return cudaLaunchKernel(packed.function, packed.grid, packed.block, packed.arguments,
                            packed.sharedBytes, on);
  }
  case OperationKind::Fill:
    return cudaMemsetAsync(bufferOf(operation.to).words, static_cast<int>(operation.value & 255),
                           bufferOf(operation.to).size * sizeof(std::uint32_t), on);
  case OperationKind::Copy:
    return cudaMemcpyAsync(bufferOf(operation.to).words, bufferOf(operation.from).words,
                           copyBytes(operation), cudaMemcpyDefault, on);
  default:
    return cudaLaunchHostFunc(on, &HostCall::run, &hostCalls[at]);
  }
}

/// Branch 1 is a second stream, which joins the first again at the end.
cudaError_t Graph::capture(cudaGraph_t &made) {
  cudaStream_t main = handles.streamOf(stream);
  const Side &side = handles.sides[static_cast<std::size_t>(owner)];
  // Other threads may make calls that a capture in global mode forbids.
  TALLY_TRY(cudaStreamBeginCapture(main, body.size() % 2 == 0 ? cudaStreamCaptureModeThreadLocal
                                                              : cudaStreamCaptureModeRelaxed));
  cudaError_t first = cudaSuccess;
  auto keep = [&](cudaError_t status) { first = first == cudaSuccess ? status : first; };
  bool forked = false;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i].branch == 1 && !std::exchange(forked, true)) {
      keep(cudaEventRecord(side.fork, main));
      keep(cudaStreamWaitEvent(side.stream, side.fork, 0));
    }
    keep(put(i, body[i].branch == 0 ? main : side.stream));
  }
  if (forked) {
    keep(cudaEventRecord(side.join, side.stream));
    keep(cudaStreamWaitEvent(main, side.join, 0));
  }
  keep(cudaStreamEndCapture(main, &made));
  return first;
}

cudaError_t Graph::addNodes() {
  TALLY_TRY(cudaGraphCreate(&graph, 0));
  nodes.resize(body.size());
  std::vector<cudaGraphNode_t> tips[2];
  bool forked = false;
  for (std::size_t i = 0; i < body.size(); ++i) {
    auto branch = static_cast<std::size_t>(body[i].branch);
    if (branch == 1 && !std::exchange(forked, true))
      tips[1] = tips[0];
    TALLY_TRY(addNode(i, tips[branch]));
    tips[branch] = {nodes[i]};
  }
  return cudaSuccess;
}

cudaError_t Graph::addNode(std::size_t at, const std::vector<cudaGraphNode_t> &after) {
  const Operation &operation = body[at];
  switch (operation.kind) {
  case OperationKind::Launch: {
    PackedCall packed;
    pack(handles.kernelCall(operation), packed);
    cudaKernelNodeParams parameters{
        const_cast<void *>(packed.function),       packed.grid,      packed.block,
        static_cast<unsigned>(packed.sharedBytes), packed.arguments, nullptr};
    return cudaGraphAddKernelNode(&nodes[at], graph, after.data(), after.size(), &parameters);
  }
  case OperationKind::Fill: {
    cudaMemsetParams parameters = fillOf(operation);
    return cudaGraphAddMemsetNode(&nodes[at], graph, after.data(), after.size(), &parameters);
  }
  case OperationKind::Copy:
    return cudaGraphAddMemcpyNode1D(&nodes[at], graph, after.data(), after.size(),
                                    bufferOf(operation.to).words, bufferOf(operation.from).words,
                                    copyBytes(operation), cudaMemcpyDefault);
  default: {
    cudaHostNodeParams parameters{&HostCall::run, &hostCalls[at]};
    return cudaGraphAddHostNode(&nodes[at], graph, after.data(), after.size(), &parameters);
  }
  }
}

cudaError_t Graph::update(int node, std::uint32_t value) {
  auto at = static_cast<std::size_t>(node);
  body[at].value = value;
  if (!byNodes) {
    cudaGraph_t made = nullptr;
    TALLY_TRY(capture(made));
    cudaGraphExecUpdateResultInfo info{};
    cudaError_t status = cudaGraphExecUpdate(executable, made, &info);
    TALLY_TRY(cudaGraphDestroy(made));
    return status;
  }
  if (body[at].kind == OperationKind::Fill) {
    cudaMemsetParams parameters = fillOf(body[at]);
    return cudaGraphExecMemsetNodeSetParams(executable, nodes[at], &parameters);
  }
  PackedCall packed;
  pack(handles.kernelCall(body[at]), packed);
  cudaKernelNodeParams parameters{
      const_cast<void *>(packed.function),       packed.grid,      packed.block,
      static_cast<unsigned>(packed.sharedBytes), packed.arguments, nullptr};
  return cudaGraphExecKernelNodeSetParams(executable, nodes[at], &parameters);
}

} // namespace tally::programs
