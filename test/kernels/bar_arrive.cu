// A producer warp arrives at a barrier at which only the consumer waits.
extern "C" __global__ void bar_arrive(unsigned *out, const unsigned *in) {
  __shared__ unsigned tile[32];
  unsigned lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    tile[lane] = in[blockIdx.x * 32 + lane];
    asm volatile("bar.arrive 3, 64;" ::: "memory");
  } else {
    asm volatile("bar.sync 3, 64;" ::: "memory");
    out[blockIdx.x * 32 + lane] = tile[31 - lane];
  }
}
