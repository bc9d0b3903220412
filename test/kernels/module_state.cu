// A counter of the module: a second run on the same instance starts from the first run's final
// value.
__device__ unsigned blocksSeen = 5;
__device__ unsigned long long weighted;
extern "C" __global__ void module_state(unsigned *out) {
  if (threadIdx.x == 0) {
    atomicAdd(&blocksSeen, 1);
    atomicAdd(&weighted, (unsigned long long)blockIdx.x * blockIdx.x + 1);
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = gridDim.x;
}
