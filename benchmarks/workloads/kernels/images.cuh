// Pooling, of images [count][height][width][channels]; a thread has a piece of 8 channels.
#ifndef TALLY_BENCHMARKS_WORKLOADS_KERNELS_IMAGES_CUH
#define TALLY_BENCHMARKS_WORKLOADS_KERNELS_IMAGES_CUH

#include "operands.cuh"
#include "rows.cuh"

namespace workloads::images {

using product::Divisor;

/// 3x3, stride 2, margin 1.
struct Pooling {
  int count, height, width, channels, rows, columns;
  Divisor perRow, perImage, pieces;

  Pooling(int count, int height, int width, int channels)
      : count(count), height(height), width(width), channels(channels), rows((height - 1) / 2 + 1),
        columns((width - 1) / 2 + 1), perRow(columns), perImage(rows * columns),
        pieces(channels / 8) {}
  __host__ __device__ long long threads() const {
    return static_cast<long long>(count) * rows * columns * (channels / 8);
  }
};

/// places[result]: index, among the nine pixels, of the largest one, the first of equal ones, for
/// each channel; not written if null. Grid: ceil(threads / 256). Block: 256.
static __global__ void maxPool(const __half *in, __half *out, unsigned char *places,
                               Pooling pooling) {
  unsigned i = blockIdx.x * 256 + threadIdx.x;
  if (i >= pooling.threads())
    return;
  unsigned result = pooling.pieces.quotient(i), piece = i - result * pooling.pieces.value;
  unsigned image = pooling.perImage.quotient(result),
           place = result - image * pooling.perImage.value;
  int row = pooling.perRow.quotient(place), column = place - row * pooling.perRow.value;
  float best[8];
  unsigned char from[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    best[j] = -INFINITY;
    from[j] = 0;
  }
  for (int tap = 0; tap < 9; ++tap) {
    int y = row * 2 - 1 + tap / 3, x = column * 2 - 1 + tap % 3;
    if (static_cast<unsigned>(y) >= pooling.height || static_cast<unsigned>(x) >= pooling.width)
      continue;
    Piece values = reinterpret_cast<const Piece *>(
        in)[((static_cast<long long>(image) * pooling.height + y) * pooling.width + x) *
                pooling.pieces.value +
            piece];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      float2 pair = __half22float2(values.pairs[j / 2]);
      float value = j % 2 == 0 ? pair.x : pair.y;
      if (value > best[j]) {
        best[j] = value;
        from[j] = static_cast<unsigned char>(tap);
      }
    }
  }
  Piece values;
#pragma unroll
  for (int j = 0; j < 4; ++j)
    values.pairs[j] = __floats2half2_rn(best[2 * j], best[2 * j + 1]);
  reinterpret_cast<Piece *>(out)[i] = values;
  if (places)
#pragma unroll
    for (int j = 0; j < 8; ++j)
      places[static_cast<long long>(i) * 8 + j] = from[j];
}

/// out[image] = the mean over its pixels. Grid: ceil(channels / 64), count. Block: 32x8; a thread
/// has two channels.
static __global__ void averagePool(const __half *in, __half *out, int pixels, int channels) {
  __shared__ float2 sums[8][32];
  int column = (blockIdx.x * 32 + threadIdx.x) * 2;
  float2 sum = make_float2(0, 0);
  if (column < channels)
    for (int i = threadIdx.y; i < pixels; i += 8) {
      float2 pair = __half22float2(*reinterpret_cast<const __half2 *>(
          in + (static_cast<long long>(blockIdx.y) * pixels + i) * channels + column));
      sum.x += pair.x;
      sum.y += pair.y;
    }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= channels)
    return;
  sum = make_float2(0, 0);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    sum.x += sums[i][threadIdx.x].x;
    sum.y += sums[i][threadIdx.x].y;
  }
  float scale = 1.0f / static_cast<float>(pixels);
  *reinterpret_cast<__half2 *>(out + static_cast<long long>(blockIdx.y) * channels + column) =
      __floats2half2_rn(sum.x * scale, sum.y * scale);
}

} // namespace workloads::images

#endif
