// Vector loads and stores.
extern "C" __global__ void vector_memory(float4 *out, const float4 *in, uint2 *pairs) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 v = in[i];
  out[i] = make_float4(v.w + v.x, v.z * v.y, v.x - v.w, v.y + (float)blockIdx.x);
  uint2 p = pairs[i];
  pairs[i] = make_uint2(p.y, p.x + i);
}
