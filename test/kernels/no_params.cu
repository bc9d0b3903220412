// No parameters at all; the result is in module-scope memory.
__device__ unsigned noParamsRuns[64];
extern "C" __global__ void no_params() {
  atomicAdd(&noParamsRuns[blockIdx.y * 16 + blockIdx.x], threadIdx.x + 1);
}
