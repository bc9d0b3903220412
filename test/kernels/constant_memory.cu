// Initialised constant and global variables of the module.
__constant__ unsigned weights[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ unsigned offsets[4] = {100, 200, 300, 400};
extern "C" __global__ void constant_memory(unsigned *out, const unsigned *in) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned sum = offsets[blockIdx.x % 4];
  for (unsigned j = 0; j < 8; ++j)
    sum += weights[(j + threadIdx.x) % 8] * in[(i + j) % 64];
  out[i] = sum;
}
