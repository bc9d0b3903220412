// CUDA's guarantees for graphs, launched as either class: order and results of nodes, replays, and
// handles that are destroyed while launches are under way. The program does not mention Tally.
#include "graph_parts.h"

#include <atomic>
#include <thread>

namespace {

/// Two branches captured from two streams, with kernels that yield; one branch needs the other's
/// start.
void parallelBranches() {
  Stream a, b;
  Array left(1), right(2), out(0);
  cudaEvent_t fork, done;
  MUST(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  MUST(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  cudaGraph_t graph = captured(a, [&] {
    step<<<grid, block, 0, a>>>(left.data, 4);
    MUST(cudaEventRecord(fork, a));
    MUST(cudaStreamWaitEvent(b, fork, 0));
    step<<<grid, block, 0, b>>>(right.data, 5);
    addInto<<<grid, block, 0, b>>>(right.data, left.data);
    MUST(cudaEventRecord(done, b));
    step<<<grid, block, 0, a>>>(out.data, 6);
    step<<<grid, block, 0, a>>>(out.data, 7);
    MUST(cudaStreamWaitEvent(a, done, 0));
    join<<<grid, block, 0, a>>>(out.data, left.data, right.data);
  });
  cudaGraphExec_t executable = instantiated(graph);
  int x = 1, y = 2, z = 0;
  for (int replay = 0; replay < 12; ++replay) {
    MUST(cudaGraphLaunch(executable, a));
    x = stepped(x, 4);
    y = stepped(y, 5) + x;
    z = stepped(stepped(z, 6), 7);
    z = static_cast<int>(static_cast<unsigned>(z) * 7 + static_cast<unsigned>(x) * 5 +
                         static_cast<unsigned>(y));
  }
  a.wait();
  EXPECT(left.value() == x);
  EXPECT(right.value() == y);
  EXPECT(out.value() == z);
  MUST(cudaGraphExecDestroy(executable));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaEventDestroy(fork));
  MUST(cudaEventDestroy(done));
}

/// A memset between two kernels that accumulate, replayed back to back between other launches.
void accumulate() {
  Stream stream;
  Array sum(11), addend(3), kept(0);
  cudaGraph_t graph = captured(stream, [&] {
    addInto<<<grid, block, 0, stream>>>(sum.data, addend.data);
    MUST(cudaMemcpyAsync(kept.data, sum.data, bytes, cudaMemcpyDeviceToDevice, stream));
    MUST(cudaMemsetAsync(sum.data, 0, bytes, stream));
    addInto<<<grid, block, 0, stream>>>(sum.data, addend.data);
    addInto<<<grid, block, 0, stream>>>(sum.data, kept.data);
    step<<<grid, block, 0, stream>>>(addend.data, 1);
  });
  cudaGraphExec_t executable = instantiated(graph);
  unsigned s = 11, a = 3, k = 0;
  for (int replay = 0; replay < 15; ++replay) {
    MUST(cudaGraphLaunch(executable, stream));
    k = s + a;
    s = a + k;
    a = static_cast<unsigned>(stepped(static_cast<int>(a), 1));
    if (replay % 4 == 0) {
      step<<<grid, block, 0, stream>>>(sum.data, 9);
      s = static_cast<unsigned>(stepped(static_cast<int>(s), 9));
    }
  }
  stream.wait();
  EXPECT(sum.value() == static_cast<int>(s));
  EXPECT(kept.value() == static_cast<int>(k));
  EXPECT(addend.value() == static_cast<int>(a));
  MUST(cudaGraphExecDestroy(executable));
  MUST(cudaGraphDestroy(graph));
}

/// A host function writes pinned memory that a later copy reads. (A copy from pageable memory need
/// not read the new values: plain CUDA on an H200 read what earlier replays had written.)
void hostNodes() {
  struct Written {
    int *pinned;
    int rounds = 0;
  };
  static Written written;
  MUST(cudaMallocHost(&written.pinned, bytes));
  Stream stream;
  Array data(0), addend(0);
  std::vector<int> back(count);
  cudaGraph_t graph = captured(stream, [&] {
    MUST(cudaLaunchHostFunc(
        stream,
        [](void *to) {
          auto &target = *static_cast<Written *>(to);
          ++target.rounds;
          for (int i = 0; i < count; ++i)
            target.pinned[i] = target.rounds;
        },
        &written));
    MUST(cudaMemcpyAsync(addend.data, written.pinned, bytes, cudaMemcpyHostToDevice, stream));
    addInto<<<grid, block, 0, stream>>>(data.data, addend.data);
  });
  cudaGraphExec_t executable = instantiated(graph);
  int want = 0;
  for (int replay = 1; replay <= 8; ++replay) {
    MUST(cudaGraphLaunch(executable, stream));
    want += replay;
  }
  stream.wait();
  MUST(cudaMemcpy(back.data(), data.data, bytes, cudaMemcpyDeviceToHost));
  EXPECT(written.rounds == 8);
  EXPECT(back[0] == want);
  EXPECT(back[count - 1] == want);
  MUST(cudaGraphExecDestroy(executable));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaFreeHost(written.pinned));
}

/// The program destroys the handles while launches are under way.
void destroyedEarly() {
  Array data(1);
  int want = 1;
  for (int round = 0; round < 6; ++round) {
    Stream stream;
    cudaGraph_t graph;
    MUST(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t one = addStep(graph, data.data, round), fill;
    cudaMemsetParams filled = filling(data.data, round);
    MUST(cudaGraphAddMemsetNode(&fill, graph, &one, 1, &filled));
    addStep(graph, data.data, round + 1, {fill});
    cudaGraphExec_t executable = instantiated(graph);
    MUST(cudaGraphDestroy(graph));
    for (int replay = 0; replay < 3; ++replay)
      MUST(cudaGraphLaunch(executable, stream));
    MUST(cudaGraphExecDestroy(executable));
    want = stepped(round, round + 1);
    step<<<grid, block, 0, stream>>>(data.data, 8);
    want = stepped(want, 8);
    stream.wait();
    EXPECT(data.value() == want);
  }
}

/// One executable graph, launched on two streams of one class in turns.
void twoStreams() {
  Stream one, two;
  Array data(1);
  cudaGraph_t graph;
  MUST(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t first = addStep(graph, data.data, 2);
  addStep(graph, data.data, 3, {first});
  cudaGraphExec_t executable = instantiated(graph);
  int want = 1;
  for (int launches = 0; launches < 400; ++launches) {
    MUST(cudaGraphLaunch(executable, launches % 2 == 0 ? one : two));
    want = stepped(stepped(want, 2), 3);
  }
  one.wait();
  two.wait();
  EXPECT(data.value() == want);
  MUST(cudaGraphExecDestroy(executable));
  MUST(cudaGraphDestroy(graph));
}

/// One executable graph on several streams, of both priorities where there are two: its launches
/// run in the order of the calls.
void severalStreams() {
  int lowest = 0, highest = 0;
  MUST(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  Stream high(highest), low(lowest), other(lowest);
  Array data(1);
  cudaGraph_t graph;
  MUST(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t one = addStep(graph, data.data, 2);
  addStep(graph, data.data, 3, {one});
  cudaGraphExec_t executable = instantiated(graph);
  int want = 1, launches = 0;
  // Each launch has other parameters.
  auto launch = [&](cudaStream_t on) {
    KernelNode<int *, int> changed(step, data.data, ++launches);
    MUST(cudaGraphExecKernelNodeSetParams(executable, one, &changed.parameters));
    changed.spoil();
    MUST(cudaGraphLaunch(executable, on));
    want = stepped(stepped(want, launches), 3);
  };
  for (int round = 0; round < 6; ++round) {
    for (cudaStream_t each : {low.handle, other.handle, high.handle, low.handle})
      launch(each);
    std::thread([&] { launch(other); }).join();
    launch(high);
  }
  for (const Stream *each : {&high, &low, &other})
    each->wait();
  EXPECT(data.value() == want);
  MUST(cudaGraphExecDestroy(executable));
  MUST(cudaGraphDestroy(graph));
}

/// Two threads launch their own graphs on one stream: each graph runs as one unit.
void units() {
  Stream stream;
  Array data(0), sum(0);
  constexpr int rounds = 20;
  // A unit sets the data, makes it zero by a kernel, and adds it to the sum.
  auto unit = [&](int value) {
    cudaGraph_t graph;
    MUST(cudaGraphCreate(&graph, 0));
    cudaMemsetParams fill = filling(data.data, value);
    cudaGraphNode_t first, last;
    MUST(cudaGraphAddMemsetNode(&first, graph, nullptr, 0, &fill));
    cudaGraphNode_t kernel = addStep(graph, data.data, -3 * value, {first});
    KernelNode<int *, const int *> check(addInto, sum.data, data.data);
    MUST(cudaGraphAddKernelNode(&last, graph, &kernel, 1, &check.parameters));
    cudaGraphExec_t executable = instantiated(graph);
    MUST(cudaGraphDestroy(graph));
    return executable;
  };
  cudaGraphExec_t units[2] = {unit(5), unit(8)};
  std::atomic<int> ready{0};
  auto launch = [&](cudaGraphExec_t executable) {
    for (++ready; ready != 2;) {
    }
    for (int i = 0; i < rounds; ++i)
      MUST(cudaGraphLaunch(executable, stream));
  };
  std::thread one([&] { launch(units[0]); }), two([&] { launch(units[1]); });
  one.join();
  two.join();
  stream.wait();
  EXPECT(sum.value() == 0);
  for (cudaGraphExec_t each : units)
    MUST(cudaGraphExecDestroy(each));
}

/// Memory that the graph itself allocates.
void memoryNodes() {
  Stream stream;
  Array data(2);
  cudaGraph_t graph = captured(stream, [&] {
    int *own = nullptr;
    MUST(cudaMallocAsync(reinterpret_cast<void **>(&own), bytes, stream));
    MUST(cudaMemsetAsync(own, 0, bytes, stream));
    step<<<grid, block, 0, stream>>>(own, 9);
    addInto<<<grid, block, 0, stream>>>(data.data, own);
    MUST(cudaFreeAsync(own, stream));
  });
  cudaGraphExec_t executable = instantiated(graph);
  for (int replay = 0; replay < 4; ++replay)
    MUST(cudaGraphLaunch(executable, stream));
  stream.wait();
  EXPECT(data.value() == 2 + 4 * 9);
  MUST(cudaGraphExecDestroy(executable));
  MUST(cudaGraphDestroy(graph));
}

} // namespace

int main() {
  // A stream of higher priority in use makes streams of low priority best effort.
  int lowest = 0, highest = 0;
  MUST(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  Stream above(highest);
  parallelBranches();
  accumulate();
  hostNodes();
  destroyedEarly();
  twoStreams();
  severalStreams();
  units();
  memoryNodes();
  EXPECT_STATUS(cudaDeviceSynchronize(), cudaSuccess);
  return verdict();
}
