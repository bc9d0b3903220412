// The two loads that share the GPU: requests of many short kernels, and training steps of kernels
// whose blocks take a given time. Plain CUDA.
#ifndef TALLY_BENCHMARKS_COLOCATION_LOADS_CUH
#define TALLY_BENCHMARKS_COLOCATION_LOADS_CUH

#include "common.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

namespace colocation {

constexpr unsigned threads = 256;

/// One layer of a request: reads its weights, computes, writes what the next one starts from.
static __global__ void layer(const float4 *weights, float *activations, int rounds) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 weight = weights[i];
  float x = activations[i] + weight.x + weight.y + weight.z + weight.w;
  for (int r = 0; r < rounds; ++r)
    x = x * 0.9999f + 0.5f;
  activations[i] = x;
}

/// One kernel of a training step. Every thread counts its runs, so that a block which is left out
/// or runs twice shows.
static __global__ void step(unsigned *runs, int rounds) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned known = runs[i];
  float x = static_cast<float>(known);
  for (int r = 0; r < rounds; ++r)
    x = x * 0.9999f + 0.5f;
  // Never so; but the compiler does not know.
  runs[i] = x < 0 ? 0 : known + 1;
}

struct ServerOptions {
  unsigned layers = 60; ///< kernels of a request
  int rounds = 1000;    ///< of a kernel's loop
  bool graph = false;   ///< the request is one graph
  bool flush = false;   ///< the L2 is overwritten between requests
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
        [this] { flush(); });
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

struct TrainerOptions {
  unsigned blocks = 67584;
  int rounds = 1000;
  unsigned kernelsPerStep = 16; ///< launched one behind the other, then synchronised
  unsigned streams = 1;         ///< steps go round them
};

/// Trains on streams of the lowest priority, from a thread of its own.
class Trainer {
public:
  explicit Trainer(const TrainerOptions &options) : options(options) {
    for (unsigned i = 0; i < options.streams; ++i)
      streams.push_back(makeStream(priorities().low));
    runs.resize(options.streams);
    for (unsigned *&each : runs) {
      check(cudaMalloc(&each, bytes()), "cudaMalloc");
      check(cudaMemset(each, 0, bytes()), "cudaMemset");
    }
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  void start() {
    stopping = false;
    ends.clear();
    thread = std::thread([this] {
      while (!stopping)
        train();
    });
  }
  void stop() {
    stopping = true;
    thread.join();
  }
  double kernelsPerSecond(Clock::time_point begin, Clock::time_point end) const {
    return colocation::kernelsPerSecond(ends, options.kernelsPerStep * options.streams, begin, end);
  }
  /// Threads that did not run once in each kernel.
  std::size_t wrongThreads() const {
    std::size_t wrong = 0;
    std::vector<unsigned> found(std::size_t{options.blocks} * threads);
    for (unsigned *each : runs) {
      check(cudaMemcpy(found.data(), each, bytes(), cudaMemcpyDeviceToHost), "cudaMemcpy");
      for (unsigned count : found)
        wrong += count != launched;
    }
    return wrong;
  }

private:
  std::size_t bytes() const { return std::size_t{options.blocks} * threads * sizeof(unsigned); }
  void train() {
    for (unsigned i = 0; i < options.kernelsPerStep; ++i)
      for (std::size_t s = 0; s < streams.size(); ++s)
        step<<<options.blocks, threads, 0, streams[s]>>>(runs[s], options.rounds);
    check(cudaGetLastError(), "launch");
    for (cudaStream_t each : streams)
      check(cudaStreamSynchronize(each), "cudaStreamSynchronize");
    launched += options.kernelsPerStep;
    ends.push_back(Clock::now());
  }

  TrainerOptions options;
  std::vector<cudaStream_t> streams;
  std::vector<unsigned *> runs;
  unsigned launched = 0;
  std::atomic<bool> stopping{false};
  std::vector<Clock::time_point> ends; // of steps
  std::thread thread;
};

/// The loops' rounds that make a block of a full GPU take `microseconds`.
inline int trainingRounds(double microseconds) {
  constexpr unsigned waves = 4, blocksPerSm = 2048 / threads;
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  unsigned blocks = waves * blocksPerSm * static_cast<unsigned>(device.multiProcessorCount);
  unsigned *runs = nullptr;
  check(cudaMalloc(&runs, std::size_t{blocks} * threads * sizeof(unsigned)), "cudaMalloc");
  check(cudaMemset(runs, 0, std::size_t{blocks} * threads * sizeof(unsigned)), "cudaMemset");
  auto time = [&](int rounds) {
    double best = 1e30;
    for (int repetition = 0; repetition < 20; ++repetition) {
      check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      auto start = Clock::now();
      step<<<blocks, threads>>>(runs, rounds);
      check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      best = std::min(best, Microseconds(Clock::now() - start).count());
    }
    return best;
  };
  // A slope, so that what a launch costs does not count.
  constexpr int few = 2000, many = 22000;
  double perRound = (time(many) - time(few)) / (many - few) / waves;
  check(cudaFree(runs), "cudaFree");
  return std::max(1, static_cast<int>(std::lround(microseconds / perRound)));
}

} // namespace colocation

#endif
