// Warps of one block wait for each other, by words in memory and loads of scope .cta.
__device__ unsigned acquired(const unsigned *word) {
  unsigned value;
  asm volatile("ld.acquire.cta.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
// Each warp sets its bit in a word of shared memory and waits for the other warps' bits.
extern "C" __global__ void own_block_shared(unsigned *out, const unsigned *in) {
  __shared__ unsigned arrived, sums[8];
  unsigned warp = threadIdx.x / 32, at = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned all = (1u << blockDim.x / 32) - 1;
  if (threadIdx.x == 0)
    arrived = 0;
  __syncthreads();
  unsigned sum = __reduce_add_sync(~0u, in[at]);
  if (threadIdx.x % 32 == 0) {
    sums[warp] = sum;
    asm volatile("red.or.release.cta.b32 [%0], %1;" : : "l"(&arrived), "r"(1u << warp) : "memory");
    while ((acquired(&arrived) & all) != all) {
    }
    out[blockIdx.x * blockDim.x / 32 + warp] = sums[(warp + 1) % (blockDim.x / 32)];
  }
}
// The same by a word in global memory, one for each block.
extern "C" __global__ void own_block_global(unsigned *out, const unsigned *in, unsigned *arrived) {
  unsigned warp = threadIdx.x / 32, at = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned all = (1u << blockDim.x / 32) - 1;
  unsigned sum = __reduce_add_sync(~0u, in[at]);
  if (threadIdx.x % 32 == 0) {
    out[blockIdx.x * blockDim.x / 32 + warp] = sum;
    asm volatile("red.or.release.cta.b32 [%0], %1;"
                 :
                 : "l"(arrived + blockIdx.x), "r"(1u << warp)
                 : "memory");
    while ((acquired(arrived + blockIdx.x) & all) != all) {
    }
  }
}
