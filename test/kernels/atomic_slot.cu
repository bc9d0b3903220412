// Compaction: slots are handed out by an atomic, so the order of the output is that of the blocks.
extern "C" __global__ void atomic_slot(unsigned *out, unsigned *used, const unsigned *in) {
  unsigned value = in[blockIdx.x * blockDim.x + threadIdx.x];
  if (value & 1)
    out[atomicAdd(used, 1)] = value;
}
