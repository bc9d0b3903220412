// Blocks of one thread.
extern "C" __global__ void one_thread(unsigned *out, unsigned *runs) {
  unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
  runs[block] += 1;
  out[block] = block * block;
}
