// Barriers in a uniform loop; the shared tile is overwritten on each turn and by the next block.
extern "C" __global__ void barrier_tiles(unsigned *out, const unsigned *in, int tiles) {
  __shared__ unsigned tile[64];
  unsigned sum = 0;
  for (int t = 0; t < tiles; ++t) {
    tile[threadIdx.x] = in[(blockIdx.x * tiles + t) * blockDim.x + threadIdx.x];
    __syncthreads();
    for (unsigned j = 0; j < blockDim.x; ++j)
      sum = sum * 31 + tile[(threadIdx.x + j) % blockDim.x];
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
