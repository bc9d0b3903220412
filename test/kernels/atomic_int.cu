// A histogram by integer atomics, through shared memory: any order gives the same bits.
extern "C" __global__ void atomic_int(unsigned *bins, unsigned *extremes, const unsigned *in,
                                      unsigned n) {
  __shared__ unsigned local[16];
  if (threadIdx.x < 16)
    local[threadIdx.x] = 0;
  __syncthreads();
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    atomicAdd(&local[in[i] % 16], 1);
    atomicMax(&extremes[0], in[i]);
    atomicXor(&extremes[1], in[i]);
  }
  __syncthreads();
  if (threadIdx.x < 16)
    atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
