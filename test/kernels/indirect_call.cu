// A call through a table of functions.
typedef unsigned (*Operation)(unsigned);
__device__ __noinline__ unsigned twice(unsigned a) { return a * 2; }
__device__ __noinline__ unsigned square(unsigned a) { return a * a; }
__device__ Operation operations[2] = {twice, square};
extern "C" __global__ void indirect_call(unsigned *out, const unsigned *in) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = operations[in[i] % 2](i);
}
