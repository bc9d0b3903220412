// mma on bf16, tf32, f64, bytes and nibbles, each compared with plain sums over the fragments'
// elements, which shuffles gather. Inputs are any bits, masked to small integers.
__device__ int element(unsigned word, int i, int bits) {
  return static_cast<int>(word << (32 - bits * (i + 1))) >> (32 - bits);
}
__device__ unsigned asBfloat(int value) { return __float_as_uint(static_cast<float>(value)) >> 16; }

/// Row `row` of A and column `column` of B, with `per` elements a register: the sum over k.
template <int RegistersA, int RegistersB>
__device__ int plainSum(const unsigned (&a)[RegistersA], const unsigned (&b)[RegistersB], int row,
                        int column, int bits) {
  int per = 32 / bits, sum = 0;
  constexpr int down = RegistersA / RegistersB;
  for (int part = 0; part < RegistersB; ++part)
#pragma unroll 1
    for (int lane = 0; lane < 4; ++lane) {
      // All lanes take part in each shuffle; the row decides which register of A is needed.
      unsigned upper = __shfl_sync(~0u, a[part * down], row % 8 * 4 + lane);
      unsigned lower = __shfl_sync(~0u, a[part * down + down - 1], row % 8 * 4 + lane);
      unsigned left = row < 8 ? upper : lower;
      unsigned right = __shfl_sync(~0u, b[part], column * 4 + lane);
#pragma unroll 1
      for (int i = 0; i < per; ++i)
        sum += element(left, i, bits) * element(right, i, bits);
    }
  return sum;
}
__device__ void require(bool holds) {
  if (!holds)
    __trap();
}

extern "C" __global__ void mma_forms(int *out, const unsigned *in) {
  int lane = threadIdx.x, row = lane / 4, column = lane % 4 * 2;
  const unsigned *from = in + blockIdx.x * 192 + lane;
  unsigned a[4], b[2];
  for (int i = 0; i < 4; ++i)
    a[i] = from[i * 32];
  for (int i = 0; i < 2; ++i)
    b[i] = from[128 + i * 32];
  int plain[4], total = 0;

  int byBytes[4] = {1, 2, 3, 4};
  for (int i = 0; i < 4; ++i)
    plain[i] = plainSum(a, b, row + i / 2 * 8, column + i % 2, 8) + i + 1;
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(byBytes[0]), "+r"(byBytes[1]), "+r"(byBytes[2]), "+r"(byBytes[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  for (int i = 0; i < 4; ++i) {
    require(byBytes[i] == plain[i]);
    total += byBytes[i];
  }

  int byNibbles[4] = {};
  for (int i = 0; i < 4; ++i)
    plain[i] = plainSum(a, b, row + i / 2 * 8, column + i % 2, 4);
  asm("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(byNibbles[0]), "+r"(byNibbles[1]), "+r"(byNibbles[2]), "+r"(byNibbles[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  for (int i = 0; i < 4; ++i)
    require(byNibbles[i] == plain[i]);

  // bf16 of the signed nibbles 0 and 4 of each register, beside their integers in 16 bits.
  unsigned wide[4], pairs[4], wideB[2], pairsB[2];
  for (int i = 0; i < 4; ++i) {
    int low = element(a[i], 0, 4), high = element(a[i], 4, 4);
    wide[i] = (high & 0xffff) << 16 | (low & 0xffff);
    pairs[i] = asBfloat(high) << 16 | asBfloat(low);
  }
  for (int i = 0; i < 2; ++i) {
    int low = element(b[i], 0, 4), high = element(b[i], 4, 4);
    wideB[i] = (high & 0xffff) << 16 | (low & 0xffff);
    pairsB[i] = asBfloat(high) << 16 | asBfloat(low);
  }
  float sums[4] = {};
  for (int i = 0; i < 4; ++i)
    plain[i] = plainSum(wide, wideB, row + i / 2 * 8, column + i % 2, 16);
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3]), "r"(pairsB[0]), "r"(pairsB[1]));
  for (int i = 0; i < 4; ++i)
    require(sums[i] == static_cast<float>(plain[i]));

  // tf32 of bytes.
  unsigned integers[4], floats[4], integersB[2], floatsB[2];
  for (int i = 0; i < 4; ++i) {
    integers[i] = element(a[i], 1, 8);
    asm("cvt.rna.tf32.f32 %0, %1;"
        : "=r"(floats[i])
        : "f"(static_cast<float>(element(a[i], 1, 8))));
  }
  for (int i = 0; i < 2; ++i) {
    integersB[i] = element(b[i], 1, 8);
    asm("cvt.rna.tf32.f32 %0, %1;"
        : "=r"(floatsB[i])
        : "f"(static_cast<float>(element(b[i], 1, 8))));
  }
  for (int i = 0; i < 4; ++i) {
    plain[i] = plainSum(integers, integersB, row + i / 2 * 8, column + i % 2, 32);
    sums[i] = 0;
  }
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(floats[0]), "r"(floats[1]), "r"(floats[2]), "r"(floats[3]), "r"(floatsB[0]),
        "r"(floatsB[1]));
  for (int i = 0; i < 4; ++i)
    require(sums[i] == static_cast<float>(plain[i]));

  // f64 of the same values, on the upper eight rows and the first four of k.
  unsigned one[1] = {integers[0]}, oneB[1] = {integersB[0]};
  double wideSums[2] = {};
  for (int i = 0; i < 2; ++i)
    plain[i] = plainSum(one, oneB, row, column + i, 32);
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+d"(wideSums[0]), "+d"(wideSums[1])
      : "d"(static_cast<double>(element(a[0], 1, 8))),
        "d"(static_cast<double>(element(b[0], 1, 8))));
  for (int i = 0; i < 2; ++i)
    require(wideSums[i] == static_cast<double>(plain[i]));

  out[blockIdx.x * 32 + lane] = total;
}
