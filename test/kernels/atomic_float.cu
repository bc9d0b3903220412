// A sum by floating-point atomics: the last bits depend on the order of blocks.
extern "C" __global__ void atomic_float(float *sum, const float *in) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&sum[threadIdx.x % 2], in[i] + 2.0f);
}
