// `exit` by part of a block before a barrier.
extern "C" __global__ void barrier_divergent_asm_exit(unsigned *out, unsigned live) {
  __shared__ unsigned tile[64];
  if (threadIdx.x >= live)
    asm volatile("exit;");
  tile[threadIdx.x] = blockIdx.x * 1000 + threadIdx.x;
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = tile[live - 1 - threadIdx.x];
}
