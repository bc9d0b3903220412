// 128-bit a × b + c - d by chains of carries in 32-bit words, against 64-bit arithmetic.
extern "C" __global__ void big_integer(uint4 *out, const uint4 *in) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  uint4 v = in[i], w = in[i ^ 1];
  unsigned r0, r1, r2, r3;
  // (v.y:v.x) × (w.y:w.x), whole.
  asm("{\n\t"
      "mul.lo.u32 %0, %4, %6;\n\t"
      "mul.hi.u32 %1, %4, %6;\n\t"
      "mad.lo.cc.u32 %1, %4, %7, %1;\n\t"
      "madc.hi.u32 %2, %4, %7, 0;\n\t"
      "mad.lo.cc.u32 %1, %5, %6, %1;\n\t"
      "madc.hi.cc.u32 %2, %5, %6, %2;\n\t"
      "addc.u32 %3, 0, 0;\n\t"
      "mad.lo.cc.u32 %2, %5, %7, %2;\n\t"
      "madc.hi.u32 %3, %5, %7, %3;\n\t"
      "}"
      : "=&r"(r0), "=&r"(r1), "=&r"(r2), "=&r"(r3)
      : "r"(v.x), "r"(v.y), "r"(w.x), "r"(w.y));
  unsigned long long x = static_cast<unsigned long long>(v.y) << 32 | v.x;
  unsigned long long y = static_cast<unsigned long long>(w.y) << 32 | w.x;
  unsigned long long low = x * y, high = __umul64hi(x, y);
  // + w, - v
  asm("{\n\t"
      "add.cc.u32 %0, %0, %4;\n\taddc.cc.u32 %1, %1, %5;\n\t"
      "addc.cc.u32 %2, %2, %6;\n\taddc.u32 %3, %3, %7;\n\t"
      "sub.cc.u32 %0, %0, %8;\n\tsubc.cc.u32 %1, %1, %9;\n\t"
      "subc.cc.u32 %2, %2, %10;\n\tsubc.u32 %3, %3, %11;\n\t"
      "}"
      : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3)
      : "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w));
  unsigned long long wHigh = static_cast<unsigned long long>(w.w) << 32 | w.z;
  unsigned long long vHigh = static_cast<unsigned long long>(v.w) << 32 | v.z;
  unsigned long long sum = low + y;
  high += wHigh + (sum < y);
  unsigned long long difference = sum - x;
  high -= vHigh + (sum < x);
  if (r0 != static_cast<unsigned>(difference) || r1 != difference >> 32 ||
      r2 != static_cast<unsigned>(high) || r3 != high >> 32)
    __trap();
  out[i] = make_uint4(r0, r1, r2, r3);
}
