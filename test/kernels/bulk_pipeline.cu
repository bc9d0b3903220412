// Bulk copies that complete mbarriers, alone and in clusters; asynchronous stores; a warp that only
// copies beside warps that only compute.
__device__ unsigned sharedAddress(const void *pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}
__device__ void initialise(unsigned barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ void expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ void await(unsigned barrier, unsigned parity) {
  asm volatile("{\n\t.reg .pred %%done;\n"
               "$again_%=:\n\tmbarrier.try_wait.parity.shared::cta.b64 %%done, [%0], %1;\n\t"
               "@!%%done bra $again_%=;\n\t}" ::"r"(barrier),
               "r"(parity)
               : "memory");
}
__device__ void copyIn(unsigned to, const void *from, unsigned bytes, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
      : "memory");
}
__device__ void clusterSync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}
__device__ unsigned clusterRank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ unsigned inRank(unsigned address, unsigned rank) {
  unsigned mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}

// Two buffers: warp 0 fills them; the other warps add the values up and release the buffers.
extern "C" __global__ void bulk_pipeline(unsigned *out, const unsigned *in, unsigned tiles) {
  __shared__ alignas(128) unsigned tile[2][64];
  __shared__ unsigned long long full[2], empty[2];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      initialise(sharedAddress(&full[i]), 1);
      initialise(sharedAddress(&empty[i]), 64);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  in += blockIdx.x * tiles * 64;
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0)
      for (unsigned i = 0; i < tiles; ++i) {
        if (i >= 2)
          await(sharedAddress(&empty[i % 2]), (i / 2 + 1) % 2);
        expect(sharedAddress(&full[i % 2]), 256);
        copyIn(sharedAddress(tile[i % 2]), in + i * 64, 256, sharedAddress(&full[i % 2]));
      }
    return;
  }
  unsigned lane = threadIdx.x - 32, sum = 0;
  for (unsigned i = 0; i < tiles; ++i) {
    await(sharedAddress(&full[i % 2]), i / 2 % 2);
    sum = sum * 3 + tile[i % 2][lane];
    arrive(sharedAddress(&empty[i % 2]));
  }
  out[blockIdx.x * 64 + lane] = sum;
}

// Stores through shared memory by a bulk group.
extern "C" __global__ void bulk_store(unsigned *out, const unsigned *in) {
  __shared__ alignas(16) unsigned tile[64];
  tile[threadIdx.x] = in[blockIdx.x * 64 + (threadIdx.x ^ 63)] + blockIdx.x;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n\t"
                 "cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::"l"(
                     __cvta_generic_to_global(out + blockIdx.x * 64)),
                 "r"(sharedAddress(tile)), "r"(256)
                 : "memory");
}

// The first block of a pair copies one tile to both.
extern "C" __global__ void __cluster_dims__(2, 1, 1)
    bulk_multicast(unsigned *out, const unsigned *in) {
  __shared__ alignas(128) unsigned tile[64];
  __shared__ unsigned long long full;
  if (threadIdx.x == 0) {
    initialise(sharedAddress(&full), 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    expect(sharedAddress(&full), 256);
  }
  clusterSync();
  if (threadIdx.x == 0 && clusterRank() == 0)
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1], %2, [%3], %4;" ::"r"(sharedAddress(tile)),
        "l"(__cvta_generic_to_global(in + blockIdx.x / 2 * 64)), "r"(256),
        "r"(sharedAddress(&full)), "h"(static_cast<unsigned short>(3))
        : "memory");
  await(sharedAddress(&full), 0);
  out[blockIdx.x * 64 + threadIdx.x] = tile[threadIdx.x] + blockIdx.x;
  clusterSync();
}

// Every block of a cluster arrives at the first block's mbarrier, and reads after it.
extern "C" __global__ void __cluster_dims__(4, 1, 1) remote_arrive(unsigned *out) {
  __shared__ unsigned long long everyone;
  __shared__ unsigned slots[4][32];
  unsigned rank = clusterRank();
  if (threadIdx.x == 0 && rank == 0) {
    initialise(sharedAddress(&everyone), 4 * 32);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  clusterSync();
  asm volatile(
      "st.shared::cluster.u32 [%0], %1;" ::"r"(inRank(sharedAddress(&slots[rank][threadIdx.x]), 0)),
      "r"(blockIdx.x * 1000 + threadIdx.x)
      : "memory");
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(
                   inRank(sharedAddress(&everyone), 0))
               : "memory");
  if (rank == 0) {
    asm volatile("{\n\t.reg .pred %%done;\n"
                 "$again_%=:\n\tmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %%done, "
                 "[%0], 0;\n\t"
                 "@!%%done bra $again_%=;\n\t}" ::"r"(sharedAddress(&everyone))
                 : "memory");
    unsigned sum = 0;
    for (int i = 0; i < 4; ++i)
      sum += slots[i][threadIdx.x];
    out[blockIdx.x / 4 * 32 + threadIdx.x] = sum;
  }
  clusterSync();
}

// Stores and sums that complete another block's mbarrier.
extern "C" __global__ void __cluster_dims__(2, 1, 1) store_async(unsigned *out) {
  __shared__ unsigned long long ready;
  __shared__ alignas(16) unsigned inbox[64], total;
  unsigned other = clusterRank() ^ 1;
  if (threadIdx.x == 0) {
    total = 0;
    initialise(sharedAddress(&ready), 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    expect(sharedAddress(&ready), 32 * (8 + 4));
  }
  clusterSync();
  unsigned barrier = inRank(sharedAddress(&ready), other);
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%0], {%1, %2}, [%3];" ::
          "r"(inRank(sharedAddress(&inbox[2 * threadIdx.x]), other)),
      "r"(blockIdx.x * 100 + threadIdx.x), "r"(threadIdx.x * 7), "r"(barrier)
      : "memory");
  asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 "
               "[%0], %1, [%2];" ::"r"(inRank(sharedAddress(&total), other)),
               "r"(blockIdx.x + threadIdx.x), "r"(barrier)
               : "memory");
  await(sharedAddress(&ready), 0);
  out[blockIdx.x * 32 + threadIdx.x] = inbox[2 * threadIdx.x] + inbox[2 * threadIdx.x + 1] + total;
  clusterSync();
}

// Every thread's non-bulk copies count at the mbarrier.
extern "C" __global__ void copy_arrive(unsigned *out, const unsigned *in) {
  __shared__ alignas(16) unsigned tile[128];
  __shared__ unsigned long long full;
  if (threadIdx.x == 0)
    initialise(sharedAddress(&full), 32);
  __syncthreads();
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;\n\t"
               "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%2];" ::"r"(
                   sharedAddress(tile + 4 * threadIdx.x)),
               "l"(__cvta_generic_to_global(in + blockIdx.x * 128 + 4 * threadIdx.x)),
               "r"(sharedAddress(&full))
               : "memory");
  await(sharedAddress(&full), 0);
  unsigned sum = 0;
  for (int i = 0; i < 4; ++i)
    sum += tile[(threadIdx.x * 4 + i * 33) % 128];
  out[blockIdx.x * 32 + threadIdx.x] = sum;
}

// Two warpgroups compute, with registers that a third warpgroup, which copies, has released.
extern "C" __global__ void __launch_bounds__(384, 1)
    warp_specialised(unsigned *out, const unsigned *in) {
  __shared__ alignas(128) unsigned tile[256];
  __shared__ unsigned long long full;
  if (threadIdx.x == 0)
    initialise(sharedAddress(&full), 1);
  __syncthreads();
  if (threadIdx.x >= 256) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 256) {
      expect(sharedAddress(&full), 1024);
      copyIn(sharedAddress(tile), in + blockIdx.x * 256, 1024, sharedAddress(&full));
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    await(sharedAddress(&full), 0);
    out[blockIdx.x * 256 + threadIdx.x] = tile[255 - threadIdx.x] + blockIdx.x;
  }
}
