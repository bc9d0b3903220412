// A call of a known external function, never taken.
#include <cassert>
extern "C" __global__ void assert_call(unsigned *out, const unsigned *in, unsigned limit) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  assert(threadIdx.x < limit && "thread in range");
  out[i] = in[i] * 2 + gridDim.x;
}
