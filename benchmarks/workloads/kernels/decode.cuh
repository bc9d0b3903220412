// Token generation: one row at a time, so products are matrix times vector. The reads of the
// weights bound it.
#ifndef TALLY_BENCHMARKS_WORKLOADS_KERNELS_DECODE_CUH
#define TALLY_BENCHMARKS_WORKLOADS_KERNELS_DECODE_CUH

#include "product.cuh"
#include "rows.cuh"

namespace workloads::decode {

constexpr int warps = 8;

/// W x + bias + residual, then the activation: in f16 to `y`, and in f32 to `wide`. W is
/// [outputs][inputs]; a warp has an output. inputs: a multiple of 8. The kernel skips null
/// arguments. Grid: ceil(outputs / 8). Block: 256.
static __global__ void __launch_bounds__(warps * 32)
    matrixVector(const __half *weight, const __half *x, const __half *bias, const __half *residual,
                 __half *y, float *wide, int inputs, int outputs, product::Activation activation) {
  int output = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (output >= outputs)
    return; // the whole warp
  auto *line = reinterpret_cast<const Piece *>(weight + static_cast<long long>(output) * inputs);
  auto *vector = reinterpret_cast<const Piece *>(x);
  float sum = 0.0f;
#pragma unroll 4
  for (int i = lane; i < inputs / 8; i += 32) {
    Piece w = line[i], v = vector[i];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float2 a = __half22float2(w.pairs[j]), b = __half22float2(v.pairs[j]);
      sum += a.x * b.x + a.y * b.y;
    }
  }
  sum = reduction::warpSum(sum);
  if (lane != 0)
    return;
  if (bias)
    sum += __half2float(bias[output]);
  if (residual)
    sum += __half2float(residual[output]);
  sum = product::activate(sum, activation);
  if (y)
    y[output] = __float2half_rn(sum);
  if (wide)
    wide[output] = sum;
}

/// x = table[*token] + positions[position]. Grid: ceil(columns / 256). Block: 256.
static __global__ void embedToken(const int *token, const __half *table, const __half *positions,
                                  __half *x, int position, int columns) {
  int column = blockIdx.x * 256 + threadIdx.x;
  if (column < columns)
    x[column] = __float2half_rn(
        __half2float(table[static_cast<long long>(*token) * columns + column]) +
        __half2float(positions[static_cast<long long>(position) * columns + column]));
}

constexpr int attentionThreads = 256, mostPositions = 1024, mostHeadSize = 64;

/// Attention of the query in `qkv` ([3 * heads * headSize]) over the positions up to `position`.
/// The cache ([2][capacity][heads * headSize]) holds their keys and values; the kernel adds those
/// of the last position. headSize: a multiple of 8, <= 64. Grid: heads. Block: 256.
static __global__ void __launch_bounds__(attentionThreads)
    attendCached(const __half *qkv, __half *cache, __half *out, int position, int capacity,
                 int headSize, float scale) {
  __shared__ float weights[mostPositions], query[mostHeadSize], scratch[attentionThreads / 32];
  __shared__ float parts[attentionThreads / mostHeadSize][mostHeadSize];
  int width = gridDim.x * headSize, offset = blockIdx.x * headSize, t = threadIdx.x;
  __half *keys = cache + offset, *values = keys + static_cast<long long>(capacity) * width;
  if (t < headSize) {
    query[t] = __half2float(qkv[offset + t]) * scale;
    keys[static_cast<long long>(position) * width + t] = qkv[width + offset + t];
    values[static_cast<long long>(position) * width + t] = qkv[2 * width + offset + t];
  }
  __syncthreads();
  float most = -INFINITY, total = 0.0f;
  for (int p = t; p <= position; p += attentionThreads) {
    auto *key = reinterpret_cast<const Piece *>(keys + static_cast<long long>(p) * width);
    float score = 0.0f;
    for (int i = 0; i < headSize / 8; ++i) {
      Piece piece = key[i];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float2 pair = __half22float2(piece.pairs[j]);
        score += query[i * 8 + j * 2] * pair.x + query[i * 8 + j * 2 + 1] * pair.y;
      }
    }
    weights[p] = score;
    most = fmaxf(most, score);
  }
  most = reduction::warpMaximum(most);
  if (t % 32 == 0)
    scratch[t / 32] = most;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < attentionThreads / 32; ++i)
    most = fmaxf(most, scratch[i]);
  __syncthreads(); // scratch is used again
  for (int p = t; p <= position; p += attentionThreads)
    total += weights[p] = __expf(weights[p] - most);
  total = reduction::blockSum<attentionThreads / 32>(total, scratch);
  int column = t % mostHeadSize, group = t / mostHeadSize;
  float sum = 0.0f;
  if (column < headSize)
    for (int p = group; p <= position; p += attentionThreads / mostHeadSize)
      sum += weights[p] * __half2float(values[static_cast<long long>(p) * width + column]);
  parts[group][column] = sum;
  __syncthreads();
  if (t < headSize) {
    sum = 0.0f;
#pragma unroll
    for (int i = 0; i < attentionThreads / mostHeadSize; ++i)
      sum += parts[i][t];
    out[offset + t] = __float2half_rn(sum / total);
  }
}

constexpr int choosingThreads = 1024;

/// *token = the index of the largest logit, the first of equal ones; *answer = the same. One block
/// of 1024.
static __global__ void __launch_bounds__(choosingThreads)
    chooseToken(const float *logits, int *token, float *answer, int count) {
  __shared__ float values[choosingThreads / 32];
  __shared__ int places[choosingThreads / 32];
  float best = -INFINITY;
  int at = count;
  for (int i = threadIdx.x; i < count; i += choosingThreads)
    if (logits[i] > best) {
      best = logits[i];
      at = i;
    }
  auto better = [&](float value, int place) {
    if (value > best || (value == best && place < at)) {
      best = value;
      at = place;
    }
  };
  auto withinWarp = [&] {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      float value = __shfl_xor_sync(0xffffffffu, best, distance);
      int place = __shfl_xor_sync(0xffffffffu, at, distance);
      better(value, place);
    }
  };
  withinWarp();
  if (threadIdx.x % 32 == 0) {
    values[threadIdx.x / 32] = best;
    places[threadIdx.x / 32] = at;
  }
  __syncthreads();
  if (threadIdx.x >= 32)
    return;
  best = values[threadIdx.x];
  at = places[threadIdx.x];
  withinWarp();
  if (threadIdx.x == 0) {
    *token = at;
    *answer = static_cast<float>(at);
  }
}

} // namespace workloads::decode

#endif
