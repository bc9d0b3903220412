// A kernel that launches a kernel.
__global__ void child(unsigned *out) { out[blockIdx.x] = blockIdx.x; }
extern "C" __global__ void dynamic_parallelism(unsigned *out) {
  if (threadIdx.x == 0)
    child<<<4, 1>>>(out + 4 * blockIdx.x);
}
