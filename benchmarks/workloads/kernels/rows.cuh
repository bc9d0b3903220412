// Kernels on rows of activations; a warp has a row, or a thread an element.
#ifndef TALLY_BENCHMARKS_WORKLOADS_KERNELS_ROWS_CUH
#define TALLY_BENCHMARKS_WORKLOADS_KERNELS_ROWS_CUH

#include "../../../examples/inference_server/kernels/sums.cuh"
#include "piece.cuh"

namespace workloads::rows {

constexpr int warps = 4, mostPieces = 4; // pieces of 8 halves a lane: up to 1,024 columns

/// out = (in - mean) / sqrt(variance + epsilon) * gain + shift, row by row; statistics[row] =
/// (mean, 1 / sqrt(variance + epsilon)) if `statistics` is not null. `columns`: a multiple of 8, <=
/// 1024. Grid: ceil(rows / 4). Block: 128.
static __global__ void __launch_bounds__(128)
    layerNorm(const __half *in, const __half *gain, const __half *shift, __half *out,
              float2 *statistics, int rowCount, int columns, float epsilon) {
  int row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rowCount)
    return; // the whole warp
  auto *from = reinterpret_cast<const Piece *>(in + static_cast<long long>(row) * columns);
  float2 values[mostPieces][4];
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < mostPieces; ++i) {
    bool inside = lane + i * 32 < columns / 8;
    Piece piece = inside ? from[lane + i * 32] : Piece{};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      values[i][j] = inside ? __half22float2(piece.pairs[j]) : make_float2(0, 0);
      sum += values[i][j].x + values[i][j].y;
    }
  }
  float mean = reduction::warpSum(sum) / static_cast<float>(columns);
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < mostPieces; ++i)
    if (lane + i * 32 < columns / 8)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float low = values[i][j].x - mean, high = values[i][j].y - mean;
        squares += low * low + high * high;
      }
  float inverse = rsqrtf(reduction::warpSum(squares) / static_cast<float>(columns) + epsilon);
  auto *to = reinterpret_cast<Piece *>(out + static_cast<long long>(row) * columns);
#pragma unroll
  for (int i = 0; i < mostPieces; ++i)
    if (int at = lane + i * 32; at < columns / 8) {
      Piece gains = reinterpret_cast<const Piece *>(gain)[at];
      Piece shifts = reinterpret_cast<const Piece *>(shift)[at], piece;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float2 g = __half22float2(gains.pairs[j]), s = __half22float2(shifts.pairs[j]);
        piece.pairs[j] = __floats2half2_rn((values[i][j].x - mean) * inverse * g.x + s.x,
                                           (values[i][j].y - mean) * inverse * g.y + s.y);
      }
      to[at] = piece;
    }
  if (statistics && lane == 0)
    statistics[row] = make_float2(mean, inverse);
}

/// out[row] = table[tokens[row]] + positions[row % sequence]. Grid: ceil(columns / 256), rows.
/// Block: 128; a thread has two columns.
static __global__ void embed(const int *tokens, const __half *table, const __half *positions,
                             __half *out, int sequence, int columns) {
  int column = (blockIdx.x * 128 + threadIdx.x) * 2, row = blockIdx.y;
  if (column >= columns)
    return;
  auto pair = [&](const __half *from, long long line) {
    return __half22float2(*reinterpret_cast<const __half2 *>(from + line * columns + column));
  };
  float2 word = pair(table, tokens[row]), place = pair(positions, row % sequence);
  *reinterpret_cast<__half2 *>(out + static_cast<long long>(row) * columns + column) =
      __floats2half2_rn(word.x + place.x, word.y + place.y);
}

/// to = from. Grid: ceil(count / 256). Block: 256.
static __global__ void widen(const __half *from, float *to, int count) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < count)
    to[i] = __half2float(from[i]);
}

} // namespace workloads::rows

#endif
