// A cluster with its barrier and its registers.
#include <cooperative_groups.h>
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster(unsigned *out) {
  __shared__ unsigned mine;
  auto group = cooperative_groups::this_cluster();
  if (threadIdx.x == 0)
    mine = blockIdx.x;
  group.sync();
  unsigned *other = group.map_shared_rank(&mine, group.block_rank() ^ 1);
  out[blockIdx.x * blockDim.x + threadIdx.x] = *other;
  group.sync();
}
