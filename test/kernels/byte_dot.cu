// Dot products of bytes by dp4a and dp2a, the bytes turned by prmt, against plain sums.
extern "C" __global__ void byte_dot(int *out, const int *a, const int *b, unsigned words) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  int sum = 0, turned = 0, halves = 0, plain = 0, plainTurned = 0, plainHalves = 0;
#pragma unroll 1
  for (unsigned n = 0; n < words; ++n) {
    int x = a[i * words + n], y = b[n];
    int reversed = __byte_perm(x, 0, 0x0123);
    sum = __dp4a(x, y, sum);
    turned = __dp4a(reversed, y, turned);
    halves = __dp2a_lo(x, y, halves);
    halves = __dp2a_hi(y, x, halves);
    for (int j = 0; j < 4; ++j) {
      plain += static_cast<signed char>(x >> (8 * j)) * static_cast<signed char>(y >> (8 * j));
      plainTurned +=
          static_cast<signed char>(x >> (24 - 8 * j)) * static_cast<signed char>(y >> (8 * j));
    }
    for (int j = 0; j < 2; ++j) {
      plainHalves += static_cast<short>(x >> (16 * j)) * static_cast<signed char>(y >> (8 * j));
      plainHalves +=
          static_cast<short>(y >> (16 * j)) * static_cast<signed char>(x >> (16 + 8 * j));
    }
  }
  if (sum != plain || turned != plainTurned || halves != plainHalves)
    __trap();
  out[i] = sum ^ turned ^ halves;
}
