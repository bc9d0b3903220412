// Programmatic dependent launch: without the launch attribute both instructions do nothing.
extern "C" __global__ void griddepcontrol(unsigned *out, const unsigned *in) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i] + blockIdx.x;
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
