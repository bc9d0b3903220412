// Random programs over several streams of both classes, under a storm of requests: each cell ends
// with the value that the program's order gives.
#include "harness.h"

#include <random>

using namespace tally;
using namespace tally::test;

namespace {

/// Operations on streams that each own a cell. Before a stream reads another stream's cell, an
/// event orders the two, as in a right CUDA program.
class Program {
public:
  Program(Harness &harness, std::uint32_t seed) : h(harness), random(seed) {
    streams = {h.stream(0), h.stream(0, cudaStreamDefault), h.stream(0), h.stream(-1)};
    if (h.hooks.configuration().bestEffort)
      streams[2] = cudaStreamPerThread;
    for (std::size_t i = 0; i < streams.size(); ++i)
      for (std::size_t j = 0; j < streams.size(); ++j)
        between[i][j] = h.event();
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i)
      step();
    CHECK(h.hooks.synchronizeDevice(h.cuda.api()) == cudaSuccess);
    h.cuda.settle();
    for (std::size_t i = 0; i < streams.size(); ++i)
      CHECK(cells[i] == expected[i]);
  }

private:
  std::uint32_t pick(std::uint32_t below) { return random() % below; }

  void step() {
    std::size_t stream = pick(static_cast<std::uint32_t>(streams.size()));
    switch (pick(8)) {
    case 0:
    case 1:
    case 2: {
      std::uint32_t value = pick(100), blocks = 1 + pick(6);
      const char *symbol = pick(4) == 0 ? &Harness::plainSymbol : &Harness::mixSymbol;
      CHECK(h.launch(streams[stream], &cells[stream], value, blocks, symbol) == cudaSuccess);
      expected[stream] = Harness::mixed(expected[stream], value, blocks);
      break;
    }
    case 3: {
      std::uint64_t *cell = &cells[stream];
      CHECK(h.hostFunction(streams[stream], [cell] { *cell ^= 0x5555; }) == cudaSuccess);
      expected[stream] ^= 0x5555;
      break;
    }
    case 4:
    case 5:
      read(stream, (stream + 1 + pick(3)) % streams.size());
      break;
    case 6:
      if (pick(4) == 0)
        CHECK(h.synchronize(streams[stream]) == cudaSuccess);
      break;
    case 7:
      // The legacy stream is ordered with stream 1, which is blocking.
      std::uint64_t *cell = &cells[1];
      CHECK(h.hostFunction(nullptr, [cell] { *cell += 3; }) == cudaSuccess);
      expected[1] += 3;
      break;
    }
  }

  /// `stream` adds the cell of `other`; `other` goes on only afterwards.
  void read(std::size_t stream, std::size_t other) {
    const hooks::CudaApi &api = h.cuda.api();
    cudaEvent_t there = between[other][stream], back = between[stream][other];
    h.hooks.events().record(api, there, streams[other], 0);
    h.hooks.events().wait(api, streams[stream], there, 0);
    std::uint64_t *mine = &cells[stream], *theirs = &cells[other];
    h.hostFunction(streams[stream], [mine, theirs] { *mine = *mine * 31 + *theirs; });
    h.hooks.events().record(api, back, streams[stream], 0);
    h.hooks.events().wait(api, streams[other], back, 0);
    expected[stream] = expected[stream] * 31 + expected[other];
  }

  Harness &h;
  std::mt19937 random;
  std::vector<cudaStream_t> streams;
  cudaEvent_t between[4][4];
  std::uint64_t cells[4] = {}, expected[4] = {};
};

} // namespace

TEST_CASE("random programs of both classes compute what their order says, under a storm") {
  std::uint64_t yields = 0;
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    Harness h(false, 30, hooks::Settings().variants.kinds, false, 1 + seed % 4);
    Program(h, seed).run(150);
    yields += h.hooks.totals().yields;
  }
  CHECK(yields > 0);
}

TEST_CASE("random programs of a best-effort process compute what their order says") {
  for (std::uint32_t seed = 100; seed < 115; ++seed) {
    CAPTURE(seed);
    Harness h(true, 30, hooks::Settings().variants.kinds, false, 1 + seed % 4);
    Program(h, seed).run(150);
  }
}
