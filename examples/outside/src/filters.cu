#include "filters.h"

namespace {

constexpr int blockWidth = 128;
__constant__ float filterTaps[2 * filterRadius + 1];

__global__ void filterRow(const float *input, float *output, int width) {
  __shared__ float row[blockWidth + 2 * filterRadius];
  const float *line = input + static_cast<size_t>(blockIdx.y) * width;
  int first = blockIdx.x * blockWidth;
  for (int i = threadIdx.x; i < blockWidth + 2 * filterRadius; i += blockWidth) {
    int x = first + i - filterRadius;
    row[i] = x >= 0 && x < width ? line[x] : 0.0f;
  }
  __syncthreads();
  int x = first + threadIdx.x;
  if (x >= width)
    return;
  float sum = 0;
  for (int tap = 0; tap <= 2 * filterRadius; ++tap)
    sum += filterTaps[tap] * row[threadIdx.x + tap];
  output[static_cast<size_t>(blockIdx.y) * width + x] = sum;
}

/// One block sums all elements, so that the order of the sum is fixed.
__global__ void sumAll(const float *input, int count, float *sum) {
  __shared__ float partial[256];
  float mine = 0;
  for (int i = threadIdx.x; i < count; i += 256)
    mine += input[i];
  partial[threadIdx.x] = mine;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half)
      partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0)
    *sum = partial[0];
}

} // namespace

cudaError_t setFilter(const float *taps, cudaStream_t stream) {
  return cudaMemcpyToSymbolAsync(filterTaps, taps, sizeof(filterTaps), 0, cudaMemcpyHostToDevice,
                                 stream);
}

cudaError_t filterRows(const float *input, float *output, int width, int height,
                       cudaStream_t stream) {
  filterRow<<<dim3((width + blockWidth - 1) / blockWidth, height), blockWidth, 0, stream>>>(
      input, output, width);
  return cudaGetLastError();
}

cudaError_t sumOf(const float *input, int count, float *sum, cudaStream_t stream) {
  sumAll<<<1, 256, 0, stream>>>(input, count, sum);
  return cudaGetLastError();
}
