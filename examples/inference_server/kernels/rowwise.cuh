// Kernels that normalise the rows of a matrix.
#ifndef INFERENCE_SERVER_KERNELS_ROWWISE_CUH
#define INFERENCE_SERVER_KERNELS_ROWWISE_CUH

#include "reduction.cuh"

// out = (in - mean) / sqrt(variance + epsilon) * gain + shift, row by row. Grid: rows. Block: 128.
extern "C" __global__ void __launch_bounds__(128)
    layer_norm(const float *in, const float *gain, const float *shift, float *out, int columns,
               float epsilon) {
  __shared__ float scratch[4];
  const float *row = in + blockIdx.x * columns;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += 128)
    sum += row[i];
  float mean = reduction::blockSum<4>(sum, scratch) / static_cast<float>(columns);
  float squares = 0.0f;
  for (int i = threadIdx.x; i < columns; i += 128)
    squares += (row[i] - mean) * (row[i] - mean);
  float variance = reduction::blockSum<4>(squares, scratch) / static_cast<float>(columns);
  float inverse = rsqrtf(variance + epsilon);
  for (int i = threadIdx.x; i < columns; i += 128)
    out[blockIdx.x * columns + i] = (row[i] - mean) * inverse * gain[i] + shift[i];
}

// The loss of each row, and the gradient of the mean loss with respect to the logits; one warp a
// row. Grid: ceil(rows / 4). Block: 128.
extern "C" __global__ void __launch_bounds__(128)
    softmax_cross_entropy(const float *logits, const int *labels, float *gradient, float *losses,
                          int rows, int classes) {
  int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows)
    return; // The whole warp takes part, since a warp has one row.
  const float *line = logits + row * classes;
  float maximum = -INFINITY;
  for (int i = lane; i < classes; i += 32)
    maximum = fmaxf(maximum, line[i]);
  maximum = reduction::warpMaximum(maximum);
  float sum = 0.0f;
  for (int i = lane; i < classes; i += 32)
    sum += __expf(line[i] - maximum);
  sum = reduction::warpSum(sum);
  int label = labels[row];
  float scale = 1.0f / static_cast<float>(rows);
  for (int i = lane; i < classes; i += 32)
    gradient[row * classes + i] =
        (__expf(line[i] - maximum) / sum - (i == label ? 1.0f : 0.0f)) * scale;
  if (lane == 0)
    losses[row] = __logf(sum) + maximum - line[label];
}

#endif
