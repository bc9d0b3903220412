// `exit` in inline assembly with live code after it.
extern "C" __global__ void exit_mid(unsigned *out, const unsigned *in, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = 1;
  if (in[i] % 3 == 0)
    asm volatile("exit;");
  out[i] = in[i] + n;
}
