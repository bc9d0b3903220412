// Barriers in called functions: all threads call equally often, through a pointer that all share,
// in a clone that reads the block's ids; and calls by some threads only, or a barrier that an
// argument decides.
__device__ unsigned where() { return blockIdx.x * blockDim.x + threadIdx.x; }

__device__ __noinline__ unsigned turn(unsigned value) {
  __shared__ unsigned words[64];
  __syncthreads();
  words[threadIdx.x] = value + blockIdx.x;
  __syncthreads();
  return words[blockDim.x - 1 - threadIdx.x] * gridDim.x;
}
__device__ __noinline__ unsigned twice(unsigned value) { return turn(turn(value) + 1); }

extern "C" __global__ void barrier_calls(unsigned *out, const unsigned *in, unsigned rounds) {
  unsigned value = in[where()];
  for (unsigned i = 0; i < rounds; ++i)
    value = twice(value + i);
  out[where()] = value;
}

typedef unsigned (*Exchange)(unsigned);
__device__ __noinline__ unsigned first(unsigned value) {
  __shared__ unsigned word;
  if (threadIdx.x == 3)
    word = value;
  __syncthreads();
  unsigned all = word;
  __syncthreads();
  return all + value;
}
__device__ Exchange const exchanges[2] = {turn, first};
extern "C" __global__ void barrier_pointer(unsigned *out, const unsigned *in, unsigned which) {
  out[where()] = exchanges[which % 2](in[where()]);
}

// A thread exits after the call: it has met the other threads at every barrier.
extern "C" __global__ void barrier_then_exit(unsigned *out, const unsigned *in, unsigned limit) {
  unsigned value = turn(in[where()]);
  if (value % 3 == 0 || threadIdx.x >= limit)
    return;
  out[where()] = value;
}

// Threads leave before the call.
extern "C" __global__ void barrier_after_exit(unsigned *out, const unsigned *in, unsigned limit) {
  if (threadIdx.x >= limit)
    return;
  out[where()] = first(in[where()]);
}

// An argument decides whether the callee executes its barrier.
__device__ __noinline__ unsigned maybe(unsigned value, unsigned meets) {
  __shared__ unsigned word;
  if (meets == 0)
    return value;
  if (threadIdx.x == 0)
    word = value;
  __syncthreads();
  return word;
}
extern "C" __global__ void barrier_by_argument(unsigned *out, const unsigned *in, unsigned meets) {
  out[where()] = maybe(in[where()], meets);
}
