// Attention over short sequences in one kernel: scores, softmax and context of 16 queries of one
// head.
#ifndef TALLY_BENCHMARKS_WORKLOADS_KERNELS_SHORT_ATTENTION_CUH
#define TALLY_BENCHMARKS_WORKLOADS_KERNELS_SHORT_ATTENTION_CUH

#include "../../../examples/inference_server/kernels/sums.cuh"

#include <cuda_fp16.h>

namespace workloads::short_attention {

constexpr int queries = 16, keys = 128, headSizes = 64, threads = 256;
constexpr int stride = headSizes + 2; // halves: adjacent rows begin on different banks
/// sequence <= 128; headSize even, <= 64. Grid: ceil(sequence / 16), heads. Block: 256.
static __global__ void __launch_bounds__(threads)
    shortAttention(const __half *qkv, __half *out, int sequence, int headSize, float scale) {
  __shared__ __half2 key[keys][stride / 2], value[keys][stride / 2], query[queries][stride / 2];
  __shared__ float weights[queries][keys];
  int width = gridDim.y * headSize, pairs = headSize / 2, first = blockIdx.x * queries;
  const __half *from = qkv + blockIdx.y * headSize;
  auto load = [&](__half2(*to)[stride / 2], int lines, int row0, const __half *part) {
    for (int i = threadIdx.x; i < lines * pairs; i += threads) {
      int row = row0 + i / pairs;
      to[i / pairs][i % pairs] =
          row < sequence ? *reinterpret_cast<const __half2 *>(
                               part + static_cast<long long>(row) * 3 * width + i % pairs * 2)
                         : __half2half2(__float2half(0.0f));
    }
  };
  load(query, queries, first, from);
  load(key, keys, 0, from + width);
  load(value, keys, 0, from + 2 * width);
  __syncthreads();

  // A warp has two queries, and a lane has four keys of them.
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int q = warp; q < queries; q += threads / 32) {
    float scores[keys / 32] = {}, most = -INFINITY, total = 0.0f;
    for (int d = 0; d < pairs; ++d) {
      float2 x = __half22float2(query[q][d]);
#pragma unroll
      for (int j = 0; j < keys / 32; ++j) {
        float2 y = __half22float2(key[lane + j * 32][d]);
        scores[j] += x.x * y.x + x.y * y.y;
      }
    }
#pragma unroll
    for (int j = 0; j < keys / 32; ++j) {
      scores[j] = lane + j * 32 < sequence ? scores[j] * scale : -INFINITY;
      most = fmaxf(most, scores[j]);
    }
    most = reduction::warpMaximum(most);
#pragma unroll
    for (int j = 0; j < keys / 32; ++j)
      total += scores[j] = __expf(scores[j] - most);
    total = reduction::warpSum(total);
#pragma unroll
    for (int j = 0; j < keys / 32; ++j)
      weights[q][lane + j * 32] = scores[j] / total;
    __syncwarp();
    if (lane < pairs && first + q < sequence) {
      float2 sum = make_float2(0, 0);
      for (int j = 0; j < sequence; ++j) {
        float2 y = __half22float2(value[j][lane]);
        sum.x += weights[q][j] * y.x;
        sum.y += weights[q][j] * y.y;
      }
      *reinterpret_cast<__half2 *>(out + static_cast<long long>(first + q) * width +
                                   blockIdx.y * headSize + lane * 2) = __float22half2_rn(sum);
    }
  }
}

} // namespace workloads::short_attention

#endif
