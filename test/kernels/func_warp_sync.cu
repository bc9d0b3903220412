// A device function that is not inlined and synchronises its warp.
__device__ __noinline__ unsigned rotate(unsigned value) {
  return __shfl_sync(~0u, value, (threadIdx.x + 1) % 32);
}
extern "C" __global__ void func_warp_sync(unsigned *out, const unsigned *in) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = rotate(in[i]) + rotate(threadIdx.x) * blockIdx.x;
}
