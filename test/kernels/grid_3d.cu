// Every grid register of a three-dimensional grid and block.
extern "C" __global__ void grid_3d(unsigned *out, unsigned *runs) {
  unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  if (thread == 0)
    atomicAdd(&runs[block], 1);
  unsigned *mine = out + (block * threads + thread) * 2;
  mine[0] = blockIdx.x | blockIdx.y << 8 | blockIdx.z << 16;
  mine[1] = gridDim.x | gridDim.y << 8 | gridDim.z << 16;
}
