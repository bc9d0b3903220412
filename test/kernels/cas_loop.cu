// A compare-and-swap retry loop: it repeats only when another thread's exchange succeeded.
extern "C" __global__ void cas_loop(unsigned *best, const unsigned *in) {
  unsigned value = in[blockIdx.x * blockDim.x + threadIdx.x] % 1000;
  unsigned *slot = &best[threadIdx.x % 4];
  unsigned seen = *slot, assumed;
  do {
    assumed = seen;
    seen = atomicCAS(slot, assumed, assumed + value * (value + 1));
  } while (seen != assumed);
}
