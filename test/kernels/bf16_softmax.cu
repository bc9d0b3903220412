// Softmax of rows in bf16 pairs, with a warp per row and sums in f32.
#include <cuda_bf16.h>
extern "C" __global__ void bf16_softmax(__nv_bfloat16 *out, const float *in, unsigned columns) {
  unsigned row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  const float2 *from = reinterpret_cast<const float2 *>(in + row * columns);
  auto *to = reinterpret_cast<__nv_bfloat162 *>(out + row * columns);
  __nv_bfloat162 most = __float2bfloat162_rn(-1000.0f);
  for (unsigned i = lane; i < columns / 2; i += 32)
    most = __hmax2(most, __float22bfloat162_rn(from[i]));
  for (int offset = 16; offset; offset /= 2)
    most = __hmax2(most, __shfl_xor_sync(~0u, most, offset));
  __nv_bfloat16 top = __hmax(__low2bfloat16(most), __high2bfloat16(most));
  float sum = 0;
  for (unsigned i = lane; i < columns / 2; i += 32) {
    __nv_bfloat162 power =
        h2exp(__hsub2(__float22bfloat162_rn(from[i]), __bfloat162bfloat162(top)));
    sum += __low2float(power) + __high2float(power);
    to[i] = power;
  }
  for (int offset = 16; offset; offset /= 2)
    sum += __shfl_xor_sync(~0u, sum, offset);
  __nv_bfloat162 scale = __float2bfloat162_rn(1.0f / sum);
  for (unsigned i = lane; i < columns / 2; i += 32)
    to[i] = __hmul2_rn(to[i], scale);
}
