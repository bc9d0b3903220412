// Static shared memory of exactly 48 KiB, the limit: a variant cannot add a word.
extern "C" __global__ void shared_full_48k(unsigned *out, unsigned seed) {
  __shared__ unsigned big[12288];
  unsigned last = 12288 - 1;
  big[threadIdx.x] = seed + blockIdx.x;
  big[last - threadIdx.x] = seed * 3 + threadIdx.x;
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] =
      big[(threadIdx.x + 5) % blockDim.x] + big[last - (threadIdx.x + 7) % blockDim.x];
}
