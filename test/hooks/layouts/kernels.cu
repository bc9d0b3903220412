// The enabled code: its own kernels, and products by a library behind it. It does not mention
// Tally.
#include <cstdio>

#include <dlfcn.h>

extern "C" void useEmulatorsOrder();

__global__ void fill(float *to, int count, float value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    to[i] = value;
}

// The size for the emulator; on a GPU it is larger.
#ifndef ELEMENTS
#define ELEMENTS 4096
#define RUNS 1
#endif

using Product = int (*)(void *, const float *, const float *, float *, int);

/// Returns how many of the products are wrong.
static int multiply(Product product, int rounds) {
  constexpr int count = ELEMENTS, blocks = count / 256;
  float *a = nullptr, *b = nullptr, *c = nullptr;
  cudaMalloc(&a, count * sizeof *a);
  cudaMalloc(&b, count * sizeof *b);
  cudaMalloc(&c, count * sizeof *c);
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  int wrong = 0;
  for (int round = 1; round <= rounds; ++round) {
    float value = static_cast<float>(round % 7), got = -1;
    fill<<<blocks, 64, 0, stream>>>(a, count, value);
    fill<<<blocks, 64, 0, stream>>>(b, count, 3.0f);
    wrong += product(stream, a, b, c, count) != 0;
    cudaMemcpyAsync(&got, c + round, sizeof got, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    wrong += got != 3 * value;
  }
  cudaFree(a);
  cudaFree(b);
  cudaFree(c);
  cudaStreamDestroy(stream);
  return wrong;
}

extern "C" int test(Product product) {
  constexpr int rounds = 100;
  useEmulatorsOrder();
  int wrong = 0;
  for (int run = 0; run < RUNS; ++run)
    wrong += multiply(product, rounds);
  auto *launches =
      static_cast<int *>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fakeDriverLaunches"));
  std::printf("%d of %d products wrong, %d launches reached the driver, %s\n", wrong, RUNS * rounds,
              launches ? *launches : -1, cudaGetErrorString(cudaGetLastError()));
  std::fflush(stdout);
  return wrong != 0;
}
