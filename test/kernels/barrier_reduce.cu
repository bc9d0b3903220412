// A reduction by halving steps: the loop's trip count is uniform, the work in its body is not.
extern "C" __global__ void barrier_reduce(unsigned *out, const unsigned *in, unsigned n) {
  __shared__ unsigned partial[64];
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  partial[threadIdx.x] = i < n ? in[i] : 0;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half)
      partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0)
    out[blockIdx.x] = partial[0];
}
