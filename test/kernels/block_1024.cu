// Blocks of 1024 threads with barriers.
extern "C" __global__ void block_1024(unsigned *out, const unsigned *in) {
  __shared__ unsigned tile[1024];
  tile[threadIdx.x] = in[threadIdx.x] + blockIdx.x;
  __syncthreads();
  unsigned value = tile[(threadIdx.x * 37) % 1024];
  __syncthreads();
  tile[1023 - threadIdx.x] = value;
  __syncthreads();
  out[blockIdx.x * 1024 + threadIdx.x] = tile[threadIdx.x];
}
