// cvt with all combinations of types, rounding and saturation. PTX ISA 9.7.9.21.
#include "evaluate.h"

#include <cmath>
#include <limits>

using namespace tally::emulator;
using U16 = std::uint16_t;
using U32 = std::uint32_t;
using U64 = std::uint64_t;
using S64 = std::int64_t;

TEST_CASE("integers to integers extend, truncate and saturate") {
  CHECK(one<U64, U32>("cvt.s64.s32 %d, %a;", 0xffffffffu) == ~U64{0});
  CHECK(one<U64, U32>("cvt.u64.u32 %d, %a;", 0xffffffffu) == 0xffffffffu);
  CHECK(one<U32, U64>("cvt.u32.u64 %d, %a;", 0x123456789u) == 0x23456789u);
  CHECK(one<U32, U16>("cvt.s32.s16 %d, %a;", 0x8000) == 0xffff8000u);
  CHECK(one<U32, U16>("cvt.s32.s8 %d, %a;", 0x1280) == 0xffffff80u);
  CHECK(one<U32, U16>("cvt.u32.u8 %d, %a;", 0x1280) == 0x80u);
  CHECK(one<U16, U32>("cvt.u16.u32 %d, %a;", 0x12345) == 0x2345);
  CHECK(one<U32, U32>("cvt.s8.s32 %d, %a;", 0x1ff) == 0xffffffffu);
  CHECK(one<U16, U32>("cvt.u8.u32 %d, %a;", 0x1ff) == 0xff);
  CHECK(one<U16, U32>("cvt.sat.s8.s32 %d, %a;", 1000) == 127);
  CHECK(one<U16, U32>("cvt.sat.s8.s32 %d, %a;", U32(-1000)) == U16(-128));
  CHECK(one<U32, U32>("cvt.sat.u32.s32 %d, %a;", U32(-5)) == 0);
  CHECK(one<U32, U64>("cvt.sat.s32.u64 %d, %a;", ~U64{0}) == 0x7fffffffu);
  CHECK(one<U16, U32>("cvt.sat.u16.u32 %d, %a;", 70000) == 65535);
}

TEST_CASE("floats to integers round as told, clamp, and have the ISA's value for NaN") {
  CHECK(one<U32, float>("cvt.rzi.s32.f32 %d, %a;", -2.7f) == U32(-2));
  CHECK(one<U32, float>("cvt.rni.s32.f32 %d, %a;", 2.5f) == 2);
  CHECK(one<U32, float>("cvt.rni.s32.f32 %d, %a;", 3.5f) == 4);
  CHECK(one<U32, float>("cvt.rmi.s32.f32 %d, %a;", -2.1f) == U32(-3));
  CHECK(one<U32, float>("cvt.rpi.s32.f32 %d, %a;", -2.9f) == U32(-2));
  CHECK(one<U32, float>("cvt.rzi.u32.f32 %d, %a;", -2.7f) == 0);
  CHECK(one<U32, float>("cvt.rzi.u32.f32 %d, %a;", 1e20f) == 0xffffffffu);
  CHECK(one<U32, float>("cvt.rzi.s32.f32 %d, %a;", -1e20f) == 0x80000000u);
  CHECK(one<U32, float>("cvt.rzi.s32.f32 %d, %a;", NAN) == 0);
  CHECK(one<U64, float>("cvt.rzi.s64.f32 %d, %a;", NAN) == U64{1} << 63);
  CHECK(one<U64, float>("cvt.rzi.s64.f32 %d, %a;", -0x1p40f) == U64(-(S64{1} << 40)));
  CHECK(one<U64, double>("cvt.rzi.u64.f64 %d, %a;", 0x1p63) == U64{1} << 63);
  CHECK(one<U32, double>("cvt.rni.s32.f64 %d, %a;", -1.5) == U32(-2));
  CHECK(one<U32, U16>("cvt.rzi.s32.f16 %d, %a;", 0xc580) == U32(-5));
  CHECK(one<U16, float>("cvt.rzi.u8.f32 %d, %a;", 300.0f) == 255);
}

TEST_CASE("integers to floats") {
  CHECK(one<float, U32>("cvt.rn.f32.s32 %d, %a;", U32(-7)) == -7.0f);
  CHECK(one<float, U32>("cvt.rn.f32.u32 %d, %a;", 0xffffffffu) == 0x1p32f);
  CHECK(one<float, U32>("cvt.rz.f32.u32 %d, %a;", 0xffffffffu) == 0x1.fffffep31f);
  CHECK(one<float, U32>("cvt.rm.f32.s32 %d, %a;", U32(-0x1000001)) == -0x1.000002p24f);
  CHECK(one<float, U64>("cvt.rp.f32.u64 %d, %a;", (U64{1} << 60) + 1) == 0x1.000002p60f);
  CHECK(one<float, U64>("cvt.rn.f32.s64 %d, %a;", U64(S64{-1})) == -1.0f);
  CHECK(one<double, U32>("cvt.rn.f64.s32 %d, %a;", U32(-7)) == -7.0);
  CHECK(one<double, U64>("cvt.rn.f64.u64 %d, %a;", ~U64{0}) == 0x1p64);
  CHECK(one<double, U64>("cvt.rz.f64.u64 %d, %a;", ~U64{0}) == 0x1.fffffffffffffp63);
  CHECK(one<U16, U32>("cvt.rn.f16.s32 %d, %a;", 5) == 0x4500);
  CHECK(one<U16, U32>("cvt.rn.f16.u32 %d, %a;", 2049) == 0x6800);
  CHECK(one<float, U16>("cvt.rn.f32.u8 %d, %a;", 0x1ff) == 255.0f);
}

TEST_CASE("between floats") {
  CHECK(one<float, double>("cvt.rn.f32.f64 %d, %a;", 1 + 0x1p-24) == 1.0f);
  CHECK(one<float, double>("cvt.rp.f32.f64 %d, %a;", 1 + 0x1p-40) == 1 + 0x1p-23f);
  CHECK(one<float, double>("cvt.rz.f32.f64 %d, %a;", -1 - 0x1p-40) == -1.0f);
  CHECK(one<double, float>("cvt.f64.f32 %d, %a;", 0.1f) == double(0.1f));
  CHECK(one<float, U16>("cvt.f32.f16 %d, %a;", 0x3555) == 0x1.554p-2f);
  CHECK(one<float, U16>("cvt.f32.f16 %d, %a;", 0x0001) == 0x1p-24f);
  CHECK(one<float, U16>("cvt.f32.bf16 %d, %a;", 0x3fc0) == 1.5f);
  CHECK(one<U16, float>("cvt.rn.f16.f32 %d, %a;", 65520.0f) == 0x7c00);
  CHECK(one<U16, float>("cvt.rz.f16.f32 %d, %a;", 65520.0f) == 0x7bff);
  CHECK(one<U16, float>("cvt.rn.f16.f32 %d, %a;", 0x1p-25f) == 0);
  CHECK(one<U16, float>("cvt.rn.f16.f32 %d, %a;", 0x1.8p-25f) == 1);
  CHECK(one<U16, float>("cvt.rn.bf16.f32 %d, %a;", 1 + 0x1p-8f) == 0x3f80);
  CHECK(one<U16, float>("cvt.rn.bf16.f32 %d, %a;", 1 + 0x1.8p-8f) == 0x3f81);
  CHECK(one<U16, float>("cvt.rn.relu.bf16.f32 %d, %a;", -1.0f) == 0);
  CHECK(one<U16, float>("cvt.rn.satfinite.f16.f32 %d, %a;", 1e9f) == 0x7bff);
  CHECK(one<U32, float>("cvt.rn.f16x2.f32 %d, %a, %b;", 1.0f, 2.0f) == 0x3c004000u);
  CHECK(one<U32, float>("cvt.rn.bf16x2.f32 %d, %a, %b;", 1.0f, 2.0f) == 0x3f804000u);
  CHECK(one<float, float>("cvt.rni.f32.f32 %d, %a;", 2.5f) == 2.0f);
  CHECK(one<float, float>("cvt.rpi.f32.f32 %d, %a;", 2.1f) == 3.0f);
  CHECK(one<float, float>("cvt.sat.f32.f32 %d, %a;", 2.1f) == 1.0f);
  CHECK(one<float, float>("cvt.ftz.f32.f32 %d, %a;", asFloat(5)) == 0.0f);
  CHECK(one<double, double>("cvt.rmi.f64.f64 %d, %a;", -2.5) == -3.0);
  CHECK(bitsOf(one<float, double>("cvt.rn.f32.f64 %d, %a;", NAN)) == 0x7fffffffu);
}
