// Parameters of odd sizes and alignments; tally's own start at the next multiple of 8.
struct Triple {
  unsigned char bytes[3];
};
struct Padded {
  double value;
  char tail;
};
extern "C" __global__ void param_odd(unsigned char a, unsigned *out, Triple triple, short b,
                                     Padded padded, unsigned char last) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = a + triple.bytes[0] * 3 + triple.bytes[1] * 5 + triple.bytes[2] * 7 + b * 11 +
           (unsigned)padded.value * 13 + padded.tail * 17 + last * 19 + i;
}
