// The other kernels of a transformer's training step: layer norm, GELU and cross-entropy with their
// gradients in f16 and sums in f32, and Adam on f32 weights, of which it keeps rounded copies.
#ifndef INFERENCE_SERVER_KERNELS_TRAINING_CUH
#define INFERENCE_SERVER_KERNELS_TRAINING_CUH

#include "reduction.cuh"

#include <cuda_fp16.h>

// out = (in - mean) * inverse * gain + shift, a warp a row; statistics[row] = (mean, inverse).
// Grid: ceil(rows / 4). Block: 128.
extern "C" __global__ void __launch_bounds__(128)
    norm_forward(const __half *in, const __half *gain, const __half *shift, __half *out,
                 float2 *statistics, int rows, int columns, float epsilon) {
  int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows)
    return; // the whole warp
  const __half *line = in + static_cast<long long>(row) * columns;
  float sum = 0.0f, squares = 0.0f;
  for (int i = lane; i < columns; i += 32)
    sum += __half2float(line[i]);
  float mean = reduction::warpSum(sum) / static_cast<float>(columns);
  for (int i = lane; i < columns; i += 32) {
    float distance = __half2float(line[i]) - mean;
    squares += distance * distance;
  }
  float inverse = rsqrtf(reduction::warpSum(squares) / static_cast<float>(columns) + epsilon);
  for (int i = lane; i < columns; i += 32)
    out[static_cast<long long>(row) * columns + i] = __float2half_rn(
        (__half2float(line[i]) - mean) * inverse * __half2float(gain[i]) + __half2float(shift[i]));
  if (lane == 0)
    statistics[row] = make_float2(mean, inverse);
}

// inGradient = the norm's gradient with respect to its input, plus `residual` where there is one.
// Grid: ceil(rows / 4). Block: 128.
extern "C" __global__ void __launch_bounds__(128)
    norm_backward(const __half *outGradient, const __half *in, const __half *gain,
                  const float2 *statistics, const __half *residual, __half *inGradient, int rows,
                  int columns) {
  int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows)
    return;
  long long start = static_cast<long long>(row) * columns;
  float2 known = statistics[row];
  float sum = 0.0f, product = 0.0f;
  for (int i = lane; i < columns; i += 32) {
    float scaled = __half2float(outGradient[start + i]) * __half2float(gain[i]);
    sum += scaled;
    product += scaled * (__half2float(in[start + i]) - known.x) * known.y;
  }
  sum = reduction::warpSum(sum) / static_cast<float>(columns);
  product = reduction::warpSum(product) / static_cast<float>(columns);
  for (int i = lane; i < columns; i += 32) {
    float scaled = __half2float(outGradient[start + i]) * __half2float(gain[i]);
    float normed = (__half2float(in[start + i]) - known.x) * known.y;
    float gradient = known.y * (scaled - sum - normed * product);
    if (residual)
      gradient += __half2float(residual[start + i]);
    inGradient[start + i] = __float2half_rn(gradient);
  }
}

// partials[y] = the gradients of gain, then of shift, over the y-th run of rows.
// Grid: ceil(columns / 32), ceil(rows / rowsPerBlock). Block: 32x8.
extern "C" __global__ void norm_weights(const __half *outGradient, const __half *in,
                                        const float2 *statistics, float *partials, int rows,
                                        int columns, int rowsPerBlock) {
  int column = blockIdx.x * 32 + threadIdx.x;
  int begin = blockIdx.y * rowsPerBlock, end = min(rows, begin + rowsPerBlock);
  float gain = 0.0f, shift = 0.0f;
  if (column < columns)
    for (int row = begin + threadIdx.y; row < end; row += 8) {
      long long at = static_cast<long long>(row) * columns + column;
      float gradient = __half2float(outGradient[at]);
      float2 known = statistics[row];
      gain += gradient * (__half2float(in[at]) - known.x) * known.y;
      shift += gradient;
    }
  gain = reduction::sumOverRows(gain);
  __syncthreads(); // The next sum uses the same scratch memory.
  shift = reduction::sumOverRows(shift);
  if (threadIdx.y == 0 && column < columns) {
    partials[blockIdx.y * 2 * columns + column] = gain;
    partials[(blockIdx.y * 2 + 1) * columns + column] = shift;
  }
}

// partials[y][column] = sum of the y-th run of rows: the gradient of a bias. Grid and block as
// norm_weights.
extern "C" __global__ void bias_sum(const __half *gradient, float *partials, int rows, int columns,
                                    int rowsPerBlock) {
  int column = blockIdx.x * 32 + threadIdx.x;
  int begin = blockIdx.y * rowsPerBlock, end = min(rows, begin + rowsPerBlock);
  float sum = 0.0f;
  if (column < columns)
    for (int row = begin + threadIdx.y; row < end; row += 8)
      sum += __half2float(gradient[static_cast<long long>(row) * columns + column]);
  sum = reduction::sumOverRows(sum);
  if (threadIdx.y == 0 && column < columns)
    partials[blockIdx.y * columns + column] = sum;
}

// out = GELU(in), by pairs. Grid: ceil(pairs / 256). Block: 256.
extern "C" __global__ void gelu_forward(const __half2 *in, __half2 *out, int pairs) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= pairs)
    return;
  float2 x = __half22float2(in[i]);
  out[i] = __floats2half2_rn(0.5f * x.x * (1.0f + erff(x.x * 0.70710678f)),
                             0.5f * x.y * (1.0f + erff(x.y * 0.70710678f)));
}

// gradient *= GELU'(in), by pairs. Grid: ceil(pairs / 256). Block: 256.
extern "C" __global__ void gelu_backward(__half2 *gradient, const __half2 *in, int pairs) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= pairs)
    return;
  auto slope = [](float x) {
    return 0.5f * (1.0f + erff(x * 0.70710678f)) + x * 0.39894228f * __expf(-0.5f * x * x);
  };
  float2 x = __half22float2(in[i]), g = __half22float2(gradient[i]);
  gradient[i] = __floats2half2_rn(g.x * slope(x.x), g.y * slope(x.y));
}

// The loss of each row, and the gradient of the losses' sum (not of their mean, which f16 would
// lose) with respect to the logits; a warp a row. Grid: ceil(rows / 4). Block: 128.
extern "C" __global__ void __launch_bounds__(128)
    cross_entropy(const __half *logits, const int *labels, __half *gradient, float *losses,
                  int rows, int classes) {
  int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows)
    return;
  const __half *line = logits + static_cast<long long>(row) * classes;
  float most = -INFINITY, sum = 0.0f;
  for (int i = lane; i < classes; i += 32)
    most = fmaxf(most, __half2float(line[i]));
  most = reduction::warpMaximum(most);
  for (int i = lane; i < classes; i += 32)
    sum += __expf(__half2float(line[i]) - most);
  sum = reduction::warpSum(sum);
  int label = labels[row];
  for (int i = lane; i < classes; i += 32)
    gradient[static_cast<long long>(row) * classes + i] =
        __float2half_rn(__expf(__half2float(line[i]) - most) / sum - (i == label ? 1.0f : 0.0f));
  if (lane == 0)
    losses[row] = __logf(sum) + most - __half2float(line[label]);
}

// Adam. `scale` turns the gradient of the sum into that of the mean; `first` and `second` are
// 1 - 0.9^t and 1 - 0.999^t. Grid: ceil(count / 256). Block: 256.
extern "C" __global__ void adam_update(float *weights, __half *rounded, float2 *moments,
                                       const float *gradients, float scale, float rate, float first,
                                       float second, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  float gradient = gradients[i] * scale;
  float2 moment = moments[i];
  moment.x = 0.9f * moment.x + 0.1f * gradient;
  moment.y = 0.999f * moment.y + 0.001f * gradient * gradient;
  moments[i] = moment;
  float weight = weights[i] - rate * (moment.x / first) / (sqrtf(moment.y / second) + 1e-8f);
  weights[i] = weight;
  rounded[i] = __float2half_rn(weight);
}

#endif
