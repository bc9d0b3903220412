// A device function that is not inlined and exits the thread.
__device__ __noinline__ unsigned keepOdd(unsigned value) {
  if (value % 2 == 0)
    asm volatile("exit;");
  return value * 3;
}
extern "C" __global__ void func_exit(unsigned *out, const unsigned *in) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = 1;
  out[i] = keepOdd(in[i]) + blockIdx.x;
}
