// Kernels that add up.
#ifndef INFERENCE_SERVER_KERNELS_REDUCTION_CUH
#define INFERENCE_SERVER_KERNELS_REDUCTION_CUH

#include "sums.cuh"

// out[i] = sum over s of partials[s][i]. Grid: ceil(count / 32). Block: 32x8.
extern "C" __global__ void sum_splits(const float *partials, float *out, int count, int splits) {
  int i = blockIdx.x * 32 + threadIdx.x;
  float sum = 0.0f;
  if (i < count)
    for (int s = threadIdx.y; s < splits; s += 8)
      sum += partials[static_cast<long long>(s) * count + i];
  sum = reduction::sumOverRows(sum);
  if (threadIdx.y == 0 && i < count)
    out[i] = sum;
}

// partials[y][column] = sum of the y-th run of `rowsPerBlock` rows. Grid: ceil(columns / 32),
// ceil(rows / rowsPerBlock). Block: 32x8.
extern "C" __global__ void column_sum(const float *in, float *partials, int rows, int columns,
                                      int rowsPerBlock) {
  int column = blockIdx.x * 32 + threadIdx.x;
  int begin = blockIdx.y * rowsPerBlock;
  int end = min(rows, begin + rowsPerBlock);
  float sum = 0.0f;
  if (column < columns)
    for (int row = begin + threadIdx.y; row < end; row += 8)
      sum += in[row * columns + column];
  sum = reduction::sumOverRows(sum);
  if (threadIdx.y == 0 && column < columns)
    partials[blockIdx.y * columns + column] = sum;
}

// out[b][column] = mean over the sequence. Grid: ceil(columns / 32), batch. Block: 32x8.
extern "C" __global__ void mean_pool(const float *in, float *out, int sequence, int columns) {
  int column = blockIdx.x * 32 + threadIdx.x;
  float sum = 0.0f;
  if (column < columns)
    for (int position = threadIdx.y; position < sequence; position += 8)
      sum += in[(blockIdx.y * sequence + position) * columns + column];
  sum = reduction::sumOverRows(sum);
  if (threadIdx.y == 0 && column < columns)
    out[blockIdx.y * columns + column] = sum / static_cast<float>(sequence);
}

// *out += the sum of `in`. The order of the additions is that of the atomics, so the last bits
// differ from run to run: the sum is for display, and training must not depend on it. Grid: any.
// Block: 256.
extern "C" __global__ void __launch_bounds__(256)
    accumulate_sum(const float *in, float *out, int count) {
  __shared__ float scratch[8];
  float sum = 0.0f;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < count; i += gridDim.x * 256)
    sum += in[i];
  sum = reduction::blockSum<8>(sum, scratch);
  if (threadIdx.x == 0)
    atomicAdd(out, sum);
}

#endif
