// Floating-point instructions: rounding, subnormals, NaNs and the errors of approximations.
#include "evaluate.h"

#include <cmath>
#include <limits>

using namespace tally::emulator;
using U16 = std::uint16_t;
using U32 = std::uint32_t;

namespace {

const float infinity = std::numeric_limits<float>::infinity();
const float smallest = asFloat(1), tiny = asFloat(0x00400000u);
constexpr U32 nanBits = 0x7fffffffu;

U32 bits(const std::string &code, float a, float b = 0, float c = 0) {
  return bitsOf(one<float, float>(code, a, b, c));
}

} // namespace

TEST_CASE("f32 sums, products and fused ones round to nearest even, once") {
  CHECK(one<float, float>("add.f32 %d, %a, %b;", 1.0f, 0x1p-24f) == 1.0f);
  CHECK(one<float, float>("add.rn.f32 %d, %a, %b;", 1.0f, 0x1.8p-24f) == 1.0f + 0x1p-23f);
  CHECK(one<float, float>("sub.f32 %d, %a, %b;", 1.0f, 3.0f) == -2.0f);
  CHECK(one<float, float>("mul.f32 %d, %a, %b;", 3.0f, 0.5f) == 1.5f);
  float e = 0x1p-12f;
  // (1+e)^2 - (1+2e) is e^2 when fused, 0 when the product is rounded first.
  CHECK(one<float, float>("fma.rn.f32 %d, %a, %b, %c;", 1 + e, 1 + e, -(1 + 2 * e)) == e * e);
  CHECK(one<float, float>("mul.rn.f32 %d, %a, %b; add.rn.f32 %d, %d, %c;", 1 + e, 1 + e,
                          -(1 + 2 * e)) == 0.0f);
  CHECK(one<double, double>("fma.rn.f64 %d, %a, %b, %c;", 1 + 0x1p-30, 1 + 0x1p-30,
                            -(1 + 0x1p-29)) == 0x1p-60);
}

TEST_CASE("directed rounding brackets the exact value") {
  struct Case {
    std::string operation;
    double exact;
    float a, b, c;
  };
  const Case cases[] = {{"add", 1.0 + 0x1p-30, 1.0f, 0x1p-30f, 0},
                        {"sub", -1.0 - 0x1p-30, -1.0f, 0x1p-30f, 0},
                        {"mul", double(1.1f) * double(1.3f), 1.1f, 1.3f, 0},
                        {"div", 1.0 / 3.0, 1.0f, 3.0f, 0}};
  for (const Case &each : cases) {
    float down = one<float, float>(each.operation + ".rm.f32 %d, %a, %b;", each.a, each.b);
    float up = one<float, float>(each.operation + ".rp.f32 %d, %a, %b;", each.a, each.b);
    float zero = one<float, float>(each.operation + ".rz.f32 %d, %a, %b;", each.a, each.b);
    INFO(each.operation);
    CHECK(down < each.exact);
    CHECK(up > each.exact);
    CHECK(up == std::nextafter(down, infinity));
    CHECK(zero == (each.exact > 0 ? down : up));
  }
  CHECK(one<float, float>("fma.rp.f32 %d, %a, %b, %c;", 1.0f, 1.0f, 0x1p-40f) == 1 + 0x1p-23f);
  CHECK(one<float, float>("fma.rm.f32 %d, %a, %b, %c;", 1.0f, 1.0f, -0x1p-40f) == 1 - 0x1p-24f);
  CHECK(one<float, float>("rcp.rp.f32 %d, %a;", 3.0f) ==
        std::nextafter(one<float, float>("rcp.rm.f32 %d, %a;", 3.0f), 1.0f));
  CHECK(one<float, float>("sqrt.rp.f32 %d, %a;", 2.0f) ==
        std::nextafter(one<float, float>("sqrt.rz.f32 %d, %a;", 2.0f), 2.0f));
  CHECK(one<double, double>("add.rp.f64 %d, %a, %b;", 1.0, 0x1p-80) == 1 + 0x1p-52);
  CHECK(one<double, double>("mul.rz.f64 %d, %a, %b;", 1 + 0x1p-52, 1 + 0x1p-52) == 1 + 0x1p-51);
  CHECK(one<double, double>("div.rm.f64 %d, %a, %b;", 1.0, 3.0) <
        one<double, double>("div.rp.f64 %d, %a, %b;", 1.0, 3.0));
  // The rounding mode does not leak into later instructions.
  CHECK(one<float, float>("add.rp.f32 %d, %a, %b; add.f32 %d, %a, %b;", 1.0f, 0x1p-30f) == 1.0f);
}

TEST_CASE("ftz takes and gives zeros of the same sign for subnormals") {
  CHECK(bits("add.f32 %d, %a, %b;", smallest, smallest) == 2);
  CHECK(bits("add.ftz.f32 %d, %a, %b;", smallest, smallest) == 0);
  CHECK(bits("add.ftz.f32 %d, %a, %b;", -smallest, -smallest) == 0x80000000u);
  CHECK(bits("mul.ftz.f32 %d, %a, %b;", 0x1p-100f, 0x1p-40f) == 0);
  CHECK(bits("mul.f32 %d, %a, %b;", 0x1p-100f, 0x1p-40f) == bitsOf(0x1p-140f));
  CHECK(bits("fma.rn.ftz.f32 %d, %a, %b, %c;", 1.0f, 1.0f, tiny) == bitsOf(1.0f));
  CHECK(bits("add.rz.ftz.f32 %d, %a, %b;", tiny, tiny) == 0);
  CHECK(bits("sqrt.rn.ftz.f32 %d, %a;", tiny) == 0);
  CHECK(one<U32, float>("setp.eq.ftz.f32 %p, %a, %b; selp.u32 %d, 1, 0, %p;", tiny, 0.0f) == 1);
  CHECK(one<U32, float>("setp.eq.f32 %p, %a, %b; selp.u32 %d, 1, 0, %p;", tiny, 0.0f) == 0);
}

TEST_CASE("saturation clamps to [0, 1] and turns NaN into 0") {
  CHECK(one<float, float>("add.sat.f32 %d, %a, %b;", 0.75f, 0.75f) == 1.0f);
  CHECK(one<float, float>("mul.sat.f32 %d, %a, %b;", -0.75f, 0.75f) == 0.0f);
  CHECK(bits("fma.rn.sat.f32 %d, %a, %b, %c;", NAN, 1.0f, 1.0f) == 0);
  CHECK(one<float, float>("fma.rz.sat.f32 %d, %a, %b, %c;", 2.0f, 2.0f, 0.0f) == 1.0f);
}

TEST_CASE("NaN is canonical, min and max prefer numbers, signed zeros are ordered") {
  CHECK(bits("add.f32 %d, %a, %b;", infinity, -infinity) == nanBits);
  CHECK(bits("sqrt.rn.f32 %d, %a;", -1.0f) == nanBits);
  CHECK(bits("mul.rz.f32 %d, %a, %b;", 0.0f, infinity) == nanBits);
  CHECK(one<float, float>("min.f32 %d, %a, %b;", NAN, 3.0f) == 3.0f);
  CHECK(one<float, float>("max.f32 %d, %a, %b;", 3.0f, NAN) == 3.0f);
  CHECK(bits("min.f32 %d, %a, %b;", NAN, NAN) == nanBits);
  CHECK(bits("min.NaN.f32 %d, %a, %b;", NAN, 3.0f) == nanBits);
  CHECK(bits("min.f32 %d, %a, %b;", 0.0f, -0.0f) == 0x80000000u);
  CHECK(bits("max.f32 %d, %a, %b;", -0.0f, 0.0f) == 0);
  CHECK(one<float, float>("max.f32 %d, %a, %b, %c;", 1.0f, 5.0f, 3.0f) == 5.0f);
  CHECK(one<double, double>("min.f64 %d, %a, %b;", NAN, -3.0) == -3.0);
  CHECK(bits("abs.f32 %d, %a;", -2.5f) == bitsOf(2.5f));
  CHECK(bits("neg.f32 %d, %a;", 0.0f) == 0x80000000u);
  CHECK(one<float, float>("copysign.f32 %d, %a, %b;", -1.0f, 7.0f) == -7.0f);
}

TEST_CASE("ordered and unordered comparisons differ on NaN") {
  auto test = [](const std::string &comparison, float a, float b) {
    return one<U32, float>("setp." + comparison + ".f32 %p, %a, %b; selp.u32 %d, 1, 0, %p;", a, b);
  };
  for (const char *ordered : {"eq", "ne", "lt", "le", "gt", "ge", "num"})
    CHECK(test(ordered, NAN, 1.0f) == 0);
  for (const char *unordered : {"equ", "neu", "ltu", "leu", "gtu", "geu", "nan"})
    CHECK(test(unordered, NAN, 1.0f) == 1);
  CHECK(test("ne", 1.0f, 2.0f) == 1);
  CHECK(test("ltu", 2.0f, 1.0f) == 0);
  CHECK(test("num", 2.0f, 1.0f) == 1);
  CHECK(test("nan", 2.0f, 1.0f) == 0);
  CHECK(one<U32, double>("setp.gt.f64 %p, %a, %b; selp.u32 %d, 1, 0, %p;", 2.0, 1.0) == 1);
}

TEST_CASE("testp says what a value is") {
  auto test = [](const std::string &property, float a) {
    return one<U32, float>("testp." + property + ".f32 %p, %a; selp.u32 %d, 1, 0, %p;", a) == 1;
  };
  CHECK(test("finite", 1.0f));
  CHECK_FALSE(test("finite", infinity));
  CHECK(test("infinite", -infinity));
  CHECK_FALSE(test("infinite", NAN));
  CHECK(test("notanumber", NAN));
  CHECK(test("number", infinity));
  CHECK(test("normal", 1.0f));
  CHECK_FALSE(test("normal", 0.0f));
  CHECK(test("subnormal", smallest));
  CHECK_FALSE(test("subnormal", 0.0f));
}

TEST_CASE("approximations are within the ISA's errors") {
  struct Case {
    const char *code;
    double (*exact)(double);
    double relative; // of the ISA
    float from, to;
  };
  const Case cases[] = {
      {"ex2.approx.f32 %d, %a;", [](double x) { return std::exp2(x); }, 0x1p-22, -20, 20},
      {"lg2.approx.f32 %d, %a;", [](double x) { return std::log2(x); }, 0x1p-22, 3, 2000},
      {"rsqrt.approx.f32 %d, %a;", [](double x) { return 1 / std::sqrt(x); }, 0x1p-22, 0.01f, 90},
      {"sqrt.approx.f32 %d, %a;", [](double x) { return std::sqrt(x); }, 0x1p-22, 0.01f, 90},
      {"rcp.approx.ftz.f32 %d, %a;", [](double x) { return 1 / x; }, 0x1p-22, 0.01f, 90},
      {"tanh.approx.f32 %d, %a;", [](double x) { return std::tanh(x); }, 0x1p-11, 0.1f, 5},
      {"sin.approx.f32 %d, %a;", [](double x) { return std::sin(x); }, 0x1p-19, 0.2f, 2.8f},
      {"cos.approx.f32 %d, %a;", [](double x) { return std::cos(x); }, 0x1p-19, -1.3f, 1.3f},
  };
  for (const Case &each : cases) {
    std::vector<float> inputs;
    for (int i = 0; i < 32; ++i)
      inputs.push_back(each.from + (each.to - each.from) * static_cast<float>(i) / 31);
    auto outputs = evaluate<float, float>(each.code, inputs);
    for (int i = 0; i < 32; ++i) {
      double exact = each.exact(double{inputs[i]});
      CAPTURE(each.code);
      CAPTURE(inputs[i]);
      CHECK(std::fabs(outputs[i] - exact) <= each.relative * std::fabs(exact));
    }
  }
  CHECK(one<float, float>("rsqrt.approx.f32 %d, %a;", -0.0f) == -infinity);
  CHECK(one<float, float>("lg2.approx.f32 %d, %a;", 0.0f) == -infinity);
  CHECK(one<float, float>("ex2.approx.f32 %d, %a;", -infinity) == 0.0f);
  CHECK(one<float, float>("div.approx.f32 %d, %a, %b;", 6.0f, 3.0f) == 2.0f);
  CHECK(one<float, float>("div.full.f32 %d, %a, %b;", 6.0f, 3.0f) == 2.0f);
  CHECK(one<double, double>("rcp.rn.f64 %d, %a;", 4.0) == 0.25);
  CHECK(one<double, double>("sqrt.rn.f64 %d, %a;", 2.0) == std::sqrt(2.0));
}

TEST_CASE("halves: arithmetic rounds once, pairs go by halves") {
  const U16 one16 = 0x3c00, two16 = 0x4000, three16 = 0x4200;
  CHECK(one<U16, U16>("add.f16 %d, %a, %b;", one16, two16) == three16);
  CHECK(one<U16, U16>("mul.f16 %d, %a, %b;", three16, three16) == 0x4880);
  CHECK(one<U16, U16>("fma.rn.f16 %d, %a, %b, %c;", two16, three16, one16) == 0x4700);
  CHECK(one<U16, U16>("sub.f16 %d, %a, %b;", one16, one16) == 0);
  CHECK(one<U16, U16>("add.f16 %d, %a, %b;", 0x7bff, 0x7bff) == 0x7c00);
  CHECK(one<U16, U16>("add.f16 %d, %a, %b;", 1, 1) == 2);
  CHECK(one<U16, U16>("add.ftz.f16 %d, %a, %b;", 1, 1) == 0);
  CHECK(one<U16, U16>("add.f16 %d, %a, %b;", 0x7c00, 0xfc00) == 0x7fff);
  // 2048 + 1 lies half-way between two f16 values: it rounds to the even one.
  CHECK(one<U16, U16>("add.f16 %d, %a, %b;", 0x6800, one16) == 0x6800);
  CHECK(one<U16, U16>("neg.f16 %d, %a;", one16) == 0xbc00);
  CHECK(one<U16, U16>("min.f16 %d, %a, %b;", 0x7e00, two16) == two16);
  CHECK(one<U16, U16>("max.NaN.f16 %d, %a, %b;", 0x7e00, two16) == 0x7fff);
  CHECK(one<U16, U16>("add.rn.bf16 %d, %a, %b;", 0x3f80, 0x4000) == 0x4040);
  CHECK(one<U16, U16>("fma.rn.relu.bf16 %d, %a, %b, %c;", 0xbf80, 0x3f80, 0) == 0);
  CHECK(one<U32, U32>("add.f16x2 %d, %a, %b;", 0x3c004000u, 0x40003c00u) == 0x42004200u);
  CHECK(one<U32, U32>("fma.rn.bf16x2 %d, %a, %b, %c;", 0x3f804000u, 0x40004000u, 0x3f803f80u) ==
        0x404040a0u);
  CHECK(one<U32, U16>("setp.lt.f16 %p, %a, %b; selp.u32 %d, 1, 0, %p;", one16, two16) == 1);
}
