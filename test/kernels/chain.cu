// Three dependent kernels: each block of a kernel reads words that other blocks of the previous
// kernel wrote.
extern "C" __global__ void chain_first(unsigned *out, const unsigned *in) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i] * 3 + blockIdx.x;
}
extern "C" __global__ void chain_second(unsigned *out, const unsigned *in) {
  unsigned n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[n - 1 - i] ^ in[(i + blockDim.x) % n] * 5;
}
extern "C" __global__ void chain_third(unsigned *out, const unsigned *in) {
  __shared__ unsigned tile[32];
  unsigned n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = in[(i * 7) % n];
  __syncthreads();
  out[i] += tile[blockDim.x - 1 - threadIdx.x] + in[n - 1 - i];
}
