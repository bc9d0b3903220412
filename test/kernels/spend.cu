// Threads that exit while others of their warp still execute warp operations that name them.

// Part of a warp exits, in some warps of some blocks; blocks of any shape.
extern "C" __global__ void part_leaves(unsigned *out, const unsigned *in, unsigned from) {
  unsigned t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  unsigned i = blockIdx.x * blockDim.x * blockDim.y * blockDim.z + t, lane = t % 32;
  unsigned value = in[i];
  if (blockIdx.x % 3 == 1 && t / 32 == 1 && lane >= from) {
    out[i] = value;
    return;
  }
  for (unsigned step = 1; step < 32; step *= 2) {
    unsigned other = __shfl_up_sync(0xffffffff, value, step);
    value += lane >= step ? other : 0;
  }
  out[i] = value;
}

// Thread 0 exits with part of its warp; the rest of the block goes on, and other whole warps exit
// before its last barriers.
extern "C" __global__ void leader_spends(unsigned *out, const unsigned *in) {
  __shared__ unsigned tile[128];
  unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  tile[t] = in[i];
  __syncthreads();
  if (blockIdx.x % 2 == 0 && t < 5)
    return;
  __syncthreads();
  unsigned value = __shfl_down_sync(0xffffffff, tile[t], 1);
  __syncthreads();
  tile[t] = value;
  if (t >= 96)
    return;
  __syncthreads();
  value += tile[t ^ 32];
  if (t % 32 == 31)
    return;
  out[i] = value + __popc(__ballot_sync(0x7fffffff, value & 1));
}

// Every block has a divided warp.
extern "C" __global__ void always_divided(unsigned *out, const unsigned *in) {
  unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  if (t >= 48)
    return;
  unsigned value = in[i];
  for (unsigned step = 1; step < 16; step *= 2)
    value ^= __shfl_xor_sync(0xffffffff, value, step);
  out[i] = value;
}

// A mask of active threads, some of which have exited since.
extern "C" __global__ void active_before(unsigned *out, const unsigned *in) {
  unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  unsigned value = in[i], mask = __activemask();
  if (value % 4 == 1)
    return;
  __syncwarp(mask);
  out[i] = value + __popc(__match_any_sync(mask, 1u) & 0);
}

// The same without exits in between: the variant needs no extra code.
extern "C" __global__ void active_now(unsigned *out, const unsigned *in) {
  unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  unsigned value = in[i];
  if (value % 4 == 1)
    return;
  unsigned mask = __activemask();
  __syncwarp(mask);
  if (value % 4 == 2)
    value += 5;
  out[i] = value;
}

// A barrier with a thread count after part of a warp has exited: the warp counts as whole.
extern "C" __global__ void divided_counted(unsigned *out, const unsigned *in) {
  __shared__ unsigned tile[96];
  unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  tile[t] = in[i];
  __syncthreads();
  if (t >= 64 || (t % 32 == 7 && blockIdx.x % 2 == 1))
    return;
  unsigned value = tile[t + 32];
  asm volatile("bar.sync 2, 64;" ::: "memory");
  tile[t] = value;
  asm volatile("bar.sync 2, 64;" ::: "memory");
  out[i] = tile[63 - t] + value;
}
