// Work taken from a counter until a bound: each block counts on by itself. The results do not
// depend on which block did the work.
__device__ void work(unsigned *out, const unsigned *in, unsigned at) { out[at] = in[at] * 3 + 1; }
// One ticket for the whole block, passed through shared memory beside an array.
extern "C" __global__ void count_tiles(unsigned *out, const unsigned *in, unsigned *next,
                                       unsigned tiles) {
  __shared__ unsigned tile, sums[32];
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0)
      tile = atomicAdd(next, 1);
    __syncthreads();
    if (tile >= tiles)
      return;
    unsigned at = tile * blockDim.x + threadIdx.x;
    sums[threadIdx.x & 31] = in[at];
    __syncthreads();
    out[at] = sums[threadIdx.x + 1 & 31] * 3 + in[at];
  }
}
// 32 elements for each warp; its first lane passes the ticket on.
extern "C" __global__ void count_warps(unsigned *out, const unsigned *in, unsigned *next,
                                       unsigned size) {
  unsigned lane = threadIdx.x & 31, first = 0;
  for (;;) {
    if (lane == 0)
      first = atomicAdd(next, 32);
    first = __shfl_sync(~0u, first, 0);
    if (first >= size)
      return;
    if (first + lane < size)
      work(out, in, first + lane);
  }
}
// One element at a time; the first ticket is taken before the loop.
extern "C" __global__ void count_threads(unsigned *out, const unsigned *in, unsigned *next,
                                         unsigned size) {
  for (unsigned at = atomicAdd(next, 1); at < size; at = atomicAdd(next, 1))
    work(out, in, at);
}
// Kernels that the analysis refuses, each for one detail. Waits until all blocks have come.
extern "C" __global__ void count_arrivals(unsigned *out, unsigned *arrived) {
  atomicAdd(arrived, 1);
  while (atomicAdd(arrived, 0) < gridDim.x) {
  }
  out[blockIdx.x] = 1;
}
// Waits until no block has come.
extern "C" __global__ void count_first(unsigned *out, unsigned *next, unsigned limit) {
  while (atomicAdd(next, 1) >= limit) {
  }
  out[blockIdx.x] = 1;
}
// Only the block with the last ticket leaves.
extern "C" __global__ void count_exactly(unsigned *out, unsigned *next, unsigned limit) {
  while (atomicAdd(next, 1) != limit) {
  }
  out[blockIdx.x] = 1;
}
// Waits until another block has taken a ticket in between.
extern "C" __global__ void count_gap(unsigned *out, unsigned *next) {
  unsigned before = atomicAdd(next, 1), now;
  while ((now = atomicAdd(next, 1)) <= before + 1)
    before = now;
  out[blockIdx.x] = 1;
}
// Another block counts down again.
extern "C" __global__ void count_down(unsigned *out, unsigned *next, unsigned limit) {
  while (atomicAdd(next, 1) < limit)
    out[blockIdx.x] += 1;
  atomicSub(next, 1);
}
// A thread of the grid resets the counter.
extern "C" __global__ void count_anew(unsigned *out, unsigned *next, unsigned limit) {
  while (atomicAdd(next, 1) < limit)
    out[blockIdx.x] += 1;
  *next = 0;
}
// The bound is another counter.
extern "C" __global__ void count_chased(unsigned *out, unsigned *next, volatile unsigned *limit) {
  while (atomicAdd(next, 1) < *limit)
    out[blockIdx.x] += 1;
}
// A store to an array with an unknown index may overwrite the ticket.
extern "C" __global__ void count_overwritten(unsigned *out, const unsigned *in, unsigned *next,
                                             unsigned tiles) {
  __shared__ unsigned places[64];
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0)
      places[0] = atomicAdd(next, 1);
    places[in[threadIdx.x]] = in[threadIdx.x + 32];
    __syncthreads();
    if (places[0] >= tiles)
      return;
    out[places[0]] = 1;
  }
}
