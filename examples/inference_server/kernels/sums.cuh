// Sums within a warp and a thread block.
#ifndef INFERENCE_SERVER_KERNELS_SUMS_CUH
#define INFERENCE_SERVER_KERNELS_SUMS_CUH

namespace reduction {

__device__ __forceinline__ float warpSum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

__device__ __forceinline__ float warpMaximum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}

// The sum over a block of `warps` whole warps, given to every thread. `scratch` may be used again
// at once: the second barrier is after its last read.
template <int warps> __device__ __forceinline__ float blockSum(float value, float *scratch) {
  value = warpSum(value);
  if (threadIdx.x % 32 == 0)
    scratch[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0.0f;
#pragma unroll
  for (int warp = 0; warp < warps; ++warp)
    total += scratch[warp];
  __syncthreads();
  return total;
}

// The sum over the 8 rows of a 32x8 block, column by column; the threads of row 0 get it.
__device__ __forceinline__ float sumOverRows(float value) {
  __shared__ float sums[8][32];
  sums[threadIdx.y][threadIdx.x] = value;
  __syncthreads();
#pragma unroll
  for (int half = 4; half > 0; half /= 2) {
    if (threadIdx.y < half)
      sums[threadIdx.y][threadIdx.x] += sums[threadIdx.y + half][threadIdx.x];
    __syncthreads();
  }
  return sums[0][threadIdx.x];
}

} // namespace reduction

#endif
