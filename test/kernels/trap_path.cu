// A path that ends in a trap, never taken.
extern "C" __global__ void trap_path(unsigned *out, const unsigned *in, unsigned limit) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x >= limit)
    __trap();
  out[i] = in[i] / (threadIdx.x + 1);
}
