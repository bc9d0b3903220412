// A barrier whose number and thread count are known at run time only.
extern "C" __global__ void barrier_runtime_id(unsigned *out, const unsigned *in, unsigned group) {
  __shared__ unsigned tile[64];
  unsigned id = threadIdx.x / group, i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = in[i];
  asm volatile("bar.sync %0, %1;" ::"r"(id + 1), "r"(group) : "memory");
  out[i] = tile[id * group + group - 1 - threadIdx.x % group];
}
