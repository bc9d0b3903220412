// A parameter indexed at run time: the kernel takes its address in the parameter space.
struct Table {
  unsigned values[12];
  unsigned count;
};
extern "C" __global__ void param_address(unsigned *out, const __grid_constant__ Table table,
                                         unsigned stride) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = table.values[(i * stride) % table.count] + blockIdx.x;
}
