// Pairs of halves, 8-bit floats, tf32 and the packed integer instructions.
#include "evaluate.h"

#include <cmath>

using namespace tally;
using namespace tally::emulator;
using U16 = std::uint16_t;
using U32 = std::uint32_t;

namespace {

/// Returns the value of an 8-bit float by the OCP's tables; NaN and infinity are double's.
double byteValue(U32 bits, bool isE4m3) {
  U32 fractionBits = isE4m3 ? 3 : 2, bias = isE4m3 ? 7 : 15;
  U32 exponent = (bits & 0x7f) >> fractionBits, fraction = bits & ((1u << fractionBits) - 1);
  double sign = bits & 0x80 ? -1 : 1, step = std::ldexp(1.0, -static_cast<int>(fractionBits));
  if (isE4m3 ? (bits & 0x7f) == 0x7f : exponent == 31 && fraction)
    return NAN;
  if (!isE4m3 && exponent == 31)
    return sign * HUGE_VAL;
  double significand = fraction * step + (exponent ? 1 : 0);
  return sign * significand *
         std::ldexp(1.0, static_cast<int>(exponent ? exponent : 1) - static_cast<int>(bias));
}

/// Searches all codes for the nearest one; ties go to the even code, and values beyond the largest
/// one go to the largest one.
U32 nearestByte(double value, bool isE4m3) {
  U32 best = 0;
  for (U32 code = 0; code < 0x7f; ++code) {
    double each = byteValue(code, isE4m3), here = byteValue(best, isE4m3);
    if (!std::isfinite(each))
      continue;
    double mine = std::fabs(each - std::fabs(value)), kept = std::fabs(here - std::fabs(value));
    if (mine < kept || (mine == kept && code % 2 == 0))
      best = code;
  }
  return best | (std::signbit(value) ? 0x80 : 0);
}

} // namespace

TEST_CASE("8-bit floats: every value to f16, and f32 to the nearest") {
  for (bool isE4m3 : {true, false}) {
    std::string name = isE4m3 ? "e4m3x2" : "e5m2x2";
    for (U32 first = 0; first < 256; first += 32) {
      std::vector<U16> codes;
      for (U32 i = 0; i < 32; ++i)
        codes.push_back(static_cast<U16>((first + i) << 8 | (255 - first - i)));
      auto halves = evaluate<U32, U16>("cvt.rn.f16x2." + name + " %d, %a;", codes);
      for (U32 i = 0; i < 32; ++i) {
        auto check = [&](U32 half, U32 code) {
          double expected = byteValue(code, isE4m3);
          U32 wide = (half & 0x7c00) == 0x7c00 ? 0 : (half >> 10 & 31);
          double value = half == 0x7fff              ? NAN
                         : (half & 0x7fff) == 0x7c00 ? HUGE_VAL
                         : wide ? std::ldexp(1024 + (half & 1023), static_cast<int>(wide) - 25)
                                : std::ldexp(half & 1023, -24);
          if (half & 0x8000)
            value = -value;
          CAPTURE(code);
          CHECK((std::isnan(expected) ? std::isnan(value) : value == expected));
        };
        check(halves[i] >> 16, codes[i] >> 8);
        check(halves[i] & 0xffff, codes[i] & 0xff);
      }
    }
    std::vector<float> values, others;
    for (int i = 0; i < 32; ++i) {
      values.push_back(std::ldexp(1.0f + static_cast<float>(i) / 32, i - 14) * (i % 2 ? -1 : 1));
      others.push_back(static_cast<float>(i) * 15.75f);
    }
    auto pairs =
        evaluate<U16, float>("cvt.rn.satfinite." + name + ".f32 %d, %a, %b;", values, others);
    for (std::size_t i = 0; i < 32; ++i) {
      CAPTURE(values[i]);
      CHECK((pairs[i] >> 8) == static_cast<int>(nearestByte(double{values[i]}, isE4m3)));
      CAPTURE(others[i]);
      CHECK((pairs[i] & 0xff) == static_cast<int>(nearestByte(double{others[i]}, isE4m3)));
    }
    std::string code = "cvt.rn.satfinite." + name + ".f32 %d, %a, %b;";
    CHECK(one<U16, float>(code, NAN, HUGE_VALF) == (isE4m3 ? 0x7f7e : 0x7f7b));
    CHECK(one<U16, float>("cvt.rn.satfinite.relu." + name + ".f32 %d, %a, %b;", -2.0f, -0.0f) == 0);
    // The pair of halves: 1.5 in the upper half, -0.25 in the lower half.
    CHECK(one<U16, U32>("cvt.rn.satfinite." + name + ".f16x2 %d, %a;", 0x3e00b400u) ==
          (isE4m3 ? 0x3ca8 : 0x3eb4));
  }
}

TEST_CASE("tf32 keeps ten bits of fraction: nearest, ties away, or to even") {
  CHECK(one<U32, U32>("cvt.rna.tf32.f32 %d, %a;", 0x3f801000u) == 0x3f802000u);
  CHECK(one<U32, U32>("cvt.rna.tf32.f32 %d, %a;", 0x3f800fffu) == 0x3f800000u);
  CHECK(one<U32, U32>("cvt.rn.tf32.f32 %d, %a;", 0x3f801000u) == 0x3f800000u);
  CHECK(one<U32, U32>("cvt.rn.tf32.f32 %d, %a;", 0xbf803000u) == 0xbf804000u);
  CHECK(one<U32, U32>("cvt.rz.tf32.f32 %d, %a;", 0x3f801fffu) == 0x3f800000u);
  CHECK(one<U32, U32>("cvt.rn.relu.tf32.f32 %d, %a;", 0xbf803000u) == 0);
  CHECK(one<U32, U32>("cvt.rna.tf32.f32 %d, %a;", 0x7f7fffffu) == 0x7f800000u);
  CHECK(one<U32, U32>("cvt.rna.satfinite.tf32.f32 %d, %a;", 0xff7fffffu) == 0xff7fe000u);
  CHECK(one<U32, U32>("cvt.rna.tf32.f32 %d, %a;", 0x7fc00001u) == 0x7fffffffu);
  CHECK(one<U32, U32>("cvt.rna.tf32.f32 %d, %a;", 0xff800000u) == 0xff800000u);
}

TEST_CASE("bf16's fused product and sum round once, whatever lies far below") {
  // 1.0078125 * 1.0 + 2^-60 is just above 1 + 2^-7; 1 × (1 + 2^-7) … a tie plus a little goes up.
  // 1.0625 × 1.0625 is 1.12890625, the tie between 1.125 and 1.1328125.
  const U16 factor = 0x3f88, tiny = 0x2180, minusTiny = 0xa180; // ± 2^-60
  CHECK(one<U16, U16>("fma.rn.bf16 %d, %a, %b, %c;", factor, factor, 0) == 0x3f90);
  CHECK(one<U16, U16>("fma.rn.bf16 %d, %a, %b, %c;", factor, factor, tiny) == 0x3f91);
  CHECK(one<U16, U16>("fma.rn.bf16 %d, %a, %b, %c;", factor, factor, minusTiny) == 0x3f90);
  CHECK(one<U16, U16>("fma.rn.bf16 %d, %a, %b, %c;", static_cast<U16>(factor | 0x8000), factor,
                      minusTiny) == 0xbf91);
}

TEST_CASE("halves round to nearest even from every neighbourhood") {
  // The double between two neighbours, and the doubles beside it.
  for (U32 code : {0x0000u, 0x0001u, 0x03ffu, 0x0400u, 0x3c00u, 0x3c01u, 0x5bffu, 0x7bfeu}) {
    auto valueOf = [](U32 half) {
      return half >> 10 ? std::ldexp(1024 + (half & 1023), static_cast<int>(half >> 10) - 25)
                        : std::ldexp(half & 1023, -24);
    };
    double middle = (valueOf(code) + valueOf(code + 1)) / 2;
    U32 even = code % 2 ? code + 1 : code;
    for (double sign : {1.0, -1.0}) {
      U32 signBit = sign < 0 ? 0x8000 : 0;
      CAPTURE(code);
      CHECK(one<U16, double>("cvt.rn.f16.f64 %d, %a;", sign * middle) == (even | signBit));
      CHECK(one<U16, double>("cvt.rn.f16.f64 %d, %a;", sign * std::nextafter(middle, 1e9)) ==
            ((code + 1) | signBit));
      CHECK(one<U16, double>("cvt.rn.f16.f64 %d, %a;", sign * std::nextafter(middle, 0)) ==
            (code | signBit));
      CHECK(one<U16, double>("cvt.rz.f16.f64 %d, %a;", sign * middle) == (code | signBit));
      CHECK(one<U16, double>("cvt.rp.f16.f64 %d, %a;", sign * middle) ==
            ((sign > 0 ? code + 1 : code) | signBit));
    }
  }
  CHECK(one<U16, double>("cvt.rn.f16.f64 %d, %a;", 65519.99) == 0x7bff);
  CHECK(one<U16, double>("cvt.rn.f16.f64 %d, %a;", 65520.0) == 0x7c00);
  CHECK(one<U16, double>("cvt.rz.f16.f64 %d, %a;", 1e300) == 0x7bff);
  CHECK(one<U16, double>("cvt.rn.f16.f64 %d, %a;", 1e-300) == 0);
  CHECK(one<U16, double>("cvt.rp.f16.f64 %d, %a;", 1e-300) == 1);
}

TEST_CASE("comparisons of pairs go half by half") {
  const U32 a = 0x3c004000, b = 0x40003c00; // (1, 2) and (2, 1), the low half last
  CHECK(one<U32, U32>("set.lt.f16x2.f16x2 %d, %a, %b;", a, b) == 0x3c000000u);
  CHECK(one<U32, U32>("set.gt.u32.f16x2 %d, %a, %b;", a, b) == 0x0000ffffu);
  CHECK(one<U32, U32>("set.neu.bf16x2.bf16x2 %d, %a, %b;", 0x7fff3f80u, 0x7fff3f80u) ==
        0x3f800000u);
  CHECK(one<U16, U16>("set.eq.f16.f16 %d, %a, %b;", 0x8000, 0) == 0x3c00);
  CHECK(one<U16, U16>("set.eq.u16.f16 %d, %a, %b;", 0x3c00, 0x3c00) == 0xffff);
  CHECK(one<U32, U32>("setp.lt.f16x2 %p|%q, %a, %b; selp.u32 %d, 1, 0, %p; @%q add.u32 %d, %d, 2;",
                      a, b) == 2);
  CHECK(one<U32, U32>("setp.gt.f16x2 %p|%q, %a, %b; selp.u32 %d, 1, 0, %p; @%q add.u32 %d, %d, 2;",
                      a, b) == 1);
}

TEST_CASE("min and max with xorsign take the larger or smaller magnitude and the product's sign") {
  CHECK(one<float, float>("min.xorsign.abs.f32 %d, %a, %b;", -3.0f, 2.0f) == -2.0f);
  CHECK(one<float, float>("max.xorsign.abs.f32 %d, %a, %b;", -3.0f, -2.0f) == 3.0f);
  CHECK(one<U16, U16>("max.xorsign.abs.f16 %d, %a, %b;", 0xc000, 0x3c00) == 0xc000);
  CHECK(one<U32, U32>("min.xorsign.abs.bf16x2 %d, %a, %b;", 0xbf804000u, 0x40003f80u) ==
        0xbf803f80u);
}

TEST_CASE("cvt.pack saturates and shifts what is there up") {
  CHECK(one<U32, U32>("cvt.pack.sat.s8.s32.b32 %d, %a, %b, %c;", 300, static_cast<U32>(-300),
                      0x1234u) == 0x12347f80u);
  CHECK(one<U32, U32>("cvt.pack.sat.u8.s32.b32 %d, %a, %b, 0;", 300, static_cast<U32>(-300)) ==
        0xff00u);
  CHECK(one<U32, U32>("cvt.pack.sat.u4.s32.b32 %d, %a, %b, %c;", 20, 3, 0xabcdefu) == 0xabcdeff3u);
  CHECK(one<U32, U32>("cvt.pack.sat.s16.s32 %d, %a, %b;", 70000, static_cast<U32>(-2)) ==
        0x7ffffffeu);
}

TEST_CASE("video instructions work on bytes and halves") {
  CHECK(one<U32, U32>("vabsdiff4.u32.u32.u32.add %d, %a, %b, %c;", 0x01ff1005u, 0x02011004u, 100) ==
        100 + 1 + 254 + 0 + 1);
  CHECK(one<U32, U32>("vadd4.u32.u32.u32.sat %d, %a, %b, %c;", 0xf0010203u, 0x20010101u, 0) ==
        0xff020304u);
  CHECK(one<U32, U32>("vadd4.u32.u32.u32 %d, %a, %b, %c;", 0xf0010203u, 0x20010101u, 0) ==
        0x10020304u);
  CHECK(one<U32, U32>("vsub2.s32.s32.s32.sat %d, %a, %b, %c;", 0x80000005u, 0x00010007u, 0) ==
        0x8000fffeu);
  CHECK(one<U32, U32>("vmax4.s32.s32.s32 %d, %a, %b, %c;", 0x807f01ffu, 0x00000000u, 0) ==
        0x007f0100u);
  CHECK(one<U32, U32>("vavrg2.u32.u32.u32 %d, %a, %b, %c;", 0x00030004u, 0x00040004u, 0) ==
        0x00040004u);
}

TEST_CASE("lop3 joins its result with a predicate") {
  std::string tail = "; selp.u32 %t, 1, 0, %q; shl.b32 %d, %d, 4; or.b32 %d, %d, %t;";
  std::string lop = "setp.eq.u32 %p, %c, 1; lop3.";
  CHECK(one<U32, U32>(lop + "or.b32 %d|%q, %a, %b, 0, 0xc0, %p" + tail, 6, 1, 1) == 1);
  CHECK(one<U32, U32>(lop + "and.b32 %d|%q, %a, %b, 0, 0xc0, %p" + tail, 6, 2, 1) == 0x21);
  CHECK(one<U32, U32>(lop + "and.b32 %d|%q, %a, %b, 0, 0xc0, !%p" + tail, 6, 2, 1) == 0x20);
}

TEST_CASE("redux on floats: numbers before NaNs unless asked, zeros in order, magnitudes") {
  std::vector<float> values(32, 2.0f);
  values[3] = -5.0f, values[9] = NAN, values[20] = 4.0f;
  auto reduced = [&](const std::string &how) {
    auto all = evaluate<float, float>("redux.sync." + how + ".f32 %d, %a, 0xffffffff;", values);
    for (float each : all)
      CHECK(bitsOf(each) == bitsOf(all[0]));
    return all[0];
  };
  CHECK(reduced("min") == -5.0f);
  CHECK(reduced("max") == 4.0f);
  CHECK(reduced("max.abs") == 5.0f);
  CHECK(reduced("min.abs") == 2.0f);
  CHECK(bitsOf(reduced("min.NaN")) == 0x7fffffffu);
  values.assign(32, 0.0f);
  values[7] = -0.0f;
  CHECK(bitsOf(reduced("min")) == 0x80000000u);
  CHECK(bitsOf(reduced("max")) == 0);
}

TEST_CASE("vectors of atomics and of eight words; reserved shared memory") {
  Harness h(header + R"(.visible .entry k(.param .u64 out) {
    .reg .b64 %p, %q; .reg .f32 %f<4>; .reg .b32 %r<10>;
    ld.param.u64 %p, [out]; mov.f32 %f0, 0f3F800000; mov.f32 %f1, 0f40000000;
    red.global.add.v2.f32 [%p], {%f0, %f1};
    atom.global.v2.f32.add {%f2, _}, [%p], {%f1, %f1};
    st.global.f32 [%p+8], %f2;
    mov.b64 %q, %p; ld.global.v8.b32 {%r0, %r1, %r2, _, %r4, %r5, %r6, %r7}, [%q];
    add.u32 %r4, %r4, 1; st.global.v8.b32 [%p+32], {%r7, %r6, %r5, %r4, %r2, %r2, %r1, %r0};
    mov.u32 %r8, %reserved_smem_offset_1; mov.u32 %r9, 77; st.shared.u32 [%r8+1020], %r9;
    ld.shared.u32 %r7, [%r8+1020]; st.global.u32 [%p+64], %r7; ret; })");
  std::vector<U32> start(24);
  for (U32 i = 4; i < 8; ++i)
    start[i] = i * 11;
  DevicePtr out = h.upload(start);
  h.ok("k", shapeOf(1, 1), out);
  auto result = h.download<U32>(out, 17);
  CHECK(asFloat(result[0]) == 3.0f);
  CHECK(asFloat(result[1]) == 4.0f);
  CHECK(asFloat(result[2]) == 1.0f);
  CHECK(std::vector<U32>(result.begin() + 8, result.begin() + 16) ==
        std::vector<U32>{77, 66, 55, 45, result[2], result[2], result[1], result[0]});
  CHECK(result[16] == 77);
}

TEST_CASE("pairs of 16-bit integers: neither half reaches into the other") {
  CHECK(one<U32>("add.u16x2 %d, %a, %b;", 0x0001ffffu, 0x7fff0001u) == 0x80000000u);
  CHECK(one<U32>("add.s16x2 %d, %a, %b;", 0xffff8000u, 0x00010001u) == 0x00008001u);
  CHECK(one<U32>("min.u16x2 %d, %a, %b;", 0xffff0005u, 0x00010004u) == 0x00010004u);
  CHECK(one<U32>("min.s16x2 %d, %a, %b;", 0xffff0005u, 0x0001fffcu) == 0xfffffffcu);
  CHECK(one<U32>("max.s16x2 %d, %a, %b;", 0xffff0005u, 0x0001fffcu) == 0x00010005u);
  CHECK(one<U32>("max.relu.s16x2 %d, %a, %b;", 0xffff8000u, 0xfffe0003u) == 0x00000003u);
  CHECK(one<U32>("min.relu.s16x2 %d, %a, %b;", 0xffff0007u, 0x00050003u) == 0x00000003u);
}

TEST_CASE("pairs of floats: each half as the instruction on one, rounded and flushed alike") {
  using U64 = std::uint64_t;
  // The last bits show the rounding, subnormals show the flushing, and every NaN becomes the
  // canonical one.
  const std::vector<U32> values = {0x3f800001, 0x33800000, 0xbf7fffff, 0x00000007,
                                   0x80000001, 0x7f7fffff, 0x7f800000, 0xff800000,
                                   0x7fc12345, 0x00800000, 0x80000000, 0x3eaaaaab};
  std::vector<U32> a, b, c;
  for (U32 i = 0; i != 32; ++i) {
    auto at = [&](U32 n) { return values[n % values.size()]; };
    a.push_back(at(i));
    b.push_back(at(i * 5 + 3));
    c.push_back(at(i * 7 + 1));
  }
  auto pair = [](const std::vector<U32> &each) {
    std::vector<U64> pairs; // the high half is another lane's value
    for (std::size_t i = 0; i != each.size(); ++i)
      pairs.push_back(U64{each[(i + 1) % each.size()]} << 32 | each[i]);
    return pairs;
  };
  for (const char *operation : {"add", "sub", "mul", "fma"})
    for (const char *how : {".rn", ".rz", ".rm", ".rp", ".rn.ftz", ".rz.ftz", ".rp.ftz"}) {
      bool isFused = operation[0] == 'f';
      std::string name = std::string(operation) + how + ".f32";
      std::string operands = isFused ? " %d, %a, %b, %c;" : " %d, %a, %b;";
      auto single = evaluate<U32, U32>(name + operands, a, b, c);
      auto both = evaluate<U64, U64>(name + "x2" + operands, pair(a), pair(b), pair(c));
      CHECK(both == pair(single));
    }
  CHECK(one<U64, U64>("add.f32x2 %d, %a, %b;", 0x3f80000040000000, 0x40000000c0000000) ==
        0x4040000000000000);
  CHECK(one<U64, U64>("fma.rn.f32x2 %a, %a, %b, %c; mov.b64 %d, %a;", 0x3f80000040000000,
                      0x4000000040400000, 0x3f8000003f800000) == 0x4040000040e00000);
}
