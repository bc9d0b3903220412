// Batch norm over rows of channels, followed by ReLU, and the gradients of pooling. A thread has a
// piece of 8 channels; two kernels sum over rows, always in the same order.
#ifndef TALLY_BENCHMARKS_WORKLOADS_KERNELS_BATCH_NORM_CUH
#define TALLY_BENCHMARKS_WORKLOADS_KERNELS_BATCH_NORM_CUH

#include "images.cuh"

namespace workloads::batch_norm {

constexpr int rowsPerRun = 256, runThreads = 256;

__device__ __forceinline__ void unpack(const Piece &piece, float (&values)[8]) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    float2 pair = __half22float2(piece.pairs[j]);
    values[2 * j] = pair.x;
    values[2 * j + 1] = pair.y;
  }
}
__device__ __forceinline__ Piece pack(const float (&values)[8]) {
  Piece piece;
#pragma unroll
  for (int j = 0; j < 4; ++j)
    piece.pairs[j] = __floats2half2_rn(values[2 * j], values[2 * j + 1]);
  return piece;
}

/// Sums two figures over a run of rows, for the 64 channels of the block: 8 pieces across, 32 rows
/// at once. `add(at, sums)` adds the figures of the piece with that index.
template <class Add>
__device__ __forceinline__ void sumRun(float *partials, int rowCount, int channels, Add add) {
  __shared__ float scratch[runThreads / 8][8][16];
  int piece = threadIdx.x % 8, line = threadIdx.x / 8, perRow = channels / 8;
  int column = blockIdx.x * 8 + piece;
  int begin = blockIdx.y * rowsPerRun, end = min(rowCount, begin + rowsPerRun);
  float sums[16] = {};
  if (column < perRow)
    for (int row = begin + line; row < end; row += runThreads / 8)
      add(static_cast<long long>(row) * perRow + column, sums);
#pragma unroll
  for (int j = 0; j < 16; ++j)
    scratch[line][piece][j] = sums[j];
  __syncthreads();
  // A thread adds up one figure of one channel: 8 pieces x 16.
  if (threadIdx.x < 128) {
    int of = threadIdx.x / 16, j = threadIdx.x % 16;
    float sum = 0.0f;
    for (int i = 0; i < runThreads / 8; ++i)
      sum += scratch[i][of][j];
    int channel = (blockIdx.x * 8 + of) * 8 + j % 8;
    if (channel < channels)
      partials[(static_cast<long long>(blockIdx.y) * 2 + j / 8) * channels + channel] = sum;
  }
}

/// partials[run] = sums of the values, then of their squares, over the run's rows.
/// Grid: ceil(channels / 64), ceil(rows / 256). Block: 256.
static __global__ void __launch_bounds__(runThreads)
    sumValues(const __half *in, float *partials, int rowCount, int channels) {
  sumRun(partials, rowCount, channels, [in](long long at, float (&sums)[16]) {
    float values[8];
    unpack(reinterpret_cast<const Piece *>(in)[at], values);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      sums[j] += values[j];
      sums[8 + j] += values[j] * values[j];
    }
  });
}

/// statistics[channel] = (mean, 1 / sqrt(variance + epsilon)). Grid: ceil(channels / 256). Block:
/// 256.
static __global__ void finishStatistics(const float *partials, float2 *statistics, int runs,
                                        int rowCount, int channels, float epsilon) {
  int channel = blockIdx.x * 256 + threadIdx.x;
  if (channel >= channels)
    return;
  double sum = 0, squares = 0;
  for (int run = 0; run < runs; ++run) {
    sum += partials[static_cast<long long>(run) * 2 * channels + channel];
    squares += partials[(static_cast<long long>(run) * 2 + 1) * channels + channel];
  }
  double mean = sum / rowCount, variance = squares / rowCount - mean * mean;
  statistics[channel] = make_float2(static_cast<float>(mean),
                                    rsqrtf(fmaxf(static_cast<float>(variance), 0.0f) + epsilon));
}

/// out = norm(in) * gain + shift, plus `residual` if there is one; then ReLU if `activate`. Grid:
/// ceil(rows * channels / 8 / 256). Block: 256.
static __global__ void normalize(const __half *in, const float2 *statistics, const __half *gain,
                                 const __half *shift, const __half *residual, __half *out,
                                 int pieces, int channels, bool activate) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= pieces)
    return;
  float values[8], more[8] = {};
  unpack(reinterpret_cast<const Piece *>(in)[i], values);
  if (residual)
    unpack(reinterpret_cast<const Piece *>(residual)[i], more);
  int first = i % (channels / 8) * 8;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    float2 known = statistics[first + j];
    values[j] = (values[j] - known.x) * known.y * __half2float(gain[first + j]) +
                __half2float(shift[first + j]) + more[j];
    if (activate)
      values[j] = fmaxf(values[j], 0.0f);
  }
  reinterpret_cast<Piece *>(out)[i] = pack(values);
}

/// gradient = 0 where the ReLU's result is 0. Grid: ceil(pieces / 256). Block: 256.
static __global__ void maskGradient(__half *gradient, const __half *out, int pieces) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= pieces)
    return;
  float values[8], results[8];
  unpack(reinterpret_cast<const Piece *>(gradient)[i], values);
  unpack(reinterpret_cast<const Piece *>(out)[i], results);
#pragma unroll
  for (int j = 0; j < 8; ++j)
    values[j] = results[j] > 0.0f ? values[j] : 0.0f;
  reinterpret_cast<Piece *>(gradient)[i] = pack(values);
}

/// partials[run] = sums of the gradient times the normed value, then of the gradient: the gradients
/// of gain and shift. Grid and block as in sumValues.
static __global__ void __launch_bounds__(runThreads)
    sumGradients(const __half *gradient, const __half *in, const float2 *statistics,
                 float *partials, int rowCount, int channels) {
  sumRun(partials, rowCount, channels, [=](long long at, float (&sums)[16]) {
    float arriving[8], values[8];
    unpack(reinterpret_cast<const Piece *>(gradient)[at], arriving);
    unpack(reinterpret_cast<const Piece *>(in)[at], values);
    int first = static_cast<int>(at % (channels / 8)) * 8;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      float2 known = statistics[first + j];
      sums[j] += arriving[j] * (values[j] - known.x) * known.y;
      sums[8 + j] += arriving[j];
    }
  });
}

/// gradients = sums over the runs, of the first `count` figures of each run's `stride`.
/// Grid: ceil(count / 256). Block: 256.
static __global__ void addRuns(const float *partials, float *gradients, int runs, int stride,
                               int count) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= count)
    return;
  float sum = 0.0f;
  for (int run = 0; run < runs; ++run)
    sum += partials[static_cast<long long>(run) * stride + i];
  gradients[i] = sum;
}

/// gradient = gradient of the norm's input, in place. `sums`: of gain, then of shift.
/// Grid: ceil(pieces / 256). Block: 256.
static __global__ void normalizeGradient(__half *gradient, const __half *in,
                                         const float2 *statistics, const __half *gain,
                                         const float *sums, int pieces, int channels,
                                         float inverseRows) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= pieces)
    return;
  float arriving[8], values[8];
  unpack(reinterpret_cast<const Piece *>(gradient)[i], arriving);
  unpack(reinterpret_cast<const Piece *>(in)[i], values);
  int first = i % (channels / 8) * 8;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    float2 known = statistics[first + j];
    float normed = (values[j] - known.x) * known.y;
    arriving[j] =
        __half2float(gain[first + j]) * known.y *
        (arriving[j] - (sums[channels + first + j] + normed * sums[first + j]) * inverseRows);
  }
  reinterpret_cast<Piece *>(gradient)[i] = pack(arriving);
}

/// gradient of each pixel = sum of the gradients of the windows in which the pixel was the largest.
/// Grid: ceil(pieces of the input / 256). Block: 256.
static __global__ void maxPoolGradient(const __half *arriving, const unsigned char *places,
                                       __half *gradient, images::Pooling pooling, int pieces) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= pieces)
    return;
  int perRow = pooling.channels / 8, piece = i % perRow, pixel = i / perRow;
  int x = pixel % pooling.width, y = pixel / pooling.width % pooling.height;
  int image = pixel / pooling.width / pooling.height;
  float sums[8] = {};
  for (int row = y / 2; row <= (y + 1) / 2 && row < pooling.rows; ++row)
    for (int column = x / 2; column <= (x + 1) / 2 && column < pooling.columns; ++column) {
      int tap = (y - (row * 2 - 1)) * 3 + x - (column * 2 - 1);
      long long at =
          ((static_cast<long long>(image) * pooling.rows + row) * pooling.columns + column) *
              perRow +
          piece;
      float values[8];
      unpack(reinterpret_cast<const Piece *>(arriving)[at], values);
#pragma unroll
      for (int j = 0; j < 8; ++j)
        sums[j] += places[at * 8 + j] == tap ? values[j] : 0.0f;
    }
  reinterpret_cast<Piece *>(gradient)[i] = pack(sums);
}

/// gradient of each pixel = gradient of the image's mean over `pixels`. Grid: ceil(pieces / 256).
/// Block: 256.
static __global__ void averagePoolGradient(const __half *arriving, __half *gradient, int pixels,
                                           int channels, int pieces) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= pieces)
    return;
  int perRow = channels / 8, image = i / perRow / pixels;
  float values[8];
  unpack(reinterpret_cast<const Piece *>(arriving)[image * perRow + i % perRow], values);
#pragma unroll
  for (float &each : values)
    each /= static_cast<float>(pixels);
  reinterpret_cast<Piece *>(gradient)[i] = pack(values);
}

/// Momentum of 0.9; `scale` turns the gradient of a sum into the gradient of a mean. Grid:
/// ceil(count / 256). Block: 256.
static __global__ void momentumUpdate(float *weights, __half *rounded, float *momentum,
                                      const float *gradients, float scale, float rate, int count) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= count)
    return;
  float moved = 0.9f * momentum[i] + gradients[i] * scale;
  momentum[i] = moved;
  float weight = weights[i] - rate * moved;
  weights[i] = weight;
  rounded[i] = __float2half_rn(weight);
}

} // namespace workloads::batch_norm

#endif
