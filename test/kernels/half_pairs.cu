// Pairs of halves in every kind of operation, compared with the same operation on integers: the
// masked inputs are small multiples of 2^-24 (mma_gemm.cu), and so are the sums.
#include <cuda_fp16.h>

__device__ __half2 pairOf(unsigned bits) {
  __half2_raw raw;
  raw.x = bits & 0x8007;
  raw.y = bits >> 16 & 0x8007;
  return raw;
}
__device__ int integerOf(__half half) {
  int bits = __half_as_ushort(half);
  return bits & 0x8000 ? -(bits & 0x7fff) : bits & 0x7fff;
}
__device__ void require(__half2 pair, int low, int high) {
  if (integerOf(__low2half(pair)) != low || integerOf(__high2half(pair)) != high)
    __trap();
}

extern "C" __global__ void half_pairs(unsigned *out, const unsigned *in) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  __half2 a = pairOf(in[i]), b = pairOf(in[i ^ 1]);
  int al = integerOf(__low2half(a)), ah = integerOf(__high2half(a));
  int bl = integerOf(__low2half(b)), bh = integerOf(__high2half(b));
  require(__hadd2(a, b), al + bl, ah + bh);
  require(__hsub2(a, b), al - bl, ah - bh);
  require(__hneg2(a), -al, -ah);
  require(__habs2(a), abs(al), abs(ah));
  require(__hmax2(a, b), max(al, bl), max(ah, bh));
  require(__hmin2_nan(a, b), min(al, bl), min(ah, bh));
  __half2 three = __float2half2_rn(3.0f);
  require(__hfma2(a, three, b), 3 * al + bl, 3 * ah + bh);
  require(__hfma2_relu(a, three, b), max(3 * al + bl, 0), max(3 * ah + bh, 0));
  __half2 less = __hlt2(a, b); // 1.0 where it holds
  require(__hmul2(less, a), al < bl ? al : 0, ah < bh ? ah : 0);
  bool both = __hbge2(a, b);
  if (both != (al >= bl && ah >= bh))
    __trap();
  __half2 sum = __hfma2(a, three, __hmul2_rn(b, __float2half2_rn(2.0f)));
  out[i] = *reinterpret_cast<unsigned *>(&sum) + both;
}
