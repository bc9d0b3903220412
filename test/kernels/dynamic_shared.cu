// Dynamic shared memory.
extern __shared__ unsigned pool[];
extern "C" __global__ void dynamic_shared(unsigned *out, const unsigned *in, unsigned perThread) {
  unsigned base = blockIdx.x * blockDim.x * perThread;
  for (unsigned j = 0; j < perThread; ++j)
    pool[threadIdx.x * perThread + j] = in[base + threadIdx.x * perThread + j];
  __syncthreads();
  unsigned sum = 0;
  for (unsigned j = 0; j < perThread; ++j)
    sum += pool[j * blockDim.x + threadIdx.x] * (j + 1);
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
