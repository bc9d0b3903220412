// `.pragma "nounroll"` stands before the label of its loop.
extern "C" __global__ void nounroll(unsigned *out, const unsigned *in, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned sum = in[i];
#pragma unroll 1
  for (unsigned j = 0; j < n; ++j)
    sum = sum * 3 + j;
  out[i] = sum;
}
