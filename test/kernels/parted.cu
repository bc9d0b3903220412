// Warps that diverge before barriers: by the loop that ptxas makes of an atomic on shared memory,
// and by a loop whose turns each thread counts. A promise to ptxas that a warp is whole must not
// keep it from reconverging these warps. Sums are of small integers, so exact in any order.
extern "C" __global__ void parted(float *sums, const unsigned *values, int n) {
  __shared__ float columns[32], rows[64];
  int lane = threadIdx.x % 32, row = threadIdx.x / 32 + blockIdx.x * (blockDim.x / 32);
  float sum = 0;
  for (int i = row; i < n; i += gridDim.x * (blockDim.x / 32))
    sum += static_cast<float>(values[i * 32 + lane] & 15);
  if (threadIdx.x < 32)
    columns[threadIdx.x] = 0;
  rows[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(columns + lane, sum);
  __syncthreads();
  for (int i = threadIdx.x % 7; i < 32; i += 7)
    rows[threadIdx.x] += columns[i];
  __syncthreads();
  if (threadIdx.x < 32)
    atomicAdd(sums + threadIdx.x,
              columns[threadIdx.x] + rows[threadIdx.x] + rows[threadIdx.x + 32]);
}
