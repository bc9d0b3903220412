// Single precision: division, roots, fast functions, conversions, comparisons.
extern "C" __global__ void math32(float *out, const float *in, int *rounded) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = in[i], y = in[(i + 1) % (gridDim.x * blockDim.x)];
  float z = __fdividef(x, y + 2.0f) + x / (y * y + 1.0f) + rsqrtf(x * x + 1.0f);
  z += __expf(x) + __sinf(y) + __log2f(fabsf(x) + 1.0f) + fminf(x, y) + tanhf(x);
  out[i] = __saturatef(z) + copysignf(z, y) + fmaf(x, y, z);
  rounded[i] =
      __float2int_rn(x * 100.0f) + __float2int_rz(y * 50.0f) + (int)floorf(z) + (isnan(x) ? 1 : 0);
}
