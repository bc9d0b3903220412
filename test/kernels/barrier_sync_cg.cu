// The barrier that cooperative_groups emits for a block: `barrier.sync 0`, not `bar.sync 0`.
#include <cooperative_groups.h>

extern "C" __global__ void barrier_sync_cg(unsigned *out, const unsigned *in) {
  __shared__ unsigned tile[64];
  auto block = cooperative_groups::this_thread_block();
  tile[block.thread_rank()] = in[blockIdx.x * blockDim.x + threadIdx.x];
  block.sync();
  unsigned value = tile[blockDim.x - 1 - threadIdx.x];
  block.sync();
  tile[threadIdx.x] = value * 2;
  block.sync();
  out[blockIdx.x * blockDim.x + threadIdx.x] = tile[(threadIdx.x + 33) % blockDim.x];
}
