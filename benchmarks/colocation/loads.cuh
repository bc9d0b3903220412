// The two loads that share the GPU: requests of many short kernels, and training steps of kernels
// whose blocks take a given time. Plain CUDA.
#ifndef TALLY_BENCHMARKS_COLOCATION_LOADS_CUH
#define TALLY_BENCHMARKS_COLOCATION_LOADS_CUH

#include "training.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace colocation {

/// One layer of a request: reads its weights, computes, and writes the input of the next layer.
static __global__ void layer(const float4 *weights, float *activations, int rounds) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 weight = weights[i];
  float x = activations[i] + weight.x + weight.y + weight.z + weight.w;
  for (int r = 0; r < rounds; ++r)
    x = x * 0.9999f + 0.5f;
  activations[i] = x;
}

struct ServerOptions {
  unsigned layers = 60; ///< kernels of a request
  int rounds = 1000;    ///< of a kernel's loop
  bool graph = false;   ///< the request is one graph
  bool flush = false;   ///< the L2 is overwritten between requests
};

/// Times of kernels launched one behind the other, in microseconds. If the two are about the same,
/// the device waits for the host, and `kernel` is no measure of the device.
struct LaunchPace {
  double kernel = 0, call = 0;
};

/// Serves requests on a stream of the highest priority.
class Server {
public:
  explicit Server(const ServerOptions &options) : options(options) {
    stream = makeStream(priorities().high);
    check(cudaMalloc(&weights, weightLayers * blocks * threads * sizeof(float4)), "cudaMalloc");
    check(cudaMemset(weights, 0, weightLayers * blocks * threads * sizeof(float4)), "cudaMemset");
    check(cudaMalloc(&activations, blocks * threads * sizeof(float)), "cudaMalloc");
    check(cudaMemset(activations, 0, blocks * threads * sizeof(float)), "cudaMemset");
    check(cudaMalloc(&flushed, flushBytes), "cudaMalloc");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    if (options.graph)
      capture();
  }

  RequestLog serve(std::size_t count, double meanPeriod, std::uint64_t seed) {
    return serveOpenLoop(
        count, meanPeriod, seed, [this] { launchFirst(); }, [this] { launchRest(); },
        [this](bool nextIsThere) {
          if (!nextIsThere)
            flush();
        });
  }

  /// Time that a kernel takes the device when the stream always has the next kernel: medians of
  /// some rounds, each of which fills the stream's queue.
  LaunchPace backToBack() {
    constexpr unsigned rounds = 20, kernels = 2000;
    std::vector<double> calls, kernelTimes;
    for (unsigned round = 0; round < rounds; ++round) {
      auto begin = Clock::now();
      for (unsigned i = 0; i < kernels; ++i)
        launch(i);
      calls.push_back(Microseconds(Clock::now() - begin).count() / kernels);
      check(cudaGetLastError(), "launch");
      check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
      kernelTimes.push_back(Microseconds(Clock::now() - begin).count() / kernels);
    }
    auto median = [](std::vector<double> &values) {
      auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
      std::nth_element(values.begin(), middle, values.end());
      return *middle;
    };
    return {median(kernelTimes), median(calls)};
  }

protected: // a request, for a derived class that puts calls around it
  cudaStream_t requestStream() const { return stream; }
  void launchFirst() {
    if (graph)
      check(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
    else
      launch(0);
  }
  void launchRest() {
    for (unsigned i = 1; !graph && i < options.layers; ++i)
      launch(i);
    check(cudaGetLastError(), "launch");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }

private:
  static constexpr unsigned blocks = 132, weightLayers = 16;
  static constexpr std::size_t flushBytes = std::size_t{128} << 20;

  void launch(unsigned index) {
    layer<<<blocks, threads, 0, stream>>>(weights + index % weightLayers * blocks * threads,
                                          activations, options.rounds);
  }
  void capture() {
    cudaGraph_t recorded = nullptr;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin capture");
    for (unsigned i = 0; i < options.layers; ++i)
      launch(i);
    check(cudaStreamEndCapture(stream, &recorded), "end capture");
    check(cudaGraphInstantiate(&graph, recorded, 0), "cudaGraphInstantiate");
    check(cudaGraphUpload(graph, stream), "cudaGraphUpload");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  void flush() {
    if (!options.flush)
      return;
    check(cudaMemsetAsync(flushed, 0, flushBytes, stream), "cudaMemsetAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }

  ServerOptions options;
  cudaStream_t stream = nullptr;
  cudaGraphExec_t graph = nullptr;
  float4 *weights = nullptr;
  float *activations = nullptr;
  void *flushed = nullptr;
};

} // namespace colocation

#endif
