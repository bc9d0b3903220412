// Multi-head attention, scores, softmax and context in one kernel.
#ifndef INFERENCE_SERVER_KERNELS_ATTENTION_CUH
#define INFERENCE_SERVER_KERNELS_ATTENTION_CUH

#include "reduction.cuh"

namespace attention {

constexpr int queries = 16, keys = 32, threads = 256, maximumHeadSize = 64;

// Copies rows [first, first + 32) of one head's keys or values into shared memory, with zeros past
// the end.
__device__ __forceinline__ void loadTile(float *tile, const float *qkv, int base, int first,
                                         int sequence, int headSize, int stride) {
  for (int i = threadIdx.x; i < keys * headSize; i += threads) {
    int row = i / headSize, column = i % headSize;
    tile[row * (headSize + 1) + column] =
        first + row < sequence ? qkv[(base + first + row) * stride + column] : 0.0f;
  }
}

} // namespace attention

// out[b, position, head] = softmax(q k^T / sqrt(headSize)) v for 16 positions of one head of one
// sequence; `qkv` is [batch * sequence][3 * heads * headSize], queries first, then keys, values.
// headSize <= 64. Grid: ceil(sequence / 16), heads, batch. Block: 256. Dynamic shared memory, in
// floats: 16 * headSize + 16 * (sequence rounded up to 32) + 32 * (headSize + 1).
extern "C" __global__ void __launch_bounds__(256)
    attention_forward(const float *qkv, float *out, int sequence, int headSize, float scale) {
  using namespace attention;
  extern __shared__ float memory[];
  __shared__ float inverseSums[queries];
  int heads = gridDim.y, head = blockIdx.y, width = heads * headSize, stride = 3 * width;
  int base = blockIdx.z * sequence, first = blockIdx.x * queries;
  int roundedSequence = (sequence + keys - 1) / keys * keys;
  float *query = memory, *scores = query + queries * headSize;
  float *tile = scores + queries * roundedSequence;
  int t = threadIdx.x, lane = t % 32, warp = t / 32;

  for (int i = t; i < queries * headSize; i += threads) {
    int row = first + i / headSize;
    query[i] =
        row < sequence ? qkv[(base + row) * stride + head * headSize + i % headSize] * scale : 0.0f;
  }
  // Scores: a warp has one key per lane and two queries.
  for (int key0 = 0; key0 < sequence; key0 += keys) {
    loadTile(tile, qkv + width + head * headSize, base, key0, sequence, headSize, stride);
    __syncthreads();
    float low = 0.0f, high = 0.0f;
    for (int d = 0; d < headSize; ++d) {
      float key = tile[lane * (headSize + 1) + d];
      low += query[warp * headSize + d] * key;
      high += query[(warp + 8) * headSize + d] * key;
    }
    bool inside = key0 + lane < sequence;
    scores[warp * roundedSequence + key0 + lane] = inside ? low : -INFINITY;
    scores[(warp + 8) * roundedSequence + key0 + lane] = inside ? high : -INFINITY;
    __syncthreads();
  }
  // Softmax, one warp a row; the division is left to the end.
  for (int row = warp; row < queries; row += 8) {
    float *line = scores + row * roundedSequence;
    float maximum = -INFINITY;
    for (int i = lane; i < roundedSequence; i += 32)
      maximum = fmaxf(maximum, line[i]);
    maximum = reduction::warpMaximum(maximum);
    float sum = 0.0f;
    for (int i = lane; i < roundedSequence; i += 32) {
      float power = __expf(line[i] - maximum);
      line[i] = power;
      sum += power;
    }
    sum = reduction::warpSum(sum);
    if (lane == 0)
      inverseSums[row] = 1.0f / sum;
  }
  // Context: a thread has one column and four queries.
  int column = t % 64, group = t / 64;
  float sums[4] = {};
  for (int key0 = 0; key0 < sequence; key0 += keys) {
    __syncthreads();
    loadTile(tile, qkv + 2 * width + head * headSize, base, key0, sequence, headSize, stride);
    __syncthreads();
    if (column < headSize)
      for (int i = 0; i < keys; ++i) {
        float value = tile[i * (headSize + 1) + column];
#pragma unroll
        for (int q = 0; q < 4; ++q)
          sums[q] += scores[(group + 4 * q) * roundedSequence + key0 + i] * value;
      }
  }
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    int row = group + 4 * q;
    if (column < headSize && first + row < sequence)
      out[(base + first + row) * width + head * headSize + column] = sums[q] * inverseSums[row];
  }
}

#endif
