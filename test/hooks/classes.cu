// Two classes in one process: a stream of low and one of high priority, from two threads, with
// events across. The program does not mention Tally; the priorities make the low one best effort.
//
//   classes [STEPS [ROUNDS [WEIGHTS]]]   rounds of work in a thread; weights, a multiple of 64
#include "check.h"

#include <thread>
#include <vector>

namespace {

__global__ void train(unsigned *weights, int n, int rounds) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    unsigned w = weights[i];
    for (int r = 0; r < rounds; ++r)
      w = w * 1664525u + 1013904223u;
    weights[i] = w;
  }
}

__global__ void serve(unsigned *answers, const unsigned *weights, unsigned request) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  answers[i] = weights[i] ^ (request * 2654435761u);
}

unsigned trained(unsigned w, long rounds) {
  for (long r = 0; r < rounds; ++r)
    w = w * 1664525u + 1013904223u;
  return w;
}

} // namespace

int main(int argc, char **argv) {
  int steps = argc > 1 ? std::atoi(argv[1]) : 30;
  int rounds = argc > 2 ? std::atoi(argv[2]) : 4;
  int n = argc > 3 ? std::atoi(argv[3]) : 1 << 14;
  const int width = 256;
  int lowest = 0, highest = 0;
  MUST(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  cudaStream_t low, high;
  MUST(cudaStreamCreateWithPriority(&low, cudaStreamNonBlocking, lowest));
  MUST(cudaStreamCreateWithPriority(&high, cudaStreamNonBlocking, highest));
  unsigned *weights, *frozen, *answers;
  MUST(cudaMalloc(&weights, n * sizeof(unsigned)));
  MUST(cudaMalloc(&frozen, n * sizeof(unsigned)));
  MUST(cudaMalloc(&answers, width * sizeof(unsigned)));
  std::vector<unsigned> host(n);
  for (int i = 0; i < n; ++i)
    host[i] = static_cast<unsigned>(i);
  MUST(cudaMemcpy(weights, host.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(frozen, host.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
  MUST(cudaDeviceSynchronize());

  std::thread trainer([&] {
    for (int i = 0; i < steps; ++i)
      train<<<n / 64, 64, 0, low>>>(weights, n, rounds);
    MUST(cudaGetLastError());
    MUST(cudaStreamSynchronize(low));
  });
  std::vector<unsigned> got(width);
  int wrong = 0;
  for (int request = 1; request <= steps; ++request) {
    serve<<<width / 64, 64, 0, high>>>(answers, frozen, static_cast<unsigned>(request));
    MUST(cudaMemcpyAsync(got.data(), answers, width * sizeof(unsigned), cudaMemcpyDeviceToHost,
                         high));
    MUST(cudaStreamSynchronize(high));
    for (int i = 0; i < width; ++i)
      wrong +=
          got[i] != (static_cast<unsigned>(i) ^ (static_cast<unsigned>(request) * 2654435761u));
  }
  EXPECT(wrong == 0);
  trainer.join();

  // A request that needs the newest weights waits for the trainer's event.
  cudaEvent_t updated;
  MUST(cudaEventCreateWithFlags(&updated, cudaEventDisableTiming));
  train<<<n / 64, 64, 0, low>>>(weights, n, rounds);
  MUST(cudaEventRecord(updated, low));
  MUST(cudaStreamWaitEvent(high, updated, 0));
  serve<<<width / 64, 64, 0, high>>>(answers, weights, 0);
  MUST(
      cudaMemcpyAsync(got.data(), answers, width * sizeof(unsigned), cudaMemcpyDeviceToHost, high));
  MUST(cudaStreamSynchronize(high));
  for (int i = 0; i < width; i += 64)
    EXPECT(got[i] == trained(static_cast<unsigned>(i), static_cast<long>(rounds) * (steps + 1)));
  MUST(cudaMemcpy(host.data(), weights, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
  for (int i = n / 64; i < n; i += n / 16)
    EXPECT(host[i] == trained(static_cast<unsigned>(i), static_cast<long>(rounds) * (steps + 1)));
  return verdict();
}
