// Clusters of several shapes, by the kernel's own demand and by the launch's: their registers,
// barrier and distributed shared memory.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

#define CLUSTER_REGISTER(name)                                                                     \
  __device__ unsigned name() {                                                                     \
    unsigned value;                                                                                \
    asm volatile("mov.u32 %0, %%" #name ";" : "=r"(value));                                        \
    return value;                                                                                  \
  }
#define CLUSTER_REGISTERS(name)                                                                    \
  __device__ uint3 name() {                                                                        \
    uint3 value;                                                                                   \
    asm volatile("mov.u32 %0, %%" #name ".x;" : "=r"(value.x));                                    \
    asm volatile("mov.u32 %0, %%" #name ".y;" : "=r"(value.y));                                    \
    asm volatile("mov.u32 %0, %%" #name ".z;" : "=r"(value.z));                                    \
    return value;                                                                                  \
  }
CLUSTER_REGISTER(cluster_ctarank)
CLUSTER_REGISTER(cluster_nctarank)
CLUSTER_REGISTERS(clusterid)
CLUSTER_REGISTERS(nclusterid)
CLUSTER_REGISTERS(cluster_ctaid)
CLUSTER_REGISTERS(cluster_nctaid)

__device__ unsigned blockIndex() {
  return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}

__device__ void put(unsigned *&out, uint3 value) {
  *out++ = value.x;
  *out++ = value.y;
  *out++ = value.z;
}

// Writes sixteen words a block: its position.
__device__ void describe(unsigned *out) {
  out += blockIndex() * 16;
  put(out, clusterid());
  put(out, nclusterid());
  put(out, cluster_ctaid());
  put(out, cluster_nctaid());
  *out++ = cluster_ctarank();
  *out++ = cluster_nctarank();
  unsigned isExplicit;
  asm volatile("{ .reg .pred %%p; mov.pred %%p, %%is_explicit_cluster; selp.u32 %0, 1, 0, %%p; }"
               : "=r"(isExplicit));
  *out++ = isExplicit;
}

extern "C" __global__ void __cluster_dims__(2, 2, 1) cluster_places_2d(unsigned *out) {
  describe(out);
}
extern "C" __global__ void __cluster_dims__(1, 2, 2) cluster_places_3d(unsigned *out) {
  describe(out);
}
extern "C" __global__ void cluster_places_at_launch(unsigned *out) { describe(out); }

// Every block adds the sums of the other blocks of its cluster.
__device__ void reduce(unsigned *out, const unsigned *in) {
  __shared__ unsigned mine;
  cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0)
    mine = 0;
  __syncthreads();
  atomicAdd(&mine, in[blockIndex() * blockDim.x + threadIdx.x]);
  cluster.sync();
  unsigned sum = 0;
  for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank)
    sum += *cluster.map_shared_rank(&mine, rank);
  cluster.sync();
  out[blockIndex() * blockDim.x + threadIdx.x] = sum + threadIdx.x;
}
extern "C" __global__ void __cluster_dims__(4, 1, 1)
    cluster_reduce_4(unsigned *out, const unsigned *in) {
  reduce(out, in);
}
extern "C" __global__ void __cluster_dims__(2, 2, 1)
    cluster_reduce_2x2(unsigned *out, const unsigned *in) {
  reduce(out, in);
}
extern "C" __global__ void cluster_reduce_at_launch(unsigned *out, const unsigned *in) {
  reduce(out, in);
}

// Sums into the first block's shared memory from all others.
extern "C" __global__ void __cluster_dims__(4, 1, 1)
    cluster_remote_atomics(unsigned *out, const unsigned *in) {
  __shared__ unsigned total[32];
  cg::cluster_group cluster = cg::this_cluster();
  total[threadIdx.x] = 0;
  cluster.sync();
  atomicAdd(cluster.map_shared_rank(&total[threadIdx.x], 0),
            in[blockIdx.x * blockDim.x + threadIdx.x]);
  cluster.sync();
  if (cluster.block_rank() == 0)
    out[clusterid().x * blockDim.x + threadIdx.x] = total[threadIdx.x];
}

// The last blocks of a cluster, and the odd threads of the first block, exit before the others'
// barrier.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_early_exit(unsigned *out, unsigned n) {
  __shared__ unsigned mine[32];
  unsigned rank = cluster_ctarank();
  if (rank >= n || (rank == 0 && threadIdx.x % 2))
    return;
  mine[threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
  asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
  unsigned *other = cg::this_cluster().map_shared_rank(mine, (rank + 1) % n);
  out[blockIdx.x * blockDim.x + threadIdx.x] = other[threadIdx.x & ~1u] + threadIdx.x;
  asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}

// getctarank, isspacep, the shared::cluster window, and an arrive with a later wait.
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_addresses(unsigned *out) {
  __shared__ unsigned mine[32];
  unsigned rank = cluster_ctarank();
  mine[threadIdx.x] = blockIdx.x * 64 + threadIdx.x;
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  unsigned local = static_cast<unsigned>(__cvta_generic_to_shared(&mine[threadIdx.x]));
  unsigned remote, value, owner, ownerOfLocal, inBlock, inCluster;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(rank ^ 1));
  asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(owner) : "r"(remote));
  asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(ownerOfLocal) : "r"(local));
  unsigned *generic = cg::this_cluster().map_shared_rank(&mine[threadIdx.x], rank ^ 1);
  asm volatile("{ .reg .pred %%p; isspacep.shared::cta %%p, %1; selp.u32 %0, 1, 0, %%p; }"
               : "=r"(inBlock)
               : "l"(generic));
  asm volatile("{ .reg .pred %%p; isspacep.shared::cluster %%p, %1; selp.u32 %0, 1, 0, %%p; }"
               : "=r"(inCluster)
               : "l"(generic));
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(remote) : "memory");
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(remote), "r"(value + 1) : "memory");
  asm volatile("barrier.cluster.arrive;\n\tbarrier.cluster.wait;" ::: "memory");
  unsigned *to = out + (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  to[0] = value;
  to[1] = mine[threadIdx.x];
  to[2] = owner * 16 + ownerOfLocal;
  to[3] = inBlock * 16 + inCluster;
}
