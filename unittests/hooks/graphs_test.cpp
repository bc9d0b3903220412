// Graphs on best-effort streams, over the fake CUDA runtime: graphs whose parts yield, and graphs
// that are launched whole with the reasons.
#include "built_graphs.h"

using namespace tally;
using namespace tally::test;
using namespace std::chrono_literals;

namespace {

std::size_t count(const std::vector<std::string> &log, const std::string &what) {
  return static_cast<std::size_t>(std::count(log.begin(), log.end(), what));
}

} // namespace

TEST_CASE("a graph yields inside, and goes on where it was") {
  Harness h;
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  std::uint64_t cell = 0, other = 0;
  Graphs g(h);
  g.kernel(&cell, 7, 4);
  g.fill(&other, 0, sizeof other);
  g.kernel(&cell, 9, 3);
  cudaGraphExec_t exec = g.instantiate();
  h.gated = true;
  CHECK(g.launch(exec, low) == cudaSuccess);
  h.yieldAfterOneBlock(low, high, cell, 7);
  CHECK(cell == Harness::mixed(Harness::mixed(0, 7, 4), 9, 3));
  CHECK(h.hooks.totals().throughVariants == 2);
  CHECK(g.statistics() == "1 in parts, 0 whole");
}

TEST_CASE("queued replays keep what they had; the graph and its executable may go") {
  Harness h;
  cudaStream_t low = h.stream(0);
  h.stream(-1);
  std::uint64_t cell = 0, expected = 0;
  cudaGraphExec_t exec = nullptr;
  h.gated = true;
  {
    Graphs g(h);
    cudaGraphNode_t first = g.kernel(&cell, 1);
    g.kernel(&cell, 2);
    exec = g.instantiate();
    CHECK(g.launch(exec, low) == cudaSuccess);
    for (std::uint32_t value : {10u, 20u, 30u}) {
      g.setKernel(exec, first, &cell, value);
      CHECK(g.launch(exec, low) == cudaSuccess);
    }
  }
  CHECK(h.hooks.graphs().destroy(h.cuda.api(), exec) == cudaSuccess);
  h.gate.open();
  CHECK(h.synchronize(low) == cudaSuccess);
  for (std::uint32_t value : {1u, 10u, 20u, 30u})
    expected = Harness::mixed(Harness::mixed(expected, value), 2);
  CHECK(cell == expected);
}

TEST_CASE("objects that a graph holds are destroyed when its queued launches are over") {
  Harness h;
  cudaStream_t low = h.stream(0);
  h.stream(-1);
  std::uint64_t cell = 0;
  Graphs g(h);
  g.kernel(&cell, 1);
  h.hooks.graphs().holdObjects();
  cudaGraphExec_t exec = g.instantiate();
  h.gated = true;
  CHECK(g.launch(exec, low) == cudaSuccess);
  std::thread destroys([&] { CHECK(h.hooks.graphs().destroy(h.cuda.api(), exec) == cudaSuccess); });
  h.gate.arrived();
  std::this_thread::sleep_for(5ms);
  CHECK(count(h.cuda.log(), "destroyed") == 0);
  h.gate.open();
  destroys.join();
  CHECK(count(h.cuda.log(), "destroyed") == 1);
  CHECK(cell == Harness::mixed(0, 1));
}

TEST_CASE("what a thread puts on a full queue does not part another thread's graph") {
  Harness h;
  cudaStream_t low = h.stream(0);
  h.stream(-1);
  // A graph writes its number to the cell, and counts the times that it found another graph's
  // number.
  struct Check {
    std::uint64_t cell = 0, wrong = 0;
  } check;
  h.cuda.addKernel("plain", {{8, 4}, [&](const FakeLaunch &launch) {
                               auto number = launch.argument<std::uint32_t>(1);
                               bool first = (number & 1) != 0;
                               if (first)
                                 check.cell = number / 2;
                               else if (check.cell != number / 2)
                                 ++check.wrong;
                             }});
  auto graphOf = [&](Graphs &g, std::uint32_t number) {
    g.kernel(&check.cell, 2 * number + 1, 1, &Harness::plainSymbol);
    for (int i = 0; i < 40; ++i)
      g.kernel(&check.cell, 2 * number, 1, &Harness::plainSymbol);
    return g.instantiate();
  };
  Graphs one(h), two(h);
  cudaGraphExec_t execs[] = {graphOf(one, 1), graphOf(two, 2)};
  std::vector<std::thread> threads;
  for (cudaGraphExec_t each : execs)
    threads.emplace_back([&h, each, low] {
      for (int i = 0; i < 100; ++i)
        CHECK(h.hooks.launchGraph(h.cuda.api(), each, low) == cudaSuccess);
    });
  for (std::thread &each : threads)
    each.join();
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(check.wrong == 0);
  CHECK(h.hooks.totals().nonPreemptible == 2 * 100 * 41);
}

TEST_CASE("what cannot be taken apart is launched whole, and why is counted") {
  Harness h;
  cudaStream_t low = h.stream(0);
  h.stream(-1);
  std::uint64_t cell = 0, expected = 0;
  std::string reason;
  unsigned long long flags = 0;
  Graphs g(h);
  cudaGraphNode_t kernel = g.kernel(&cell, 3, 2);
  FakeNode &node = FakeNode::of(kernel);
  SUBCASE("events") {
    FakeGraph::of(g.graph).add(cudaGraphNodeTypeEventRecord);
    reason = "event-node";
  }
  SUBCASE("waits for events") {
    FakeGraph::of(g.graph).add(cudaGraphNodeTypeWaitEvent);
    reason = "event-node";
  }
  SUBCASE("semaphores") {
    FakeGraph::of(g.graph).add(cudaGraphNodeTypeExtSemaphoreWait);
    reason = "semaphore-node";
  }
  SUBCASE("memory") {
    FakeGraph::of(g.graph).add(cudaGraphNodeTypeMemAlloc);
    reason = "memory-node";
  }
  SUBCASE("conditions") {
    FakeGraph::of(g.graph).add(cudaGraphNodeTypeConditional);
    reason = "conditional-node";
  }
  SUBCASE("types to come") {
    FakeGraph::of(g.graph).add(static_cast<cudaGraphNodeType>(99));
    reason = "unknown-node";
  }
  SUBCASE("kernels that nobody tells") {
    node.isOfLibrary = true;
    reason = "kernel";
  }
  SUBCASE("arguments in one buffer") {
    node.kernel.extra = node.pointers.data();
    reason = "kernel";
  }
  SUBCASE("a shape that is not launched by itself") {
    node.attributes[cudaLaunchAttributeClusterDimension].clusterDim = {3, 1, 1};
    reason = "kernel";
  }
  SUBCASE("updates by kernels") {
    node.attributes[cudaLaunchAttributeDeviceUpdatableKernelNode]
        .deviceUpdatableKernelNode.deviceUpdatable = 1;
    reason = "device-updatable";
  }
  SUBCASE("launches by kernels") {
    flags = cudaGraphInstantiateFlagDeviceLaunch;
    reason = "device-launch";
  }
  cudaGraphExec_t exec = g.instantiate(flags);
  for (int i = 0; i < 2; ++i) {
    CHECK(g.launch(exec, low) == cudaSuccess);
    expected = Harness::mixed(expected, 3, 2);
  }
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(cell == expected);
  CHECK(g.statistics() == "0 in parts, 2 whole (" + reason + " 2)");
  CHECK(h.hooks.totals().throughVariants == 0);
}

TEST_CASE("a cooperative kernel of a graph runs whole, the others yield") {
  Harness h;
  cudaStream_t low = h.stream(0);
  h.stream(-1);
  std::uint64_t cell = 0;
  Graphs g(h);
  g.kernel(&cell, 3, 2);
  FakeNode::of(g.kernel(&cell, 4, 2)).attributes[cudaLaunchAttributeCooperative].cooperative = 1;
  CHECK(g.launch(g.instantiate(), low) == cudaSuccess);
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(cell == Harness::mixed(Harness::mixed(0, 3, 2), 4, 2));
  CHECK(h.hooks.totals().throughVariants == 1);
  CHECK(h.hooks.totals().nonPreemptible == 1);
}

TEST_CASE("a graph's kernel runs whole once its variants have stale variables") {
  Harness h;
  cudaStream_t low = h.stream(0);
  h.stream(-1);
  std::uint64_t cell = 0;
  Graphs g(h);
  g.kernel(&cell, 1);
  cudaGraphExec_t exec = g.instantiate();
  CHECK(g.launch(exec, low) == cudaSuccess);
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(h.hooks.totals().throughVariants == 1);
  h.hooks.registered().find(h.cuda.api(), &Harness::mixSymbol).hasStaleVariants = true;
  CHECK(g.launch(exec, low) == cudaSuccess);
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(h.hooks.totals().throughVariants == 1);
  CHECK(h.hooks.totals().nonPreemptible == 1);
  CHECK(cell == Harness::mixed(Harness::mixed(0, 1), 1));
}

TEST_CASE("a kernel that CUDA names by a handle that nobody has asked for yields too") {
  Harness h;
  cudaStream_t low = h.stream(0);
  h.stream(-1);
  std::uint64_t cell = 0;
  Graphs g(h);
  FakeNode::of(g.kernel(&cell, 3, 2)).kernel.func = FakeCuda::handleOf(&Harness::mixSymbol);
  CHECK(g.launch(g.instantiate(), low) == cudaSuccess);
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(cell == Harness::mixed(0, 3, 2));
  CHECK(h.hooks.totals().throughVariants == 1);
}

TEST_CASE("a kernel of a library in a graph runs whole, the others yield") {
  Harness h;
  h.cuda.driverTellsGraphs = true;
  cudaStream_t low = h.stream(0);
  h.stream(-1);
  std::uint64_t cell = 0, expected = 0;
  Graphs g(h);
  g.kernel(&cell, 3, 2);
  FakeNode::of(g.kernel(&cell, 4, 2)).isOfLibrary = true;
  g.kernel(&cell, 5, 2);
  SUBCASE("with its arguments in a list") {}
  SUBCASE("with its arguments in a buffer") {
    FakeNode &node = FakeNode::of(g.last);
    node.kernel.extra = node.pointers.data();
    node.isOfLibrary = true;
  }
  bool both = FakeNode::of(g.last).isOfLibrary;
  cudaGraphExec_t exec = g.instantiate();
  for (int i = 0; i < 3; ++i) {
    CHECK(g.launch(exec, low) == cudaSuccess);
    for (std::uint32_t value : {3u, 4u, 5u})
      expected = Harness::mixed(expected, value, 2);
  }
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(cell == expected);
  CHECK(g.statistics() == "3 in parts, 0 whole");
  CHECK(h.hooks.totals().throughVariants == (both ? 3 : 6));
  CHECK(h.hooks.totals().nonPreemptible == (both ? 6 : 3));
  CHECK(count(h.cuda.log(), "graph 1") == (both ? 6 : 3));
}

TEST_CASE("a graph that was instantiated before anything was best effort is launched whole") {
  Harness h;
  std::uint64_t cell = 0;
  Graphs g(h);
  g.kernel(&cell, 3);
  cudaGraphExec_t exec = g.instantiate();
  cudaStream_t low = h.stream(0);
  h.stream(-1);
  CHECK(g.launch(exec, low) == cudaSuccess);
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(cell == Harness::mixed(0, 3));
  CHECK(g.statistics() == "0 in parts, 1 whole (not-seen 1)");
  // A failed call returns its own error, and does not count.
  CHECK(g.launch(nullptr, low) == cudaErrorInvalidValue);
  CHECK(g.statistics() == "0 in parts, 1 whole (not-seen 1)");
}

TEST_CASE(
    "work makes way for a graph that nothing is kept of, on a stream that the thread used last") {
  Harness h;
  std::uint64_t cell = 0, ignored = 0;
  Graphs g(h);
  g.kernel(&ignored, 1, 1, &Harness::plainSymbol);
  cudaGraphExec_t exec = g.instantiate(); // before anything is best effort
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  CHECK(h.launch(low, &cell, 7) == cudaSuccess);
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(g.launch(exec, high) == cudaSuccess);
  CHECK(h.synchronize(high) == cudaSuccess);
  h.gated = true;
  std::thread([&] { CHECK(h.launch(low, &cell, 8, 8) == cudaSuccess); }).join();
  h.gate.arrived();
  h.holdPlain();
  CHECK(hooks::threadState.last.handle == high);
  CHECK(hooks::threadState.last.scopes);
  CHECK(g.launch(exec, high) == cudaSuccess);
  h.highGate.arrived();
  h.settleRequest();
  h.gate.open();
  CHECK(eventually([&] { return h.hooks.totals().yields == 1; }));
  h.highGate.open();
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(cell == Harness::mixed(Harness::mixed(0, 7), 8, 8));
}

TEST_CASE("launches of one executable graph are in order, whatever their classes") {
  Harness h;
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  std::uint64_t cell = 0, expected = 0;
  std::uint32_t value = 0;
  Graphs g(h);
  cudaGraphNode_t node = g.kernel(&cell, 0);
  cudaGraphExec_t exec = g.instantiate();
  auto launch = [&](cudaStream_t on) {
    g.setKernel(exec, node, &cell, ++value);
    CHECK(g.launch(exec, on) == cudaSuccess);
    expected = Harness::mixed(expected, value);
  };
  for (cudaStream_t on : {low, high, low, low, high, high, low, high, low})
    launch(on);
  CHECK(h.synchronize(high) == cudaSuccess);
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(cell == expected);
  CHECK(g.statistics() == "5 in parts, 0 whole");
}

TEST_CASE("the first best-effort launch behind one of high priority is CUDA's to order") {
  Harness h;
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  std::uint64_t cell = 0, expected = 0;
  Graphs g(h);
  cudaGraphNode_t node = g.kernel(&cell, 1);
  cudaGraphExec_t exec = g.instantiate();
  for (cudaStream_t on : {high, low, low, high, low}) {
    CHECK(g.launch(exec, on) == cudaSuccess);
    expected = Harness::mixed(expected, 1);
  }
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(cell == expected);
  CHECK(g.statistics() == "2 in parts, 1 whole (after-high-priority 1)");
  // The hooks do not follow the updates of a graph that only high priority uses, until an update as
  // best effort.
  cudaGraphExec_t other = g.instantiate();
  CHECK(g.launch(other, high) == cudaSuccess);
  g.setKernel(other, node, &cell, 5);
  CHECK(g.launch(other, low) == cudaSuccess);
  expected = Harness::mixed(Harness::mixed(expected, 1), 5);
  CHECK(g.statistics() == "2 in parts, 2 whole (after-high-priority 1, update 1)");
  CHECK(g.update(other, g.graph) == cudaSuccess);
  CHECK(g.launch(other, low) == cudaSuccess);
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(cell == Harness::mixed(expected, 1));
  CHECK(g.statistics() == "3 in parts, 2 whole (after-high-priority 1, update 1)");
}

TEST_CASE("whole updates before and after the first best-effort launch") {
  Harness h;
  cudaStream_t low = h.stream(0);
  h.stream(-1);
  std::uint64_t cell = 0, expected = 0;
  Graphs g(h);
  cudaGraphNode_t node = g.kernel(&cell, 1);
  cudaGraphExec_t exec = g.instantiate();
  auto update = [&](std::uint32_t value) {
    Graphs other(h);
    other.kernel(&cell, value);
    CHECK(g.update(exec, other.graph) == cudaSuccess);
    CHECK(g.launch(exec, low) == cudaSuccess);
    expected = Harness::mixed(expected, value);
  };
  update(5);
  update(6);
  Graphs larger(h);
  larger.kernel(&cell, 1);
  larger.kernel(&cell, 1);
  CHECK(g.update(exec, larger.graph) != cudaSuccess);
  CHECK(g.launch(exec, low) == cudaSuccess);
  expected = Harness::mixed(expected, 6);
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(cell == expected);
  CHECK(g.statistics() == "3 in parts, 0 whole");
  // After the first change the hooks no longer know which node a call changes.
  g.setKernel(exec, node, &cell, 8);
  CHECK(g.launch(exec, low) == cudaSuccess);
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(cell == Harness::mixed(expected, 8));
  CHECK(g.statistics() == "3 in parts, 1 whole (update 1)");
}

TEST_CASE("in a process that has used another device graphs are launched whole") {
  Harness h;
  cudaStream_t low = h.stream(0);
  h.stream(-1);
  std::uint64_t cell = 0;
  CHECK(h.hooks.streams().setDevice(h.cuda.api(), 1) == cudaSuccess);
  CHECK(h.hooks.streams().setDevice(h.cuda.api(), 0) == cudaSuccess);
  Graphs g(h);
  g.kernel(&cell, 3);
  CHECK(g.launch(g.instantiate(), low) == cudaSuccess);
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(cell == Harness::mixed(0, 3));
  CHECK(g.statistics() == "0 in parts, 1 whole (several-devices 1)");
}

TEST_CASE("a graph whose kernels are in another context is launched whole") {
  Harness h;
  std::uint64_t cell = 0;
  Graphs g(h);
  g.kernel(&cell, 3);
  hooks::ExecutableGraph graph(g.api, h.hooks.registered(), 0);
  char context = 0, other = 0;
  hooks::StreamState stream;
  graph.read(g.graph, &context);
  CHECK(graph.launch(0, &context, stream).reason == hooks::WholeReason::None);
  CHECK(graph.launch(0, &other, stream).reason == hooks::WholeReason::OtherContext);
  graph.read(g.graph);
  CHECK(graph.launch(0, &other, stream).reason == hooks::WholeReason::None);
}
