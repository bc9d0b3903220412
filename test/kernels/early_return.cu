// Several early returns, none before a barrier.
extern "C" __global__ void early_return(int *out, const int *in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  int value = in[i];
  if (value < 0) {
    out[i] = -1;
    return;
  }
#pragma unroll 1
  for (int step = 0; step < n % 40; ++step) {
    if (value % 7 == 3) {
      out[i] = step;
      return;
    }
    value = value / 2 + step;
  }
  out[i] = value;
}
