// Two halves of a block, each with a named barrier and a thread count of its own.
extern "C" __global__ void named_barrier(unsigned *out, const unsigned *in) {
  __shared__ unsigned tile[128];
  unsigned half = threadIdx.x / 64, i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = in[i];
  if (half == 0)
    asm volatile("bar.sync 1, 64;" ::: "memory");
  else
    asm volatile("bar.sync 2, 64;" ::: "memory");
  out[i] = tile[half * 64 + 63 - threadIdx.x % 64];
}
