// A barrier object in shared memory; a worker would have to initialise it for each virtual block.
extern "C" __global__ void mbarrier(unsigned *out, const unsigned *in) {
  __shared__ unsigned long long barrier;
  __shared__ unsigned tile[32];
  unsigned address = (unsigned)__cvta_generic_to_shared(&barrier);
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(address) : "memory");
  __syncthreads();
  tile[threadIdx.x] = in[blockIdx.x * 32 + threadIdx.x];
  unsigned long long token;
  asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(token) : "r"(address) : "memory");
  unsigned done = 0;
  while (!done)
    asm volatile("{.reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done)
                 : "r"(address), "l"(token)
                 : "memory");
  out[blockIdx.x * 32 + threadIdx.x] = tile[31 - threadIdx.x];
}
