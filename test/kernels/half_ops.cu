// Half precision: the functions of the header are scopes of inline assembly.
#include <cuda_fp16.h>
extern "C" __global__ void half_ops(__half *out, const __half *in, float *wide) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  __half a = in[i], b = in[i ^ 1];
  __half2 pair = __halves2half2(a, b);
  pair = __hfma2(pair, pair, __float2half2_rn(0.5f));
  out[i] = __hadd(__hmul(a, b), __low2half(pair));
  wide[i] = __half2float(a) + __half2float(__high2half(pair)) + (__hlt(a, b) ? 1.0f : 0.0f);
}
