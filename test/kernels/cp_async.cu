// Asynchronous copies to shared memory, complete before the block ends.
#include <cuda_pipeline.h>
extern "C" __global__ void cp_async(unsigned *out, const uint4 *in) {
  __shared__ uint4 tile[2][32];
  unsigned base = blockIdx.x * 64;
  __pipeline_memcpy_async(&tile[0][threadIdx.x], &in[base + threadIdx.x], 16);
  __pipeline_commit();
  __pipeline_memcpy_async(&tile[1][threadIdx.x], &in[base + 32 + threadIdx.x], 16);
  __pipeline_commit();
  __pipeline_wait_prior(1);
  __syncthreads();
  unsigned sum = tile[0][31 - threadIdx.x].x + tile[0][threadIdx.x].w;
  __pipeline_wait_prior(0);
  __syncthreads();
  sum = sum * 3 + tile[1][31 - threadIdx.x].y + tile[1][threadIdx.x].z;
  out[blockIdx.x * 32 + threadIdx.x] = sum;
}
