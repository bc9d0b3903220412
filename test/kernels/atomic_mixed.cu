// Reductions of several kinds. Two kinds on one address depend on their order, and the analysis
// cannot show that these addresses differ.
extern "C" __global__ void atomic_mixed(unsigned *extremes, const unsigned *in) {
  unsigned value = in[blockIdx.x * blockDim.x + threadIdx.x];
  atomicMax(&extremes[0], value);
  atomicXor(&extremes[1], value);
  atomicMin(&extremes[2], value);
}
