// Single-pass scans: each block adds the sums that lower blocks published. It looks back over their
// words until it finds a word with a whole prefix.
__device__ uint2 published(const uint2 *word) {
  uint2 value;
  asm volatile("ld.relaxed.gpu.v2.u32 {%0, %1}, [%2];"
               : "=r"(value.x), "=r"(value.y)
               : "l"(word)
               : "memory");
  return value;
}
__device__ void publish(uint2 *word, unsigned state, unsigned value) {
  asm volatile("st.relaxed.gpu.v2.u32 [%0], {%1, %2};"
               :
               : "l"(word), "r"(state), "r"(value)
               : "memory");
}
// Returns the sum before `tile`, which itself adds up to `total`. A whole warp calls it, and looks
// at 32 words at a time.
__device__ unsigned lookBack(uint2 *words, int tile, unsigned total) {
  int lane = threadIdx.x % 32, look = tile - 1 - lane;
  if (tile == 0) {
    if (lane == 0)
      publish(words, 2, total);
    return 0;
  }
  if (lane == 0)
    publish(words + tile, 1, total);
  unsigned before = 0, found = 0;
  while (found == 0) {
    uint2 seen = {2, 0};
    if (look >= 0)
      do
        seen = published(words + look);
      while (seen.x == 0);
    found = __ballot_sync(~0u, seen.x == 2);
    int last = found != 0 ? __ffs(found) - 1 : 31;
    before += __reduce_add_sync(~0u, lane <= last ? seen.y : 0);
    look -= 32;
  }
  if (lane == 0)
    publish(words + tile, 2, before + total);
  return before;
}
// One warp per block; the order of blocks is blockIdx.x.
extern "C" __global__ void scan_blocks(unsigned *out, const unsigned *in, uint2 *words) {
  unsigned value = in[blockIdx.x * 32 + threadIdx.x];
  unsigned before = lookBack(words, blockIdx.x, __reduce_add_sync(~0u, value));
  out[blockIdx.x * 32 + threadIdx.x] = before + value;
}
// The order of blocks is the order of their tickets.
extern "C" __global__ void scan_tickets(unsigned *out, const unsigned *in, uint2 *words,
                                        unsigned *counter) {
  __shared__ unsigned ticket;
  if (threadIdx.x == 0)
    ticket = atomicAdd(counter, 1);
  __syncthreads();
  unsigned tile = ticket, value = in[tile * 32 + threadIdx.x];
  unsigned before = lookBack(words, tile, __reduce_add_sync(~0u, value));
  out[tile * 32 + threadIdx.x] = before + value;
}
// One word for each thread and block, as in radix sorts.
extern "C" __global__ void __launch_bounds__(64)
    scan_digits(unsigned *out, const unsigned *in, volatile unsigned *words, unsigned *counter) {
  __shared__ unsigned ticket;
  if (threadIdx.x == 0)
    ticket = atomicAdd(counter, 1);
  __syncthreads();
  unsigned value = in[ticket * 64 + threadIdx.x] & 0xffff, before = 0;
  words[ticket * 64 + threadIdx.x] = value | 0x40000000;
  for (int tile = ticket - 1; tile >= 0; --tile) {
    unsigned seen;
    do
      seen = words[tile * 64 + threadIdx.x];
    while (seen == 0);
    before += seen & 0xffffff;
    if (seen & 0x80000000)
      break;
  }
  words[ticket * 64 + threadIdx.x] = (before + value) | 0x80000000;
  out[ticket * 64 + threadIdx.x] = before + value;
}
// Refused from here on, each for one detail. The block behind.
extern "C" __global__ void scan_ahead(unsigned *out, volatile unsigned *words) {
  words[blockIdx.x] = blockIdx.x + 1;
  unsigned seen = 0;
  if (blockIdx.x + 1 < gridDim.x)
    while ((seen = words[blockIdx.x + 1]) == 0) {
    }
  out[blockIdx.x] = seen;
}
// Looks at the previous block, but each block writes the previous block's word.
extern "C" __global__ void scan_pushed(unsigned *out, volatile unsigned *words) {
  words[blockIdx.x - 1] = blockIdx.x + 1;
  unsigned seen = 0;
  if (blockIdx.x > 0)
    while ((seen = words[blockIdx.x - 1]) == 0) {
    }
  out[blockIdx.x] = seen;
}
// Words that no block here is seen to write.
extern "C" __global__ void scan_elsewhere(unsigned *out, volatile unsigned *words,
                                          volatile unsigned *others) {
  words[blockIdx.x] = blockIdx.x + 1;
  unsigned seen = 0;
  if (blockIdx.x > 0)
    while ((seen = others[blockIdx.x - 1]) == 0) {
    }
  out[blockIdx.x] = seen;
}
// Looks back from a number in memory.
extern "C" __global__ void scan_mapped(unsigned *out, volatile unsigned *words,
                                       const unsigned *map) {
  unsigned tile = map[blockIdx.x], seen = 0;
  words[tile] = tile + 1;
  if (tile > 0)
    while ((seen = words[tile - 1]) == 0) {
    }
  out[tile] = seen;
}
// Tickets from a counter that goes down.
extern "C" __global__ void scan_counting_down(unsigned *out, volatile unsigned *words,
                                              unsigned *counter) {
  unsigned tile = atomicSub(counter, 1), seen = 0;
  words[tile] = tile + 1;
  if (tile > 0)
    while ((seen = words[tile - 1]) == 0) {
    }
  out[tile] = seen;
}
// Tickets from a counter that a block resets.
extern "C" __global__ void scan_counter_reset(unsigned *out, volatile unsigned *words,
                                              unsigned *counter) {
  unsigned tile = atomicAdd(counter, 1), seen = 0;
  words[tile] = tile + 1;
  if (tile > 0)
    while ((seen = words[tile - 1]) == 0) {
    }
  else
    atomicExch(counter, 0);
  out[tile] = seen;
}
