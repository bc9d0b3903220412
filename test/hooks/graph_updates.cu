// CUDA's guarantees for updates of graphs, launched as either class: updates of nodes, of whole
// graphs and of embedded graphs, while launches are under way. The program does not mention Tally.
#include "graph_parts.h"

namespace {

/// Nodes change between launches that are still under way: each launch uses the parameters at its
/// call.
void updatedNodes() {
  Stream stream;
  Array a(1), b(0), c(0);
  cudaGraph_t graph;
  MUST(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t first = addStep(graph, a.data, 2), second = addStep(graph, a.data, 3, {first});
  cudaGraphNode_t fill, copy, last;
  cudaMemsetParams fillOf = filling(b.data, 0x101);
  MUST(cudaGraphAddMemsetNode(&fill, graph, &second, 1, &fillOf));
  MUST(cudaGraphAddMemcpyNode1D(&copy, graph, &fill, 1, c.data, b.data, bytes,
                                cudaMemcpyDeviceToDevice));
  {
    KernelNode<int *, const int *> node(addInto, a.data, c.data);
    MUST(cudaGraphAddKernelNode(&last, graph, &copy, 1, &node.parameters));
    node.spoil();
  }
  cudaGraphExec_t executable = instantiated(graph);
  unsigned want = 1;
  auto run = [&](int one, int two, bool withTwo, unsigned filled, bool copies, unsigned known) {
    MUST(cudaGraphLaunch(executable, stream));
    want = static_cast<unsigned>(stepped(static_cast<int>(want), one));
    if (withTwo)
      want = static_cast<unsigned>(stepped(static_cast<int>(want), two));
    want += copies ? filled : known;
  };
  for (int round = 0; round < 4; ++round) {
    int value = 10 + round;
    run(round == 0 ? 2 : value - 1, 3, true, round == 0 ? 0x101 : 0x200 + round - 1, true, 0);
    KernelNode<int *, int> changed(step, a.data, value);
    MUST(cudaGraphExecKernelNodeSetParams(executable, first, &changed.parameters));
    changed.spoil();
    cudaMemsetParams other = fillOf;
    other.value = 0x200 + round;
    MUST(cudaGraphExecMemsetNodeSetParams(executable, fill, &other));
    MUST(cudaGraphNodeSetEnabled(executable, second, 0));
    run(value, 3, false, 0x200 + round, true, 0);
    MUST(cudaGraphNodeSetEnabled(executable, copy, 0));
    run(value, 3, false, 0, false, 0x200 + round);
    MUST(cudaGraphNodeSetEnabled(executable, second, 1));
    MUST(cudaGraphNodeSetEnabled(executable, copy, 1));
    // For one launch the copy reads another array.
    Array other16(16);
    MUST(cudaGraphExecMemcpyNodeSetParams1D(executable, copy, c.data, other16.data, bytes,
                                            cudaMemcpyDeviceToDevice));
    run(value, 3, true, 16, true, 0);
    MUST(cudaGraphExecMemcpyNodeSetParams1D(executable, copy, c.data, b.data, bytes,
                                            cudaMemcpyDeviceToDevice));
    stream.wait();
  }
  EXPECT(a.value() == static_cast<int>(want));
  // A refused update changes nothing.
  KernelNode<int *, int> changed(step, a.data, 99);
  EXPECT(cudaGraphExecKernelNodeSetParams(executable, fill, &changed.parameters) != cudaSuccess);
  cudaGetLastError();
  run(13, 3, true, 0x203, true, 0);
  stream.wait();
  EXPECT(a.value() == static_cast<int>(want));
  MUST(cudaGraphExecDestroy(executable));
  MUST(cudaGraphDestroy(graph));
}

/// Whole updates, before the first launch and while launches are under way.
void updatedGraphs() {
  Stream stream;
  for (bool launchFirst : {true, false}) {
    Array data(5);
    auto recorded = [&](int value) {
      return captured(stream, [&] {
        step<<<grid, block, 0, stream>>>(data.data, value);
        MUST(cudaMemsetAsync(data.data, value & 1, 64, stream));
        step<<<grid, block, 0, stream>>>(data.data, value + 1);
      });
    };
    std::vector<int> want(count, 5);
    auto ran = [&](int value) {
      for (int i = 0; i < count; ++i) {
        want[i] = stepped(want[i], value);
        if (i < 16)
          want[i] = (value & 1) * 0x01010101;
        want[i] = stepped(want[i], value + 1);
      }
    };
    cudaGraph_t original = recorded(2), graph;
    cudaGraphExec_t executable = instantiated(original);
    if (launchFirst) {
      MUST(cudaGraphLaunch(executable, stream));
      ran(2);
    }
    for (int round = 0; round < 5; ++round) {
      graph = recorded(20 + round);
      cudaGraphExecUpdateResultInfo info{};
      MUST(cudaGraphExecUpdate(executable, graph, &info));
      EXPECT(info.result == cudaGraphExecUpdateSuccess);
      MUST(cudaGraphDestroy(graph));
      MUST(cudaGraphLaunch(executable, stream));
      ran(20 + round);
    }
    // An update with other nodes: CUDA refuses it, and the graph stays as it was.
    graph = captured(stream, [&] { step<<<grid, block, 0, stream>>>(data.data, 1); });
    cudaGraphExecUpdateResultInfo info{};
    EXPECT_STATUS(cudaGraphExecUpdate(executable, graph, &info), cudaErrorGraphExecUpdateFailure);
    cudaGetLastError();
    MUST(cudaGraphLaunch(executable, stream));
    ran(24);
    if (launchFirst) {
      // Nodes are named as before.
      std::size_t nodes = 1;
      cudaGraphNode_t first = nullptr;
      MUST(cudaGraphGetRootNodes(original, &first, &nodes));
      KernelNode<int *, int> changed(step, data.data, 70);
      MUST(cudaGraphExecKernelNodeSetParams(executable, first, &changed.parameters));
      changed.spoil();
      MUST(cudaGraphLaunch(executable, stream));
      for (int i = 0; i < count; ++i)
        want[i] = stepped(i < 16 ? 0 : stepped(want[i], 70), 25);
    }
    stream.wait();
    std::vector<int> got(count);
    MUST(cudaMemcpy(got.data(), data.data, bytes, cudaMemcpyDeviceToHost));
    EXPECT(got == want);
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaGraphDestroy(original));
  }
}

/// A graph embedded twice in another graph, with an update of one of its nodes; and a captured
/// launch.
void childGraphs() {
  Stream stream;
  Array data(1);
  cudaGraph_t inner, outer;
  MUST(cudaGraphCreate(&inner, 0));
  cudaGraphNode_t one = addStep(inner, data.data, 2);
  addStep(inner, data.data, 3, {one});
  MUST(cudaGraphCreate(&outer, 0));
  cudaGraphNode_t before = addStep(outer, data.data, 4), childOne, childTwo, middle;
  MUST(cudaGraphAddChildGraphNode(&childOne, outer, &before, 1, inner));
  MUST(cudaGraphAddEmptyNode(&middle, outer, &childOne, 1));
  MUST(cudaGraphAddChildGraphNode(&childTwo, outer, &middle, 1, inner));
  addStep(outer, data.data, 5, {childTwo});
  cudaGraphExec_t executable = instantiated(outer);
  int want = 1;
  auto ran = [&](std::vector<int> values) {
    for (int each : values)
      want = stepped(want, each);
  };
  for (int replay = 0; replay < 3; ++replay) {
    MUST(cudaGraphLaunch(executable, stream));
    ran({4, 2, 3, 2, 3, 5});
  }
  cudaGraph_t other;
  MUST(cudaGraphCreate(&other, 0));
  cudaGraphNode_t otherOne = addStep(other, data.data, 20);
  addStep(other, data.data, 30, {otherOne});
  MUST(cudaGraphExecChildGraphNodeSetParams(executable, childOne, other));
  MUST(cudaGraphDestroy(other));
  MUST(cudaGraphLaunch(executable, stream));
  ran({4, 20, 30, 2, 3, 5});
  cudaGraph_t embedded;
  MUST(cudaGraphChildGraphNodeGetGraph(childTwo, &embedded));
  std::size_t nodes = 2;
  cudaGraphNode_t embeddedNodes[2];
  MUST(cudaGraphGetNodes(embedded, embeddedNodes, &nodes));
  MUST(cudaGraphDestroy(inner));
  KernelNode<int *, int> changed(step, data.data, 40);
  MUST(cudaGraphExecKernelNodeSetParams(executable, embeddedNodes[0], &changed.parameters));
  changed.spoil();
  MUST(cudaGraphLaunch(executable, stream));
  ran({4, 20, 30, 40, 3, 5});
  stream.wait();
  EXPECT(data.value() == want);
  MUST(cudaGraphExecDestroy(executable));
  MUST(cudaGraphDestroy(outer));
}

} // namespace

int main() {
  // A stream of higher priority in use makes streams of low priority best effort.
  int lowest = 0, highest = 0;
  MUST(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  Stream above(highest);
  updatedNodes();
  updatedGraphs();
  childGraphs();
  EXPECT_STATUS(cudaDeviceSynchronize(), cudaSuccess);
  return verdict();
}
