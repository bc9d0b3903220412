// A chain of kernels that depend on each other, launched one after the other on one stream, with no
// other work on the GPU: the cost of best effort for short kernels. The program does not use tally;
// chain_plain is the same program without tally.
//
//   TALLY_CLASS=best-effort TALLY_RUN_AHEAD_US=0 chain [BLOCKS] [LAUNCHES] [NODES]
//
// By default 264 blocks of 256 threads, 10000 launches. With NODES the program captures a graph of
// so many kernels, and launches the kernels as replays of that graph. Prints microseconds a kernel
// for kernels of several lengths, the best of three rounds each.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int threads = 256;

__global__ void work(float *data, int rounds) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = data[i];
  for (int r = 0; r < rounds; ++r)
    x = x * 1.0001f + 0.5f;
  data[i] = x;
}

void check(cudaError_t status, const char *what) {
  if (status == cudaSuccess)
    return;
  std::fprintf(stderr, "chain: %s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

/// Captures `nodes` kernels of the chain as a graph.
cudaGraphExec_t captured(cudaStream_t stream, int nodes, int blocks, float *data, int rounds) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  for (int i = 0; i < nodes; ++i)
    work<<<blocks, threads, 0, stream>>>(data, rounds);
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  return executable;
}

/// Launches `count` kernels, as launches or as replays of a graph of `nodes`. Returns the number of
/// kernels launched.
int launch(cudaStream_t stream, int count, int blocks, float *data, int rounds, int nodes,
           cudaGraphExec_t graph) {
  if (!graph) {
    for (int i = 0; i < count; ++i)
      work<<<blocks, threads, 0, stream>>>(data, rounds);
    return count;
  }
  int replays = std::max(count / nodes, 1);
  for (int i = 0; i < replays; ++i)
    check(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
  return replays * nodes;
}

} // namespace

int main(int argc, char **argv) {
  int blocks = argc > 1 ? std::atoi(argv[1]) : 264;
  int launches = argc > 2 ? std::atoi(argv[2]) : 10000;
  int nodes = argc > 3 ? std::atoi(argv[3]) : 0;
  if (blocks <= 0 || launches <= 0 || nodes < 0) {
    std::fprintf(stderr, "usage: chain [BLOCKS] [LAUNCHES] [NODES]\n");
    return 2;
  }
  float *data = nullptr;
  std::size_t bytes = static_cast<std::size_t>(blocks) * threads * sizeof(float);
  check(cudaMalloc(&data, bytes), "cudaMalloc");
  check(cudaMemset(data, 0, bytes), "cudaMemset");
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  for (int rounds : {200, 1500, 3500, 8000, 40000}) {
    int count = rounds > 10000 ? std::max(launches / 5, 1) : launches;
    double best = 0;
    cudaGraphExec_t graph = nodes > 0 ? captured(stream, nodes, blocks, data, rounds) : nullptr;
    for (int repetition = 0; repetition < 4; ++repetition) {
      auto start = std::chrono::steady_clock::now();
      int made = launch(stream, count, blocks, data, rounds, nodes, graph);
      check(cudaGetLastError(), "launch");
      check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
      std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
      // The first round warms up.
      if (repetition == 1 || (repetition > 1 && took.count() / made < best))
        best = took.count() / made;
    }
    if (graph)
      check(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy");
    std::printf("%d blocks, %6d rounds: %8.2f us a kernel\n", blocks, rounds, best);
  }
}
