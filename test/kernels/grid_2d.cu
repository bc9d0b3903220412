// Every grid register of a two-dimensional grid, and a count of how often each block ran.
extern "C" __global__ void grid_2d(unsigned *out, unsigned *runs) {
  unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
  if (threadIdx.x == 0)
    atomicAdd(&runs[block], 1);
  out[block * blockDim.x + threadIdx.x] =
      blockIdx.x | blockIdx.y << 8 | gridDim.x << 16 | gridDim.y << 24;
}
