// Threads that exit while others of their block, or of their warp, still meet at barriers.

__device__ __forceinline__ unsigned threadInBlock() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ unsigned threadsOfBlock() {
  return blockDim.x * blockDim.y * blockDim.z;
}

// Exits at two places in a loop, each thread in another round; blocks of at most 256 threads.
extern "C" __global__ void leave_in_rounds(unsigned *out, const unsigned *in, unsigned rounds) {
  __shared__ unsigned tile[256];
  unsigned t = threadInBlock(), n = threadsOfBlock(), i = blockIdx.x * n + t, sum = 0;
  tile[t] = t;
  __syncthreads();
  for (unsigned round = 0; round < rounds; ++round) {
    if ((t * 7 + round * 5 + blockIdx.x) % 13 == 3) {
      out[i] = sum;
      return;
    }
    tile[t] = in[i] + round;
    __syncthreads();
    sum += tile[(t + round + 1) % n];
    __syncthreads();
    if (sum % 11 == 4) {
      out[i] = sum ^ 0x5a;
      return;
    }
  }
  out[i] = sum + 1;
}

// Thread 0, which takes the worker's virtual blocks, exits first.
extern "C" __global__ void leader_leaves_first(unsigned *out, const unsigned *in) {
  __shared__ unsigned tile[128];
  unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  tile[t] = in[i];
  __syncthreads();
  if (t % 32 == 0)
    return;
  __syncthreads();
  unsigned value = tile[t - 1];
  __syncthreads();
  tile[t] = value + tile[t];
  __syncthreads();
  out[i] = tile[t % 32 == 1 ? t : t - 1];
}

// In every second block all threads exit at once, in the others some; no thread reaches the end.
extern "C" __global__ void all_leave(unsigned *out, const unsigned *in) {
  __shared__ unsigned tile[96];
  unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  out[i] = 7;
  if (blockIdx.x & 1)
    return;
  tile[t] = in[i];
  __syncthreads();
  unsigned value = tile[t ^ 1];
  if (t >= 41)
    return;
  __syncthreads();
  tile[t + 41] = value;
  __syncthreads();
  out[i] = tile[81 - t];
}

// Barriers with several ids, each of the whole block, on both sides of a branch and behind exits.
extern "C" __global__ void several_names(unsigned *out, const unsigned *in, unsigned last) {
  __shared__ unsigned tile[96];
  unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t, id = last & 7;
  tile[t] = in[i];
  __syncthreads();
  if (t % 5 == 2)
    return;
  if (t < 50)
    asm volatile("barrier.sync 3;" ::: "memory");
  else
    asm volatile("barrier.sync 3;" ::: "memory");
  unsigned value = tile[(t + 1) % 96];
  if (t % 7 == 3)
    return;
  asm volatile("barrier.sync %0;" ::"r"(id) : "memory");
  tile[t] = value;
  asm volatile("barrier.sync 15;" ::: "memory");
  out[i] = tile[(t + 1) % 96] + value;
}

// Barrier reductions while threads exit: exited threads do not count.
extern "C" __global__ void reduce_and_leave(unsigned *out, const unsigned *in, unsigned rounds) {
  unsigned t = threadInBlock(), i = blockIdx.x * threadsOfBlock() + t, sum = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    unsigned value = in[i] >> round;
    unsigned count = __syncthreads_count(value & 1);
    sum = sum * 31 + count;
    sum = sum * 2 + (__syncthreads_or(t > 20 && (value & 2)) != 0);
    sum = sum * 2 + (__syncthreads_and(t <= 40 || (t + round) % 3 == 0) != 0);
    __syncthreads();
    out[i] = sum;
    if (t > 40 && (t + round) % 3 != 0)
      return;
    if ((value & 12) == 4)
      return;
  }
  out[i] = sum + 1;
}

// Barriers with thread counts, which never counted exited threads: first of two warps after the
// third has exited, then of one warp.
extern "C" __global__ void counted_after_leaving(unsigned *out, const unsigned *in) {
  __shared__ unsigned tile[96];
  unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  tile[t] = in[i];
  __syncthreads();
  if (t >= 64)
    return;
  unsigned value = tile[t + 32];
  asm volatile("bar.sync 0, 64;" ::: "memory");
  tile[t] = value;
  asm volatile("bar.sync 0, 64;" ::: "memory");
  value += tile[63 - t];
  if (t >= 32) {
    out[i] = value;
    return;
  }
  asm volatile("bar.sync 1, 32;" ::: "memory");
  tile[64 + t] = value;
  asm volatile("bar.sync 1, 32;" ::: "memory");
  out[i] = tile[95 - t] + value;
}

// Whole warps leave, each in another round, and wait for the working warps at full-block barriers,
// with a reduction and without.
extern "C" __global__ void warps_leave(unsigned *out, const unsigned *in) {
  __shared__ unsigned tile[256];
  unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t, sum = 0;
  tile[t] = in[i];
  __syncthreads();
  for (unsigned round = 0; round < 4; ++round) {
    if ((t / 32 * 5 + in[blockIdx.x] + round) % 4 == 1)
      break;
    sum += tile[(t + round * 32) % blockDim.x];
    __syncthreads();
    tile[t] = sum + round;
    __syncthreads();
  }
  out[i] = sum;
}
extern "C" __global__ void warps_leave_counted(unsigned *out, const unsigned *in) {
  unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t, sum = 0;
  for (unsigned round = 0; round < 4; ++round) {
    if ((t / 32 * 5 + in[blockIdx.x] + round) % 4 == 1)
      break;
    sum = sum * 3 + __syncthreads_count(in[i] >> round & 1);
  }
  out[i] = sum;
}
