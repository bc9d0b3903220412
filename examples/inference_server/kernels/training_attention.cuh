// Attention of short sequences for training: one block computes one whole head of one sequence, so
// that the gradients of keys and values are sums within the block. f16 in memory, f32 here.
#ifndef INFERENCE_SERVER_KERNELS_TRAINING_ATTENTION_CUH
#define INFERENCE_SERVER_KERNELS_TRAINING_ATTENTION_CUH

#include <cuda_fp16.h>

namespace training_attention {

constexpr int positions = 32, maximumHeadSize = 64, threads = 128;
constexpr int padded = maximumHeadSize + 1; // spreads the banks

using Lines = float[positions][padded];
using Square = float[positions][positions + 1];

// One head's `count` lines; `from` is the first line, `stride` halves apart.
__device__ __forceinline__ void load(Lines &to, const __half *from, int count, int headSize,
                                     int stride) {
  for (int i = threadIdx.x; i < positions * headSize; i += threads) {
    int row = i / headSize, column = i % headSize;
    to[row][column] =
        row < count ? __half2float(from[static_cast<long long>(row) * stride + column]) : 0.0f;
  }
}

// Probabilities of every query's keys. Four neighbouring threads share a query, with eight keys
// each.
__device__ __forceinline__ void probabilities(Square &to, const Lines &query, const Lines &key,
                                              int count, int headSize, float scale) {
  int row = threadIdx.x / 4, first = threadIdx.x % 4 * 8;
  float scores[8], most = -INFINITY;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    float sum = 0.0f;
    for (int d = 0; d < headSize; ++d)
      sum += query[row][d] * key[first + j][d];
    scores[j] = first + j < count ? sum * scale : -INFINITY;
    most = fmaxf(most, scores[j]);
  }
  for (int distance = 1; distance < 4; distance *= 2)
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, distance));
  float total = 0.0f;
#pragma unroll
  for (int j = 0; j < 8; ++j)
    total += scores[j] = __expf(scores[j] - most);
  for (int distance = 1; distance < 4; distance *= 2)
    total += __shfl_xor_sync(0xffffffffu, total, distance);
#pragma unroll
  for (int j = 0; j < 8; ++j)
    to[row][first + j] = scores[j] / total;
}

// to[row] = sum over j of weights[row][j], or [j][row] when transposed, times lines[j].
template <bool transposed>
__device__ __forceinline__ void weighted(__half *to, const Square &weights, const Lines &lines,
                                         int count, int headSize, int stride) {
  for (int i = threadIdx.x; i < count * headSize; i += threads) {
    int row = i / headSize, column = i % headSize;
    float sum = 0.0f;
    for (int j = 0; j < positions; ++j)
      sum += (transposed ? weights[j][row] : weights[row][j]) * lines[j][column];
    to[static_cast<long long>(row) * stride + column] = __float2half_rn(sum);
  }
}

} // namespace training_attention

// out[b, position, head] = softmax(q k^T * scale) v; `qkv` is [batch * sequence][3 * heads *
// headSize]. sequence <= 32, headSize <= 64. Grid: heads, batch. Block: 128.
extern "C" __global__ void __launch_bounds__(128)
    training_attention_forward(const __half *qkv, __half *out, int sequence, int headSize,
                               float scale) {
  using namespace training_attention;
  __shared__ Lines query, key, value;
  __shared__ Square weights;
  int width = gridDim.x * headSize, stride = 3 * width;
  long long row = static_cast<long long>(blockIdx.y) * sequence;
  const __half *from = qkv + row * stride + blockIdx.x * headSize;
  load(query, from, sequence, headSize, stride);
  load(key, from + width, sequence, headSize, stride);
  load(value, from + 2 * width, sequence, headSize, stride);
  __syncthreads();
  probabilities(weights, query, key, sequence, headSize, scale);
  __syncthreads();
  weighted<false>(out + row * width + blockIdx.x * headSize, weights, value, sequence, headSize,
                  width);
}

// gradient of qkv from that of the output; the probabilities are computed anew. Grid and block as
// training_attention_forward.
extern "C" __global__ void __launch_bounds__(128)
    training_attention_backward(const __half *qkv, const __half *outGradient, __half *gradient,
                                int sequence, int headSize, float scale) {
  using namespace training_attention;
  __shared__ Lines query, key, value, arriving;
  __shared__ Square weights, scores;
  int width = gridDim.x * headSize, stride = 3 * width;
  long long first = static_cast<long long>(blockIdx.y) * sequence;
  const __half *from = qkv + first * stride + blockIdx.x * headSize;
  load(query, from, sequence, headSize, stride);
  load(key, from + width, sequence, headSize, stride);
  load(value, from + 2 * width, sequence, headSize, stride);
  load(arriving, outGradient + first * width + blockIdx.x * headSize, sequence, headSize, width);
  __syncthreads();
  probabilities(weights, query, key, sequence, headSize, scale);
  // Gradient of the scores: p (dp - sum of p dp), where dp is the product of the output's gradient
  // with a value.
  int row = threadIdx.x / 4, keys = threadIdx.x % 4 * 8;
  float products[8], total = 0.0f;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    products[j] = 0.0f;
    for (int d = 0; d < headSize; ++d)
      products[j] += arriving[row][d] * value[keys + j][d];
    total += weights[row][keys + j] * products[j];
  }
  for (int distance = 1; distance < 4; distance *= 2)
    total += __shfl_xor_sync(0xffffffffu, total, distance);
#pragma unroll
  for (int j = 0; j < 8; ++j)
    scores[row][keys + j] = weights[row][keys + j] * (products[j] - total) * scale;
  __syncthreads();
  __half *to = gradient + first * stride + blockIdx.x * headSize;
  weighted<false>(to, scores, key, sequence, headSize, stride);
  weighted<true>(to + width, scores, query, sequence, headSize, stride);
  weighted<true>(to + 2 * width, weights, arriving, sequence, headSize, stride);
}

#endif
