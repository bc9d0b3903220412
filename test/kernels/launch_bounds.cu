// Launch bounds: .maxntid and .minnctapersm.
extern "C" __global__ void __launch_bounds__(64, 8)
    launch_bounds(unsigned *out, const unsigned *in) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i] + blockIdx.x * 7;
}
