// Kernels whose results depend on the order in which they run.

__device__ unsigned table[64];

/// Computes `rounds` steps of a sequence for each element.
extern "C" __global__ void mix(unsigned *data, unsigned count, unsigned seed, unsigned rounds) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  unsigned value = data[i];
  for (unsigned round = 0; round < rounds; ++round)
    value = value * 1664525u + seed + i;
  data[i] = value;
}

extern "C" __global__ void combine(unsigned *to, const unsigned *from, unsigned count) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    to[i] = to[i] * 31u + from[i];
}

extern "C" __global__ void addTable(unsigned *to, unsigned count) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    to[i] += table[i % 64];
}
