// Static and dynamic shared memory together: the variant's own words must not move into the dynamic
// part.
extern __shared__ unsigned pool[];
extern "C" __global__ void static_dynamic_shared(unsigned *out, const unsigned *in) {
  __shared__ unsigned sums[2];
  __shared__ unsigned char flags[33];
  if (threadIdx.x < 2)
    sums[threadIdx.x] = 0;
  if (threadIdx.x < 33)
    flags[threadIdx.x] = threadIdx.x;
  pool[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  atomicAdd(&sums[threadIdx.x & 1], pool[blockDim.x - 1 - threadIdx.x]);
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] =
      sums[0] * 3 + sums[1] + pool[threadIdx.x ^ 1] + flags[threadIdx.x % 33];
}
