// Loops that wait for another thread block, each in a form that hides it; and retry loops, which
// wait for no block.
__device__ __noinline__ unsigned awaitNonzero(volatile unsigned *flag) {
  unsigned value;
  while ((value = *flag) == 0) {
  }
  return value;
}
// In a callee.
extern "C" __global__ void wait_in_callee(unsigned *out, unsigned *flags) {
  flags[blockIdx.x] = 1;
  out[blockIdx.x] = awaitNonzero(&flags[(blockIdx.x + 1) % gridDim.x]);
}
// Waits by a plain load between fences.
extern "C" __global__ void wait_plain_load(unsigned *out, unsigned *flag) {
  if (blockIdx.x == 0) {
    unsigned value;
    do {
      __threadfence();
      asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    } while (value != gridDim.x - 1);
  } else {
    atomicAdd(flag, 1);
  }
  out[blockIdx.x] = blockIdx.x;
}
// Napping.
extern "C" __global__ void wait_napping(unsigned *out, unsigned *flag) {
  if (blockIdx.x == 0) {
    unsigned value;
    do {
      __nanosleep(100);
      asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    } while (value != gridDim.x - 1);
  } else {
    atomicAdd(flag, 1);
  }
  out[blockIdx.x] = blockIdx.x;
}
// Waits by an acquiring load.
extern "C" __global__ void wait_acquire(unsigned *out, unsigned *flag) {
  unsigned value;
  if (blockIdx.x + 1 < gridDim.x)
    do
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                   : "=r"(value)
                   : "l"(flag + blockIdx.x)
                   : "memory");
    while (value == 0);
  atomicExch(flag + blockIdx.x - 1, 1);
  out[blockIdx.x] = blockIdx.x;
}
// By an exchange.
extern "C" __global__ void wait_exchange(unsigned *out, unsigned *lock) {
  while (atomicExch(lock, 1) != 0) {
  }
  *out += blockIdx.x;
  __threadfence();
  atomicExch(lock, 0);
}
// A lock whose free value is loaded before the loop, and is not a constant.
extern "C" __global__ void wait_loaded_comparand(unsigned *out, unsigned *lock) {
  unsigned free = *(volatile unsigned *)lock;
  while (atomicCAS(lock, free, 77) != free) {
  }
  *out += blockIdx.x;
  __threadfence();
  atomicExch(lock, free);
}
// A compare-and-swap that succeeds, and a wait for a value after it.
extern "C" __global__ void wait_for_value(unsigned *out, unsigned *word) {
  unsigned seen = *word, assumed;
  do {
    assumed = seen;
    seen = atomicCAS(word, assumed, assumed);
  } while (seen != 5);
  out[blockIdx.x] = seen;
}
// A retry that also waits while the value is "busy".
extern "C" __global__ void wait_while_busy(unsigned *out, unsigned *word) {
  unsigned seen = *word, assumed;
  do {
    assumed = seen == 1 ? 0 : seen;
    seen = atomicCAS(word, assumed, assumed + 2);
  } while (seen != assumed);
  out[blockIdx.x] = seen;
}
// The awaited value goes through shared memory.
extern "C" __global__ void wait_through_shared(unsigned *out, volatile unsigned *flag) {
  __shared__ volatile unsigned seen;
  for (;;) {
    if (threadIdx.x == 0)
      seen = flag[blockIdx.x + 1];
    __syncthreads();
    bool done = seen != 0;
    __syncthreads();
    if (done)
      break;
  }
  out[blockIdx.x] = seen;
}
// The value only decides the number of an inner loop's turns, which decides the outer loop.
extern "C" __global__ void wait_by_control(unsigned *out, volatile unsigned *flag) {
  unsigned turns = 0;
  bool done = false;
  while (!done) {
    unsigned limit = flag[0], count = 0;
#pragma unroll 1
    for (unsigned j = 0; j < limit; ++j)
      count += out[j] & 1;
    done = count != 0;
    ++turns;
  }
  out[blockIdx.x] = turns;
}
// Recursion in place of a loop.
__device__ __noinline__ unsigned awaitByRecursion(volatile unsigned *flag, unsigned depth) {
  if (*flag != 0)
    return depth;
  return awaitByRecursion(flag, depth + 1) + 1;
}
extern "C" __global__ void wait_by_recursion(unsigned *out, unsigned *flags) {
  flags[blockIdx.x] = 1;
  out[blockIdx.x] = awaitByRecursion(&flags[(blockIdx.x + 1) % gridDim.x], 0);
}
// Retry loops: a sum of doubles, and a maximum that ends when the stored value is already larger.
extern "C" __global__ void retry_double(unsigned long long *sum, const double *in) {
  double value = in[blockIdx.x * blockDim.x + threadIdx.x];
  unsigned long long seen = *sum, assumed;
  do {
    assumed = seen;
    seen = atomicCAS(sum, assumed, __double_as_longlong(value + __longlong_as_double(assumed)));
  } while (assumed != seen);
}
extern "C" __global__ void retry_maximum(unsigned *most, const unsigned *in) {
  unsigned value = in[blockIdx.x * blockDim.x + threadIdx.x], seen = *most;
  while (seen < value) {
    unsigned assumed = seen;
    seen = atomicCAS(most, assumed, value);
    if (seen == assumed)
      break;
  }
}
