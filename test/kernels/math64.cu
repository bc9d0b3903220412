// 64-bit integers and doubles.
extern "C" __global__ void math64(double *out, const double *in, unsigned long long *words,
                                  double scale, long long bias) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  double x = in[i];
  out[i] = sqrt(fabs(x)) / (1.0 + x * x) + fma(x, scale, (double)bias);
  unsigned long long w = words[i];
  words[i] = __umul64hi(w, w | 1) + (w % (i + 3)) +
             (unsigned long long)((long long)w / (bias + 2)) + (w << (i % 64));
}
