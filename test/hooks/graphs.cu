// What a program may count on of CUDA graphs, whatever class they are launched as: order and
// results of nodes, updates, replays, and handles that go while launches are under way. It does not
// know of tally. Every launch of a kernel is counted in its data, so what runs twice, not at all or
// with other arguments shows.
#include "check.h"

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr int count = 1 << 13;
constexpr int bytes = count * static_cast<int>(sizeof(int));

/// data[i] = data[i] * 3 + value, for the whole array, block by block.
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

/// The one value that all elements of an array have; a check fails where they differ.
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

/// What `record` puts on the stream, as a graph.
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
  /// After the call that took the parameters: they must have been copied.
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

/// Of a node that sets a whole array.
cudaMemsetParams filling(int *data, int value) {
  cudaMemsetParams parameters{};
  parameters.dst = data;
  parameters.elementSize = sizeof(int);
  parameters.value = static_cast<unsigned>(value);
  parameters.width = count;
  parameters.height = 1;
  return parameters;
}

/// Two branches that are captured from two streams, whose kernels yield; one needs the other's
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

/// Nodes change between launches that are still under way: each launch has the parameters of its
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
    // A copy from elsewhere, for one launch.
    Array other16(16);
    MUST(cudaGraphExecMemcpyNodeSetParams1D(executable, copy, c.data, other16.data, bytes,
                                            cudaMemcpyDeviceToDevice));
    run(value, 3, true, 16, true, 0);
    MUST(cudaGraphExecMemcpyNodeSetParams1D(executable, copy, c.data, b.data, bytes,
                                            cudaMemcpyDeviceToDevice));
    stream.wait();
  }
  EXPECT(a.value() == static_cast<int>(want));
  // What was refused changes nothing.
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
    // Other nodes: refused, and what was stays.
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

/// A graph inside of a graph, twice, and one of its nodes updated; a launch that is captured.
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

/// A host function writes what a copy behind it reads, in pinned memory. (In pageable memory the
/// copy need not find it: plain CUDA on an H200 read what earlier replays had written.)
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

/// The handles go while launches are under way.
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

/// One executable graph on several streams, of both priorities where there are two: its launches
/// are in the order of the calls.
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
  // No two launches do the same.
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

/// Two threads launch graphs of their own on one stream: each graph is one unit.
void units() {
  Stream stream;
  Array data(0), sum(0);
  constexpr int rounds = 20;
  // A unit sets the data, takes that away again, and adds what is left to the sum.
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
  // Another one in use above makes streams of low priority best effort.
  int lowest = 0, highest = 0;
  MUST(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  Stream above(highest);
  parallelBranches();
  accumulate();
  updatedNodes();
  updatedGraphs();
  childGraphs();
  hostNodes();
  destroyedEarly();
  severalStreams();
  units();
  memoryNodes();
  EXPECT_STATUS(cudaDeviceSynchronize(), cudaSuccess);
  return verdict();
}
