// Threads that leave before a barrier while others of their block wait at it.
extern "C" __global__ void barrier_divergent_exit(unsigned *out, const unsigned *in, unsigned n) {
  __shared__ unsigned tile[64];
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = 0;
  if (i >= n)
    return;
  tile[threadIdx.x] = in[i];
  __syncthreads();
  out[i] = tile[threadIdx.x ^ 1] + tile[threadIdx.x];
}
