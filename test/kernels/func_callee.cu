// A device function that is not inlined, without grid registers or barriers.
__device__ __noinline__ unsigned mix(unsigned a, unsigned b, unsigned long long *sum) {
  *sum += a ^ b;
  for (unsigned j = 0; j < b % 5; ++j)
    a = a * 1664525 + 1013904223;
  return a;
}
extern "C" __global__ void func_callee(unsigned *out, const unsigned *in) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned long long sum = 0;
  unsigned first = mix(in[i], threadIdx.x, &sum);
  out[i] = first + mix(first, blockIdx.x, &sum) + (unsigned)sum;
}
