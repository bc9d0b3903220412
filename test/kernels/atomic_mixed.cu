// Reductions of several kinds. Where two of them meet on one address their order matters, and
// nothing shows that these do not.
extern "C" __global__ void atomic_mixed(unsigned *extremes, const unsigned *in) {
  unsigned value = in[blockIdx.x * blockDim.x + threadIdx.x];
  atomicMax(&extremes[0], value);
  atomicXor(&extremes[1], value);
  atomicMin(&extremes[2], value);
}
