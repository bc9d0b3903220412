// A device function that is not inlined and reads the block's index itself.
__device__ __noinline__ unsigned where(unsigned a) { return a * gridDim.x + blockIdx.x; }
extern "C" __global__ void func_ctaid(unsigned *out) {
  out[where(0) * blockDim.x + threadIdx.x] = where(threadIdx.x);
}
