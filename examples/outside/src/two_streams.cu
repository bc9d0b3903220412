// The use that Tally is made for: a stream of low priority with large kernels (best effort) beside
// one of high priority with small ones. Both results are compared; plain CUDA computes the same.
#include "parts.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace {

constexpr unsigned rounds = 64;

/// Each element is computed on its own, the same number of times even when kernels yield.
__global__ void stir(unsigned *values, int n) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= n)
    return;
  unsigned value = values[at];
  for (unsigned i = 0; i < rounds; ++i)
    value = (value ^ (value >> 13)) * 0x5bd1e995u + i;
  values[at] = value;
}

unsigned stirOnHost(unsigned value, int times) {
  for (int k = 0; k < times; ++k)
    for (unsigned i = 0; i < rounds; ++i)
      value = (value ^ (value >> 13)) * 0x5bd1e995u + i;
  return value;
}

struct Work {
  cudaStream_t stream;
  unsigned *device;
  int n;

  Work(int priority, int elements) : n(elements) {
    CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
    CHECK(cudaMalloc(&device, n * sizeof(unsigned)));
    std::vector<unsigned> values(n);
    for (int i = 0; i < n; ++i)
      values[i] = i;
    CHECK(cudaMemcpy(device, values.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
  }
  void launch() { stir<<<(n + 127) / 128, 128, 0, stream>>>(device, n); }
  /// Counts the elements that differ from their expected value after `times` launches.
  int wrong(int times, std::uint64_t &hash) {
    std::vector<unsigned> values(n);
    CHECK(cudaMemcpyAsync(values.data(), device, n * sizeof(unsigned), cudaMemcpyDeviceToHost,
                          stream));
    CHECK(cudaStreamSynchronize(stream));
    hash ^= hashOf(values.data(), n * sizeof(unsigned));
    int count = 0;
    for (int i = 0; i < n; ++i)
      count += values[i] != stirOnHost(i, times);
    CHECK(cudaFree(device));
    CHECK(cudaStreamDestroy(stream));
    return count;
  }
};

} // namespace

bool runTwoStreams(int size) {
  int least = 0, greatest = 0;
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  Work serving(greatest, size), training(least, size * 64);
  constexpr int requests = 10, launchesARequest = 3;
  int trained = 0;
  for (int request = 0; request < requests; ++request) {
    for (int i = 0; i < 2; ++i, ++trained)
      training.launch();
    for (int i = 0; i < launchesARequest; ++i)
      serving.launch();
    CHECK(cudaStreamSynchronize(serving.stream));
  }
  CHECK(cudaGetLastError());
  std::uint64_t hash = 0;
  int wrong = serving.wrong(requests * launchesARequest, hash) + training.wrong(trained, hash);
  return report("two-streams", std::to_string(requests) + " requests beside training", wrong, 0,
                hash);
}
