// An array in local memory, indexed at run time, which may hold values of the previous block.
extern "C" __global__ void local_array(unsigned *out, const unsigned *in, unsigned count) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned stack[24];
  for (unsigned j = 0; j < 24; ++j)
    stack[j] = j * blockIdx.x;
  for (unsigned j = 0; j < count; ++j)
    stack[in[(i + j) % 64] % 24] += j;
  unsigned sum = 0;
  for (unsigned j = 0; j < 24; ++j)
    sum = sum * 5 + stack[j];
  out[i] = sum;
}
