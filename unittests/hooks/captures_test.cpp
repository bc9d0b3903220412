// Captured streams: CUDA gets their operations unchanged, and the hooks make no queries of them.
#include "harness.h"

using namespace tally;
using namespace tally::test;

TEST_CASE("a stream that is first met in a capture is not asked then") {
  Harness h(true);
  cudaStream_t stream = nullptr;
  CHECK(h.cuda.api().cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0) ==
        cudaSuccess);
  std::uint64_t cell = 0;
  CHECK(h.hooks.streams().beginCapture(h.cuda.api(), stream, [&] {
    return h.cuda.api().cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
  }) == cudaSuccess);
  CHECK(h.launch(stream, &cell, 1) == cudaSuccess);
  h.hooks.streams().endCapture([&] { return h.cuda.api().cudaStreamEndCapture(stream, nullptr); });
  CHECK(h.cuda.spoiltCaptures == 0);
  h.cuda.settle();
}

TEST_CASE("what is captured passes through, and captured streams are not asked") {
  Harness h;
  cudaStream_t low = h.stream(0), high = h.stream(-1);
  std::uint64_t cell = 0, other = 0;
  h.launch(high, &other, 1);
  auto begin = [&](cudaStream_t stream) {
    return h.hooks.streams().beginCapture(h.cuda.api(), stream, [&] {
      return h.cuda.api().cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    });
  };
  CHECK(begin(low) == cudaSuccess);
  CHECK(begin(high) == cudaSuccess);
  h.launch(low, &cell, 1); // the fake CUDA runtime runs captured launches at once
  h.launch(high, &other, 1);
  CHECK(h.hooks.totals().throughVariants == 0);
  for (cudaStream_t stream : {low, high})
    h.hooks.streams().endCapture(
        [&] { return h.cuda.api().cudaStreamEndCapture(stream, nullptr); });
  h.cuda.settle();
  h.launch(low, &cell, 1);
  CHECK(h.synchronize(low) == cudaSuccess);
  CHECK(h.hooks.totals().throughVariants == 1);
}
