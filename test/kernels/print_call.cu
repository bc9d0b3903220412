// A call of vprintf, never taken.
#include <cstdio>
extern "C" __global__ void print_call(unsigned *out, unsigned loud) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (loud)
    printf("block %u of %u\n", blockIdx.x, gridDim.x);
  out[i] = i + gridDim.x;
}
