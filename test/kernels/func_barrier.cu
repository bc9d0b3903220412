// A device function that is not inlined and holds a barrier.
__device__ __noinline__ unsigned exchange(unsigned *tile, unsigned value) {
  tile[threadIdx.x] = value;
  __syncthreads();
  return tile[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void func_barrier(unsigned *out, const unsigned *in) {
  __shared__ unsigned tile[32];
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = exchange(tile, in[i]);
}
