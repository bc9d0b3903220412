// Atomics count into a managed variable and store the largest value in a __device__ variable. The
// shared library's filter runs its kernels in between, on the same stream.
#include "filters.h"
#include "parts.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace {

constexpr int bins = 64;
__device__ unsigned largest = 7; // less than any counted value; set before each run

#ifdef __clang__
// clang has no __managed__ variables for CUDA.
unsigned *managedCounts() {
  static unsigned *counts = [] {
    unsigned *memory = nullptr;
    CHECK(cudaMallocManaged(&memory, bins * sizeof(unsigned)));
    return memory;
  }();
  return counts;
}
#else
__managed__ unsigned counts[bins];
unsigned *managedCounts() { return counts; }
#endif

__global__ void count(const unsigned *values, int n, unsigned *into) {
  __shared__ unsigned mine[bins];
  for (int i = threadIdx.x; i < bins; i += blockDim.x)
    mine[i] = 0;
  __syncthreads();
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < n) {
    atomicAdd(&mine[values[at] % bins], 1u);
    atomicMax(&largest, values[at]);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < bins; i += blockDim.x)
#ifdef __clang__
    atomicAdd(&into[i], mine[i]);
#else
    atomicAdd(&counts[i], mine[i]);
#endif
}

} // namespace

bool runStatistics(int size) {
  int n = size * size / 4;
  std::vector<unsigned> values(n);
  for (int i = 0; i < n; ++i)
    values[i] = 1000 + i * 2654435761u % 1000003;
  unsigned *device;
  CHECK(cudaMalloc(&device, n * sizeof(unsigned)));
  CHECK(cudaMemcpy(device, values.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
  unsigned zero = 0;
  CHECK(cudaMemcpyToSymbol(largest, &zero, sizeof(zero)));
  unsigned *counted = managedCounts();
  std::fill(counted, counted + bins, 5u); // the host writes managed memory, the device adds

  constexpr int repeats = 5;
  for (int i = 0; i < repeats; ++i)
    count<<<(n + 127) / 128, 128>>>(device, n, counted);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  unsigned found = 0;
  CHECK(cudaMemcpyFromSymbol(&found, largest, sizeof(found)));
  CHECK(cudaFree(device));

  std::vector<unsigned> expected(bins, 5u);
  for (unsigned value : values)
    expected[value % bins] += repeats;
  double worst = std::fabs(double(found) - *std::max_element(values.begin(), values.end()));
  for (int i = 0; i < bins; ++i)
    worst = std::max(worst, std::fabs(double(counted[i]) - expected[i]));
  return report("statistics", std::to_string(repeats) + " counts into managed memory", worst, 0,
                hashOf(counted, bins * sizeof(unsigned)));
}

bool runFilters(int size) {
  int width = size + 5, height = size / 4; // no multiple of the block
  std::vector<float> image(static_cast<std::size_t>(width) * height);
  for (std::size_t i = 0; i < image.size(); ++i)
    image[i] = static_cast<float>(i * 40503u % 256);
  std::size_t bytes = image.size() * sizeof(float);
  std::vector<float> taps(2 * filterRadius + 1, 0.0625f);
  taps[filterRadius] = 0.5f;

  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  float *buffers[2], *sum;
  for (float *&buffer : buffers)
    CHECK(cudaMalloc(&buffer, bytes));
  CHECK(cudaMalloc(&sum, sizeof(float)));
  float *pinned;
  CHECK(cudaMallocHost(&pinned, bytes + sizeof(float)));
  std::copy(image.begin(), image.end(), pinned);
  CHECK(setFilter(taps.data(), stream));
  CHECK(cudaMemcpyAsync(buffers[0], pinned, bytes, cudaMemcpyHostToDevice, stream));
  constexpr int passes = 10;
  for (int i = 0; i < passes; ++i)
    CHECK(filterRows(buffers[i % 2], buffers[1 - i % 2], width, height, stream));
  CHECK(sumOf(buffers[passes % 2], width * height, sum, stream));
  CHECK(cudaMemcpyAsync(pinned, buffers[passes % 2], bytes, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaMemcpyAsync(pinned + image.size(), sum, sizeof(float), cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  std::vector<float> result(pinned, pinned + image.size() + 1);
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFree(sum));
  for (float *buffer : buffers)
    CHECK(cudaFree(buffer));
  CHECK(cudaStreamDestroy(stream));

  for (int pass = 0; pass < passes; ++pass) {
    std::vector<float> next(image.size(), 0.0f);
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x)
        for (int tap = -filterRadius; tap <= filterRadius; ++tap)
          if (x + tap >= 0 && x + tap < width)
            next[y * width + x] += taps[tap + filterRadius] * image[y * width + x + tap];
    image = next;
  }
  double worst = 0, total = std::accumulate(image.begin(), image.end(), 0.0);
  for (std::size_t i = 0; i < image.size(); ++i)
    worst = std::max(worst, std::fabs(double(image[i]) - result[i]));
  worst = std::max(worst, std::fabs(total - result.back()) / total);
  return report("filters", std::to_string(passes) + " passes by the shared library", worst, 1e-3,
                hashOf(result.data(), result.size() * sizeof(float)));
}
