#include "requests.h"

#include "kernels.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace tally::programs {

namespace {

constexpr std::uint32_t wordCount = 64, rounds = 4;

void must(cudaError_t status) {
  if (status == cudaSuccess)
    return;
  std::printf("FAILED a request: %s\n", cudaGetErrorName(status));
  std::fflush(stdout);
  std::_Exit(3);
}

/// The value that Mix computes from a word that is zero.
std::uint32_t expected(std::uint32_t index, std::uint32_t value) {
  std::uint32_t word = 0;
  for (std::uint32_t r = 0; r < rounds; ++r)
    word = word * 1664525u + value + index;
  return word;
}

} // namespace

Requests::Requests(std::chrono::microseconds most) : most(most), thread([this] { loop(); }) {}

Requests::~Requests() {
  stopping = true;
  thread.join();
}

std::vector<std::chrono::nanoseconds> Requests::takeLatencies() {
  std::unique_lock lock(mutex);
  std::vector<std::chrono::nanoseconds> taken = std::move(latencies);
  latencies.clear();
  std::sort(taken.begin(), taken.end());
  return taken;
}

void Requests::serve(std::uint32_t *words, std::uint32_t *answer, void *handle,
                     std::uint32_t value) {
  auto stream = static_cast<cudaStream_t>(handle);
  PackedCall packed;
  pack({KernelId::Mix, words, nullptr, nullptr, wordCount, value, rounds, nullptr}, packed);
  must(cudaMemsetAsync(words, 0, wordCount * sizeof *words, stream));
  must(cudaLaunchKernel(packed.function, packed.grid, packed.block, packed.arguments, 0, stream));
  must(cudaMemcpyAsync(answer, words, wordCount * sizeof *words, cudaMemcpyDeviceToHost, stream));
  must(cudaStreamSynchronize(stream));
  for (std::uint32_t i = 0; i < wordCount; ++i)
    if (answer[i] != expected(i, value))
      wrong = true;
}

void Requests::loop() {
  int least = 0, greatest = 0;
  cudaStream_t stream = nullptr;
  std::uint32_t *words = nullptr, *answer = nullptr;
  must(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  must(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  must(cudaMalloc(reinterpret_cast<void **>(&words), wordCount * sizeof *words));
  must(cudaMallocHost(reinterpret_cast<void **>(&answer), wordCount * sizeof *words));
  std::mt19937 random(1);
  while (!stopping) {
    std::this_thread::sleep_for(most * (random() % 1000) / 1000);
    auto arrived = std::chrono::steady_clock::now();
    serve(words, answer, stream, static_cast<std::uint32_t>(random()));
    auto took = std::chrono::steady_clock::now() - arrived;
    std::unique_lock lock(mutex);
    latencies.push_back(took);
  }
  must(cudaFree(words));
  must(cudaFreeHost(answer));
  must(cudaStreamDestroy(stream));
}

} // namespace tally::programs
