// Reads %ctaid.x alone and is launched with y > 1: a linear index in its place would be wrong.
extern "C" __global__ void grid_x_only(unsigned *runs) {
  atomicAdd(&runs[blockIdx.x * blockDim.x + threadIdx.x], 1);
}
