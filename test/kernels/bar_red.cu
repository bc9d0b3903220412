// Reducing barriers; nvcc declares their predicates in scopes that shadow the kernel's own.
extern "C" __global__ void bar_red(unsigned *out, const unsigned *in, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned value = in[i];
  bool small = value < n;
  unsigned count = __syncthreads_count(small);
  unsigned all = __syncthreads_and(value != blockIdx.x) != 0;
  unsigned any = __syncthreads_or(value == n + blockIdx.x) != 0;
  out[i] = count | all << 16 | any << 17 | (small ? 1u << 18 : 0);
}
