// The resources that the hooks see high-priority launches take of an SM, and the headroom that
// pausing work leaves.
#include "built_graphs.h"

#include <array>

using namespace tally;
using namespace tally::test;
using runtime::Footprint;

namespace {

/// A device of two SMs; `plain` has blocks of 32 threads with 16 registers.
struct Headroom : Harness {
  Headroom() : Harness(false, 0, {Kind::Pause, Kind::Persistent}) {}
  /// Starts the best-effort work.
  void begin() { low = stream(0); }
  Footprint left() {
    REQUIRE(hooks.served().headroom());
    return hooks.served().headroom()->now();
  }
  bool knows() { return hooks.served().headroom()->knowsAll(); }
  cudaError_t launchPlain(cudaStream_t on, std::uint32_t blocks) {
    return launch(on, cellOf(on), 1, blocks, &plainSymbol);
  }
  /// Each stream has its own cell, since streams run side by side.
  std::uint64_t *cellOf(cudaStream_t stream) {
    std::size_t i = 0;
    while (users[i] && users[i] != stream)
      ++i;
    users[i] = stream;
    return &cells[i];
  }
  /// Returns the footprint of that many blocks of `plain` on each SM.
  static Footprint of(std::uint32_t blocks) {
    return {128 * ((blocks + 3) / 4), 2048 * ((blocks + 3) / 4), 1024 * blocks, blocks};
  }
  static constexpr Footprint reserve{512, 16384, 57344, 8};
  cudaStream_t low = nullptr, high = stream(-1);
  std::uint64_t cell = 0;
  std::array<cudaStream_t, 8> users{};
  std::array<std::uint64_t, 8> cells{};
};

} // namespace

TEST_CASE("launches are looked at once") {
  Headroom h;
  CHECK(h.launchPlain(h.high, 2) == cudaSuccess);
  CHECK(h.hooks.served().headroom() == nullptr);
  h.begin();
  CHECK(h.left() == h.reserve);
  int asked = h.cuda.attributeQueries;
  for (int i = 0; i < 3; ++i)
    CHECK(h.launchPlain(h.high, 2) == cudaSuccess);
  CHECK(h.left() == h.of(1));
  CHECK(h.knows());
  CHECK(h.cuda.attributeQueries == asked + 1);
  // Another launch shape of a known kernel.
  CHECK(h.launchPlain(h.high, 10) == cudaSuccess);
  CHECK(h.left() == h.of(5));
  CHECK(h.cuda.attributeQueries == asked + 1);
  // Best effort takes no part.
  CHECK(h.launchPlain(h.low, 16) == cudaSuccess);
  CHECK(h.left() == h.of(5));
  // A kernel whose attributes may have changed.
  h.hooks.launches().setAttribute(h.cuda.api(), &Headroom::plainSymbol,
                                  cudaFuncAttributePreferredSharedMemoryCarveout, 50,
                                  [] { return cudaSuccess; });
  asked = h.cuda.attributeQueries;
  CHECK(h.launchPlain(h.high, 10) == cudaSuccess);
  CHECK(h.cuda.attributeQueries == asked + 1);
  CHECK(FakeCuda::lastError() == cudaSuccess);
}

TEST_CASE("each stream that launches has its room") {
  Headroom h;
  cudaStream_t other = h.stream(-1);
  h.begin();
  CHECK(h.launchPlain(h.high, 2) == cudaSuccess);
  CHECK(h.left() == h.of(1));
  // A stream without kernel launches has no footprint.
  cudaEvent_t event = h.event();
  CHECK(h.hooks.events().record(h.cuda.api(), event, other, 0) == cudaSuccess);
  CHECK(h.left() == h.of(1));
  for (int i = 0; i < 3; ++i) {
    CHECK(h.launchPlain(other, 2) == cudaSuccess);
    CHECK(h.left() == Footprint{256, 4096, 2048, 2});
  }
  CHECK(h.hooks.streams().destroy(h.cuda.api(), other) == cudaSuccess);
  CHECK(h.left() == h.of(1));
  // The new handle may name the destroyed stream's successor.
  cudaStream_t third = h.stream(-1);
  CHECK(h.launchPlain(third, 2) == cudaSuccess);
  CHECK(h.left() == Footprint{256, 4096, 2048, 2});
}

TEST_CASE("where nothing may pause nothing is looked at") {
  Harness h;
  cudaStream_t high = h.stream(-1);
  h.stream(0);
  int asked = h.cuda.attributeQueries;
  std::uint64_t cell = 0;
  CHECK(h.launch(high, &cell, 1, 2, &Harness::plainSymbol) == cudaSuccess);
  CHECK(h.cuda.attributeQueries == asked);
  CHECK(h.hooks.served().headroom() == nullptr);
}

TEST_CASE("what is not known, or the driver's, takes the reserve") {
  Headroom h;
  h.begin();
  CHECK(h.launchPlain(h.high, 2) == cudaSuccess);
  auto take = [] { return hooks::TakenLaunch{}; };
  auto succeed = [] { return cudaSuccess; };
  bool known = true;
  SUBCASE("a library's launch") {
    auto see = [](hooks::HighFootprints &to, const hooks::CudaApi &api, hooks::StreamState &state) {
      to.foreign(api, state, &api, dim3(2), dim3(32), 0,
                 [] { return std::optional<hooks::KernelUse>(); });
    };
    h.hooks.libraries().hooked(h.cuda.api());
    h.hooks.libraries().launch(h.high, {&known, 1}, succeed, take, see);
    known = false;
  }
  SUBCASE("a kernel that CUDA does not tell of") {
    static char symbol;
    h.hooks.launch(
        h.cuda.api(), h.high,
        [&] { return hooks::LaunchRequest{&symbol, dim3(1), dim3(32), 0, {}, nullptr}; }, succeed);
    known = false;
  }
  SUBCASE("a graph that was not seen") {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    h.cuda.api().cudaGraphCreate(&graph, 0);
    h.cuda.api().cudaGraphInstantiate(&exec, graph, 0);
    CHECK(h.hooks.launchGraph(h.cuda.api(), exec, h.high) == cudaSuccess);
    known = false;
  }
  SUBCASE("a fill") {
    CHECK(h.hooks.copies().fillAsync(h.cuda.api(), &h.cell, 0, 8, h.high) == cudaSuccess);
  }
  SUBCASE("a copy on the device") {
    std::uint64_t other = 1;
    CHECK(h.hooks.copies().copyAsync(h.cuda.api(), &h.cell, &other, 8, cudaMemcpyDeviceToDevice,
                                     h.high) == cudaSuccess);
  }
  CHECK(h.left() == h.reserve);
  CHECK(h.knows() == known);
}

TEST_CASE("copies from and to the host take nothing, nor what best effort fills") {
  Headroom h;
  h.begin();
  CHECK(h.launchPlain(h.high, 2) == cudaSuccess);
  std::uint64_t other = 1;
  CHECK(h.hooks.copies().copyAsync(h.cuda.api(), &h.cell, &other, 8, cudaMemcpyHostToDevice,
                                   h.high) == cudaSuccess);
  CHECK(h.hooks.copies().fillAsync(h.cuda.api(), &other, 0, 8, h.low) == cudaSuccess);
  CHECK(h.left() == h.of(1));
}

TEST_CASE("what is captured is not launched") {
  Headroom h;
  h.begin();
  h.hooks.streams().beginCapture(h.cuda.api(), h.high, [&] {
    return h.cuda.api().cudaStreamBeginCapture(h.high, cudaStreamCaptureModeGlobal);
  });
  CHECK(h.launchPlain(h.high, 2) == cudaSuccess);
  CHECK(h.left() == h.reserve);
  h.hooks.streams().endCapture([&] { return h.cuda.api().cudaStreamEndCapture(h.high, nullptr); });
  CHECK(h.launchPlain(h.high, 2) == cudaSuccess);
  CHECK(h.left() == h.of(1));
}

TEST_CASE("a graph takes what its kernels do") {
  Headroom h;
  Graphs g(h);
  cudaGraphNode_t node = g.kernel(&h.cell, 1, 2);
  g.kernel(&h.cell, 2, 6);
  // Before there is best-effort work.
  cudaGraphExec_t exec = g.instantiate();
  h.begin();
  CHECK(h.left() == h.reserve);
  CHECK(g.launch(exec, h.high) == cudaSuccess);
  CHECK(h.left() == h.of(3));
  CHECK(h.knows());
  SUBCASE("updated as a whole") {
    Graphs larger(h);
    larger.kernel(&h.cell, 1, 2);
    larger.kernel(&h.cell, 2, 10);
    CHECK(g.update(exec, larger.graph) == cudaSuccess);
    CHECK(h.left() == h.of(3));
    CHECK(g.launch(exec, h.high) == cudaSuccess);
    CHECK(h.left() == h.of(5));
  }
  SUBCASE("updated in one node") {
    g.setKernel(exec, node, &h.cell, 1, 10);
    CHECK(g.launch(exec, h.high) == cudaSuccess);
    CHECK(h.left() == h.of(5));
    // The footprint is as small as before: the headroom still has the larger one.
    g.setKernel(exec, node, &h.cell, 1, 2);
    CHECK(g.launch(exec, h.high) == cudaSuccess);
    CHECK(h.left() == h.of(5));
  }
  CHECK(h.knows());
}

TEST_CASE("what else a graph has") {
  Headroom h;
  h.begin();
  Graphs g(h);
  cudaGraphNode_t first = g.kernel(&h.cell, 1, 2);
  Footprint left = h.of(1);
  bool known = true;
  SUBCASE("one kernel") {}
  SUBCASE("kernels beside each other") {
    g.kernel(&h.cell, 2, 2);
    g.last = first;
    g.kernel(&h.cell, 3, 2);
    left = {384, 6144, 3072, 3};
  }
  SUBCASE("two that come first") {
    g.last = nullptr;
    g.kernel(&h.cell, 2, 2);
    left = {256, 4096, 2048, 2};
  }
  SUBCASE("a fill") {
    g.fill(&h.cell, 0, 8);
    left = h.reserve;
  }
  SUBCASE("a kernel that only the driver knows, which does not tell") {
    FakeNode::of(g.kernel(&h.cell, 2, 2)).isOfLibrary = true;
    left = h.reserve;
    known = false;
  }
  SUBCASE("a node that kernels may change") {
    FakeNode::of(first)
        .attributes[cudaLaunchAttributeDeviceUpdatableKernelNode]
        .deviceUpdatableKernelNode.deviceUpdatable = 1;
    left = h.reserve;
    known = false;
  }
  CHECK(g.launch(g.instantiate(), h.high) == cudaSuccess);
  CHECK(h.left() == left);
  CHECK(h.knows() == known);
}

TEST_CASE("what does not fit is said each time") {
  Headroom h;
  h.cuda.addKernel("plain", {{8, 4}, [](const FakeLaunch &) {}, 1024, 255});
  hooks::Captures captures;
  hooks::Settings settings;
  settings.arena.isJoined = false;
  hooks::Requests requests;
  auto activity = hooks::Activity::create(h.cuda.api(), captures, requests, settings, 0);
  REQUIRE(activity);
  runtime::RequestScopeTracker &scopes = (*activity)->scopes();
  scopes.headroom().open((*activity)->onDevice().info(), 25);
  hooks::HighFootprints seen(**activity, h.hooks.registered(), captures);
  hooks::StreamTable streams(false);
  hooks::StreamState &state = streams.find(h.cuda.api(), h.high);
  auto launch = [&](unsigned blocks, bool cooperative) {
    auto before = runtime::SteadyClock()();
    seen.launch(h.cuda.api(), state, [&] {
      return hooks::LaunchRequest{&Headroom::mixSymbol, dim3(blocks), dim3(512), 0, {}, nullptr,
                                  cooperative};
    });
    return scopes.headroom().largeSince(before);
  };
  CHECK_FALSE(launch(2, false));
  CHECK_FALSE(launch(2, true));
  CHECK_FALSE(launch(4, false)); // one after the other
  for (int i = 0; i < 3; ++i) {
    CHECK(launch(4, true)); // all at a time
    auto before = runtime::SteadyClock()();
    seen.launch(h.cuda.api(), state, [] {
      return hooks::LaunchRequest{&Headroom::plainSymbol, dim3(1), dim3(128), 0, {}, nullptr};
    });
    CHECK(scopes.headroom().largeSince(before));
  }
  CHECK_FALSE(launch(4, false));
}
