// GPT-2's kernels besides products and norms. For training: masked softmax, cross-entropy over a
// large vocabulary, and gradients of embeddings, all without atomics.
#ifndef TALLY_BENCHMARKS_WORKLOADS_KERNELS_GPT2_CUH
#define TALLY_BENCHMARKS_WORKLOADS_KERNELS_GPT2_CUH

#include "rows.cuh"

namespace workloads::gpt2 {

using rows::mostPieces;

/// A row of up to 1,024 halves in the registers of a warp.
struct Row {
  float values[mostPieces][8];

  /// Zeros past the end.
  __device__ __forceinline__ void load(const __half *from, int columns) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < mostPieces; ++i) {
      bool inside = lane + i * 32 < columns / 8;
      Piece piece = inside ? reinterpret_cast<const Piece *>(from)[lane + i * 32] : Piece{};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float2 pair = inside ? __half22float2(piece.pairs[j]) : make_float2(0, 0);
        values[i][2 * j] = pair.x;
        values[i][2 * j + 1] = pair.y;
      }
    }
  }
  __device__ __forceinline__ void store(__half *to, int columns) const {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < mostPieces; ++i)
      if (lane + i * 32 < columns / 8) {
        Piece piece;
#pragma unroll
        for (int j = 0; j < 4; ++j)
          piece.pairs[j] = __floats2half2_rn(values[i][2 * j], values[i][2 * j + 1]);
        reinterpret_cast<Piece *>(to)[lane + i * 32] = piece;
      }
  }
  /// Calls the function with each column and its value.
  template <class Function> __device__ __forceinline__ void each(Function function) {
#pragma unroll
    for (int i = 0; i < mostPieces; ++i)
#pragma unroll
      for (int j = 0; j < 8; ++j)
        function((threadIdx.x % 32 + i * 32) * 8 + j, values[i][j]);
  }
};

/// scores = softmax(scores), where query q sees the keys up to q; rows of `sequence` keys, the
/// query of row r is r % sequence. sequence: a multiple of 8, <= 1024. Grid: ceil(rows / 4). Block:
/// 128.
static __global__ void __launch_bounds__(128)
    causalSoftmax(__half *scores, int rowCount, int sequence) {
  int index = blockIdx.x * rows::warps + threadIdx.x / 32;
  if (index >= rowCount)
    return; // the whole warp
  __half *line = scores + static_cast<long long>(index) * sequence;
  int query = index % sequence;
  Row row;
  row.load(line, sequence);
  float most = -INFINITY, total = 0.0f;
  row.each([&](int key, float &value) {
    if (key <= query)
      most = fmaxf(most, value);
  });
  most = reduction::warpMaximum(most);
  row.each([&](int key, float &value) {
    value = key <= query ? __expf(value - most) : 0.0f;
    total += value;
  });
  total = reduction::warpSum(total);
  row.each([&](int, float &value) { value /= total; });
  row.store(line, sequence);
}

/// gradient = gradient of the scores before scaling by `scale` and softmax, from the gradient of
/// `weights`, the softmax's result. Grid and block as in causalSoftmax.
static __global__ void __launch_bounds__(128)
    softmaxGradient(__half *gradient, const __half *weights, int rowCount, int sequence,
                    float scale) {
  int index = blockIdx.x * rows::warps + threadIdx.x / 32;
  if (index >= rowCount)
    return;
  long long at = static_cast<long long>(index) * sequence;
  Row arriving, row;
  arriving.load(gradient + at, sequence);
  row.load(weights + at, sequence);
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < mostPieces; ++i)
#pragma unroll
    for (int j = 0; j < 8; ++j)
      total += arriving.values[i][j] * row.values[i][j];
  total = reduction::warpSum(total);
#pragma unroll
  for (int i = 0; i < mostPieces; ++i)
#pragma unroll
    for (int j = 0; j < 8; ++j)
      arriving.values[i][j] = row.values[i][j] * (arriving.values[i][j] - total) * scale;
  arriving.store(gradient + at, sequence);
}

constexpr int lossThreads = 256;

/// Computes the loss of each row, and replaces the logits by the gradient of the losses' sum.
/// Columns from `classes` on are padding. columns: a multiple of 8. Grid: rows. Block: 256.
static __global__ void __launch_bounds__(lossThreads)
    crossEntropy(__half *logits, const int *labels, float *losses, int classes, int columns) {
  __shared__ float maxima[lossThreads / 32], scratch[lossThreads / 32];
  __half *line = logits + static_cast<long long>(blockIdx.x) * columns;
  auto *pieces = reinterpret_cast<Piece *>(line);
  int label = labels[blockIdx.x];
  float atLabel = __half2float(line[label]);
  float most = -INFINITY, sum = 0.0f;
  for (int p = threadIdx.x; p < columns / 8; p += lossThreads) {
    Piece piece = pieces[p];
    auto *values = reinterpret_cast<__half *>(piece.pairs);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      float value = __half2float(values[j]);
      if (p * 8 + j < classes && value > most) {
        sum *= __expf(most - value);
        most = value;
      }
      sum += p * 8 + j < classes ? __expf(value - most) : 0.0f;
    }
  }
  float all = reduction::warpMaximum(most);
  if (threadIdx.x % 32 == 0)
    maxima[threadIdx.x / 32] = all;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < lossThreads / 32; ++i)
    all = fmaxf(all, maxima[i]);
  sum = reduction::blockSum<lossThreads / 32>(most == -INFINITY ? 0.0f : sum * __expf(most - all),
                                              scratch);
  for (int p = threadIdx.x; p < columns / 8; p += lossThreads) {
    Piece piece = pieces[p];
    auto *values = reinterpret_cast<__half *>(piece.pairs);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      int column = p * 8 + j;
      float weight = column < classes ? __expf(__half2float(values[j]) - all) / sum : 0.0f;
      values[j] = __float2half_rn(weight - (column == label ? 1.0f : 0.0f));
    }
    pieces[p] = piece;
  }
  if (threadIdx.x == 0)
    losses[blockIdx.x] = __logf(sum) + all - atLabel;
}

/// *total = the sum of `values`, always in the same order. One block of 256.
static __global__ void __launch_bounds__(lossThreads)
    sumAll(const float *values, float *total, int count) {
  __shared__ float scratch[lossThreads / 32];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < count; i += lossThreads)
    sum += values[i];
  sum = reduction::blockSum<lossThreads / 32>(sum, scratch);
  if (threadIdx.x == 0)
    *total = sum;
}

/// gradients[words[i]] += the sum of the rows order[starts[i]] to order[starts[i + 1] - 1].
/// Grid: ceil(columns / 128), words. Block: 128.
static __global__ void embeddingGradient(const __half *rowGradient, const int *words,
                                         const int *starts, const int *order, float *gradients,
                                         int columns) {
  int column = blockIdx.x * 128 + threadIdx.x;
  if (column >= columns)
    return;
  float sum = 0.0f;
  for (int i = starts[blockIdx.y]; i < starts[blockIdx.y + 1]; ++i)
    sum += __half2float(rowGradient[static_cast<long long>(order[i]) * columns + column]);
  gradients[static_cast<long long>(words[blockIdx.y]) * columns + column] += sum;
}

/// gradients[position] = the sum over the batch. Grid: ceil(columns / 128), sequence. Block: 128.
static __global__ void positionGradient(const __half *rowGradient, float *gradients, int batch,
                                        int sequence, int columns) {
  int column = blockIdx.x * 128 + threadIdx.x;
  if (column >= columns)
    return;
  float sum = 0.0f;
  for (int b = 0; b < batch; ++b)
    sum += __half2float(
        rowGradient[(static_cast<long long>(b) * sequence + blockIdx.y) * columns + column]);
  gradients[static_cast<long long>(blockIdx.y) * columns + column] = sum;
}

/// to = from, rounded. Grid: any. Block: 256.
static __global__ void roundAll(const float *from, __half *to, int count) {
  for (int i = blockIdx.x * 256 + threadIdx.x; i < count; i += gridDim.x * 256)
    to[i] = __float2half_rn(from[i]);
}

} // namespace workloads::gpt2

#endif
