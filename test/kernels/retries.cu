// Retry loops around a compare-and-swap, in the forms that programs use: none waits for another
// block. Each turn reads the word anew.
extern "C" __global__ void retry_reload(float *sum, const float *in) {
  unsigned *word = (unsigned *)sum, seen, result;
  float value = in[blockIdx.x * blockDim.x + threadIdx.x];
  do {
    seen = *(volatile unsigned *)word;
    result = atomicCAS(word, seen, __float_as_uint(__uint_as_float(seen) + value));
  } while (result != seen);
}
// Sixteen of the word's bits.
extern "C" __global__ void retry_half_word(unsigned short *most, const unsigned *in) {
  unsigned at = blockIdx.x & 1, value = in[blockIdx.x * blockDim.x + threadIdx.x] & 0xffff;
  unsigned *word = (unsigned *)most, shift = 16 * at, seen = *word, assumed;
  do {
    assumed = seen;
    unsigned old = (assumed >> shift) & 0xffff;
    unsigned next = (assumed & ~(0xffffu << shift)) | ((value > old ? value : old) << shift);
    seen = atomicCAS(word, assumed, next);
  } while (seen != assumed);
}
// A whole 64-bit word, with the test negated.
extern "C" __global__ void retry_wide(unsigned long long *word, const unsigned *in) {
  unsigned long long value = in[blockIdx.x * blockDim.x + threadIdx.x], seen = *word;
  for (;;) {
    unsigned long long next = seen * 2654435761u ^ seen, before = seen;
    next = before + value;
    seen = atomicCAS(word, before, next);
    if (!(seen != before))
      return;
  }
}
// A similar loop: the exchange may succeed, and the loop goes on until the word is even.
extern "C" __global__ void retry_until_even(unsigned *word, unsigned *out) {
  unsigned seen, result;
  do {
    seen = *(volatile unsigned *)word;
    result = atomicCAS(word, seen, seen + 2);
  } while (result != seen || (seen & 1));
  out[blockIdx.x] = seen;
}
