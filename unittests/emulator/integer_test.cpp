// Integer instructions, compared with values worked out from the PTX ISA.
#include "evaluate.h"

#include <cstdint>
#include <limits>

using namespace tally::emulator;
using U16 = std::uint16_t;
using U32 = std::uint32_t;
using U64 = std::uint64_t;
using S32 = std::int32_t;
using S64 = std::int64_t;

namespace {
constexpr U32 lowest = 0x80000000u, highest = 0x7fffffffu;
}

TEST_CASE("add, sub, mul and mad wrap, widen and take the high half") {
  CHECK(one<U32, U32>("add.s32 %d, %a, %b;", highest, 1) == lowest);
  CHECK(one<U32, U32>("add.sat.s32 %d, %a, %b;", highest, 1) == highest);
  CHECK(one<U32, U32>("sub.sat.s32 %d, %a, %b;", lowest, 1) == lowest);
  CHECK(one<U32, U32>("sub.u32 %d, %a, %b;", 3, 5) == 0xfffffffeu);
  CHECK(one<U16, U16>("add.u16 %d, %a, %b;", 0xffff, 2) == 1);
  CHECK(one<U64, U64>("sub.s64 %d, %a, %b;", 0, 1) == ~U64{0});
  CHECK(one<U32, U32>("mul.lo.u32 %d, %a, %b;", 0x10001u, 0x10001u) == 0x20001u);
  CHECK(one<U32, U32>("mul.hi.u32 %d, %a, %b;", 0xffffffffu, 0xffffffffu) == 0xfffffffeu);
  CHECK(one<U32, U32>("mul.hi.s32 %d, %a, %b;", 0xffffffffu, 2) == 0xffffffffu);
  CHECK(one<U64, U64>("mul.hi.u64 %d, %a, %b;", ~U64{0}, ~U64{0}) == ~U64{1});
  CHECK(one<U64, U32>("mul.wide.u32 %d, %a, %b;", 0xffffffffu, 2) == 0x1fffffffeu);
  CHECK(one<U64, U32>("mul.wide.s32 %d, %a, %b;", 0xffffffffu, 2) == U64(S64{-2}));
  CHECK(one<U32, U16>("mul.wide.s16 %d, %a, %b;", 0xffff, 3) == U32(-3));
  CHECK(one<U16, U16>("mul.lo.s16 %d, %a, %b;", 300, 300) == U16(90000));
  CHECK(one<U32, U32>("mad.lo.s32 %d, %a, %b, %c;", 7, 6, 100) == 142);
  CHECK(one<U32, U32>("mad.hi.u32 %d, %a, %b, %c;", lowest, 4, 5) == 7);
  CHECK(one<U64, U32, U32, U64>("mad.wide.s32 %d, %a, %b, %c;", U32(-3), 5, 7) == U64(S64{-8}));
  CHECK(one<U32, U32>("mad.hi.sat.s32 %d, %a, %b, %c;", lowest, lowest, highest) == highest);
  CHECK(one<U32, U32>("mul24.lo.u32 %d, %a, %b;", 0xff000003u, 5) == 15);
  CHECK(one<U32, U32>("mul24.hi.s32 %d, %a, %b;", 0x800000u, 0x800000u) == 0x40000000u);
  CHECK(one<U32, U32>("mad24.lo.s32 %d, %a, %b, %c;", 0xffffffu, 5, 6) == 1);
}

TEST_CASE("division truncates; by zero it gives all ones") {
  CHECK(one<U32, U32>("div.s32 %d, %a, %b;", U32(-7), 2) == U32(-3));
  CHECK(one<U32, U32>("rem.s32 %d, %a, %b;", U32(-7), 2) == U32(-1));
  CHECK(one<U32, U32>("div.u32 %d, %a, %b;", U32(-7), 2) == 0x7ffffffcu);
  CHECK(one<U32, U32>("div.s32 %d, %a, %b;", lowest, U32(-1)) == lowest);
  CHECK(one<U32, U32>("rem.s32 %d, %a, %b;", lowest, U32(-1)) == 0);
  CHECK(one<U32, U32>("div.u32 %d, %a, %b;", 5, 0) == 0xffffffffu);
  CHECK(one<U64, U64>("rem.u64 %d, %a, %b;", 5, 0) == ~U64{0});
  CHECK(one<U64, U64>("div.s64 %d, %a, %b;", U64(S64{-9}), 4) == U64(S64{-2}));
  CHECK(one<U16, U16>("div.s16 %d, %a, %b;", U16(-9), 2) == U16(-4));
}

TEST_CASE("min, max, abs, neg and sad") {
  CHECK(one<U32, U32>("min.s32 %d, %a, %b;", U32(-1), 1) == U32(-1));
  CHECK(one<U32, U32>("min.u32 %d, %a, %b;", U32(-1), 1) == 1);
  CHECK(one<U64, U64>("max.s64 %d, %a, %b;", U64(S64{-1}), 1) == 1);
  CHECK(one<U16, U16>("max.s16 %d, %a, %b;", U16(-5), 4) == 4);
  CHECK(one<U32, U32>("abs.s32 %d, %a;", U32(-5)) == 5);
  CHECK(one<U32, U32>("abs.s32 %d, %a;", lowest) == lowest);
  CHECK(one<U64, U64>("neg.s64 %d, %a;", 5) == U64(S64{-5}));
  CHECK(one<U32, U32>("sad.s32 %d, %a, %b, %c;", U32(-3), 4, 10) == 17);
  CHECK(one<U32, U32>("sad.u32 %d, %a, %b, %c;", 9, 4, 10) == 15);
}

TEST_CASE("shifts clamp their amount; funnel shifts clamp or wrap") {
  CHECK(one<U32, U32>("shl.b32 %d, %a, %b;", 1, 31) == lowest);
  CHECK(one<U32, U32>("shl.b32 %d, %a, %b;", 1, 32) == 0);
  CHECK(one<U32, U32>("shr.u32 %d, %a, %b;", lowest, 40) == 0);
  CHECK(one<U32, U32>("shr.s32 %d, %a, %b;", lowest, 40) == 0xffffffffu);
  CHECK(one<U64, U64, U32>("shl.b64 %d, %a, %b;", 3, 62) == U64{3} << 62);
  CHECK(one<U64, U64, U32>("shr.s64 %d, %a, %b;", U64{1} << 63, 63) == ~U64{0});
  CHECK(one<U16, U16, U32>("shr.s16 %d, %a, %b;", 0x8000, 3) == 0xf000);
  CHECK(one<U16, U16, U32>("shl.b16 %d, %a, %b;", 1, 16) == 0);
  CHECK(one<U32, U32>("shf.l.clamp.b32 %d, %a, %b, %c;", 0x12345678u, 0x9abcdef0u, 8) ==
        0xbcdef012u);
  CHECK(one<U32, U32>("shf.l.clamp.b32 %d, %a, %b, %c;", 0x12345678u, 0x9abcdef0u, 40) ==
        0x12345678u);
  CHECK(one<U32, U32>("shf.r.wrap.b32 %d, %a, %b, %c;", 0x12345678u, 0x9abcdef0u, 36) ==
        0x01234567u);
  CHECK(one<U32, U32>("shf.r.clamp.b32 %d, %a, %b, %c;", 0x12345678u, 0x9abcdef0u, 50) ==
        0x9abcdef0u);
}

TEST_CASE("logic, lop3 and cnot") {
  CHECK(one<U32, U32>("and.b32 %d, %a, %b;", 12, 10) == 8);
  CHECK(one<U64, U64>("or.b64 %d, %a, %b;", 12, 10) == 14);
  CHECK(one<U16, U16>("xor.b16 %d, %a, %b;", 12, 10) == 6);
  CHECK(one<U32, U32>("not.b32 %d, %a;", 5) == ~5u);
  CHECK(one<U32, U32>("cnot.b32 %d, %a;", 0) == 1);
  CHECK(one<U32, U32>("cnot.b32 %d, %a;", 7) == 0);
  U32 a = 0xf0f0f0f0u, b = 0xccccccccu, c = 0xaaaaaaaau;
  CHECK(one<U32, U32>("lop3.b32 %d, %a, %b, %c, 0x96;", a, b, c) == (a ^ b ^ c));
  CHECK(one<U32, U32>("lop3.b32 %d, %a, %b, %c, 0xe8;", a, b, c) == ((a & b) | (a & c) | (b & c)));
  // 0x1a: terms 1 (~a&~b&c), 3 (~a&b&c) and 4 (a&~b&~c).
  CHECK(one<U32, U32>("lop3.b32 %d, %a, %b, %c, 0x1a;", a, b, c) == ((~a & c) | (a & ~b & ~c)));
}

TEST_CASE("bit fields and counts") {
  CHECK(one<U32, U32>("bfe.u32 %d, %a, %b, %c;", 0xabcd1234u, 8, 12) == 0xd12u);
  CHECK(one<U32, U32>("bfe.s32 %d, %a, %b, %c;", 0xabcd1234u, 8, 12) == 0xfffffd12u);
  CHECK(one<U32, U32>("bfe.s32 %d, %a, %b, %c;", 0x80000000u, 28, 12) == 0xfffffff8u);
  CHECK(one<U32, U32>("bfe.u32 %d, %a, %b, %c;", 0xffffffffu, 28, 12) == 0xfu);
  CHECK(one<U32, U32>("bfe.s32 %d, %a, %b, %c;", 0xffffffffu, 3, 0) == 0);
  CHECK(one<U64, U64, U32, U32>("bfe.u64 %d, %a, %b, %c;", 0xabcd123400000000u, 40, 12) == 0xd12u);
  CHECK(one<U32, U32>("bfi.b32 %d, %a, %b, 8, 4;", 0xffu, 0) == 0xf00u);
  CHECK(one<U32, U32>("bfi.b32 %d, %a, %b, 32, 4;", 0xffu, 0x55u) == 0x55u);
  CHECK(one<U32, U32>("bfind.u32 %d, %a;", 0x00010000u) == 16);
  CHECK(one<U32, U32>("bfind.shiftamt.u32 %d, %a;", 0x00010000u) == 15);
  CHECK(one<U32, U32>("bfind.s32 %d, %a;", 0xfffffffeu) == 0);
  CHECK(one<U32, U32>("bfind.u32 %d, %a;", 0) == 0xffffffffu);
  CHECK(one<U32, U32>("brev.b32 %d, %a;", 0x00000003u) == 0xc0000000u);
  CHECK(one<U64, U64>("brev.b64 %d, %a;", 1) == U64{1} << 63);
  CHECK(one<U32, U64>("popc.b64 %d, %a;", 0xff000000000000ffu) == 16);
  CHECK(one<U32, U32>("clz.b32 %d, %a;", 0) == 32);
  CHECK(one<U32, U64>("clz.b64 %d, %a;", 1) == 63);
  CHECK(one<U32, U32>("fns.b32 %d, %a, %b, %c;", 0x29u, 0, 2) == 3);
  CHECK(one<U32, U32>("fns.b32 %d, %a, %b, %c;", 0x29u, 5, U32(-3)) == 0);
  CHECK(one<U32, U32>("fns.b32 %d, %a, %b, %c;", 0x29u, 0, 4) == 0xffffffffu);
  CHECK(one<U32, U32>("bmsk.clamp.b32 %d, %a, %b;", 4, 8) == 0xff0u);
  CHECK(one<U32, U32>("bmsk.clamp.b32 %d, %a, %b;", 4, 40) == 0xfffffff0u);
  CHECK(one<U32, U32>("szext.wrap.s32 %d, %a, %b;", 0x1ffu, 9) == 0xffffffffu);
  CHECK(one<U32, U32>("szext.clamp.u32 %d, %a, %b;", 0xfffu, 9) == 0x1ffu);
}

TEST_CASE("prmt in its modes") {
  U32 a = 0x33221100u, b = 0x77665544u;
  CHECK(one<U32, U32>("prmt.b32 %d, %a, %b, 0x7531;", a, b) == 0x77553311u);
  CHECK(one<U32, U32>("prmt.b32 %d, %a, %b, 0x000c;", 0x33221100u, 0x000000f0u) == 0x000000ffu);
  CHECK(one<U32, U32>("prmt.b32.f4e %d, %a, %b, 1;", a, b) == 0x44332211u);
  CHECK(one<U32, U32>("prmt.b32.b4e %d, %a, %b, 1;", a, b) == 0x66770011u);
  CHECK(one<U32, U32>("prmt.b32.rc8 %d, %a, %b, 2;", a, b) == 0x22222222u);
  CHECK(one<U32, U32>("prmt.b32.ecl %d, %a, %b, 2;", a, b) == 0x33222222u);
  CHECK(one<U32, U32>("prmt.b32.ecr %d, %a, %b, 1;", a, b) == 0x11111100u);
  CHECK(one<U32, U32>("prmt.b32.rc16 %d, %a, %b, 1;", a, b) == 0x33223322u);
}

TEST_CASE("dot products of bytes and halves") {
  CHECK(one<U32, U32>("dp4a.u32.u32 %d, %a, %b, %c;", 0x01020304u, 0x05060708u, 10) ==
        1 * 5 + 2 * 6 + 3 * 7 + 4 * 8 + 10);
  CHECK(one<U32, U32>("dp4a.s32.s32 %d, %a, %b, %c;", 0xff02fe04u, 0x01010101u, 0) == 3);
  CHECK(one<U32, U32>("dp4a.u32.s32 %d, %a, %b, %c;", 0xff000000u, 0xff000000u, 0) == U32(-255));
  CHECK(one<U32, U32>("dp2a.lo.s32.u32 %d, %a, %b, %c;", 0xffff0003u, 0x00000502u, 1) == 2);
  CHECK(one<U32, U32>("dp2a.hi.u32.u32 %d, %a, %b, %c;", 0x00020003u, 0x05040000u, 0) == 22);
}

TEST_CASE("carries go from one instruction to the next") {
  CHECK(one<U32, U32>("add.cc.u32 %t, %a, %b; addc.u32 %d, 0, 0;", 0xffffffffu, 1) == 1);
  CHECK(one<U32, U32>("add.cc.u32 %t, %a, %b; addc.u32 %d, 0, 0;", 0xfffffffeu, 1) == 0);
  CHECK(one<U32, U32>("sub.cc.u32 %t, %a, %b; subc.u32 %d, 5, 0;", 1, 2) == 4);
  CHECK(one<U32, U32>("add.cc.u32 %t, %a, %b; addc.cc.u32 %t, -1, 0; addc.u32 %d, 7, 0;",
                      0xffffffffu, 1) == 8);
  CHECK(one<U32, U32>("mad.lo.cc.u32 %t, %a, %b, %c; madc.hi.u32 %d, %a, %b, 0;", 0x80000000u, 2,
                      5) == 1);
  CHECK(one<U32, U32>("mad.lo.cc.u32 %t, %a, %b, %c; madc.hi.u32 %d, %a, %b, 0;", 0xffffffffu, 1,
                      5) == 1);
  CHECK(one<U64, U64>("sub.cc.u64 %d, %a, %b; subc.u64 %d, %a, %b;", 1, 2) == U64(S64{-2}));
}

TEST_CASE("comparisons join with predicates and give pairs") {
  auto select = [](const std::string &test) { return test + " selp.u32 %d, 1, 0, %p;"; };
  CHECK(one<U32, U32>(select("setp.lt.s32 %p, %a, %b;"), U32(-1), 1) == 1);
  CHECK(one<U32, U32>(select("setp.lt.u32 %p, %a, %b;"), U32(-1), 1) == 0);
  CHECK(one<U32, U32>(select("setp.hi.u32 %p, %a, %b;"), U32(-1), 1) == 1);
  CHECK(one<U32, U16>(select("setp.ge.s16 %p, %a, %b;"), U16(-1), 0) == 0);
  CHECK(one<U32, U64>(select("setp.ne.b64 %p, %a, %b;"), U64{1} << 40, 0) == 1);
  CHECK(
      one<U32, U32>("setp.eq.u32 %q, 0, 0; setp.lt.and.u32 %p, %a, %b, !%q; selp.u32 %d, 1, 0, %p;",
                    1, 2) == 0);
  CHECK(one<U32, U32>("setp.eq.u32 %q, 0, 1; setp.gt.or.u32 %p, %a, %b, %q; selp.u32 %d, 1, 0, %p;",
                      3, 2) == 1);
  CHECK(one<U32, U32>("setp.lt.u32 %p|%q, %a, %b; selp.u32 %t, 1, 0, %p; selp.u32 %u, 2, 0, %q;"
                      " add.u32 %d, %t, %u;",
                      5, 4) == 2);
  CHECK(one<U32, U32>("set.lt.u32.s32 %d, %a, %b;", U32(-4), 0) == 0xffffffffu);
  CHECK(one<U32, U32>("set.lt.f32.s32 %d, %a, %b;", U32(-4), 0) == 0x3f800000u);
  CHECK(one<U32, U32>("slct.u32.s32 %d, %a, %b, %c;", 10, 20, U32(-1)) == 20);
  CHECK(one<U32, U32>("slct.u32.s32 %d, %a, %b, %c;", 10, 20, 0) == 10);
  CHECK(one<U32, U32>("setp.lt.u32 %p, %a, %b; not.pred %q, %p; and.pred %p, %p, %q;"
                      " or.pred %q, %q, %p; xor.pred %p, %p, %q; selp.u32 %d, 1, 0, %p;",
                      5, 4) == 1);
  CHECK(one<U32, U32>("mov.pred %p, 1; @!%p mov.u32 %d, 9; @%p mov.u32 %d, 8;", 0) == 8);
}

TEST_CASE("moves pack and unpack") {
  CHECK(one<U32, U16>("mov.b32 %d, {%a, %b};", 0x1234, 0x5678) == 0x56781234u);
  CHECK(one<U64, U32>("mov.b64 %d, {%a, %b};", 1, 2) == 0x200000001u);
  CHECK(one<U32, U64>("mov.b64 {%t, %d}, %a;", 0x200000001u) == 2);
  CHECK(one<U32, U64>("mov.b64 {_, %d}, %a;", 0x200000001u) == 2);
  CHECK(one<U64, U16>("mov.b64 %d, {%a, %b, %a, %c};", 1, 2, 3) == 0x0003000100020001u);
  CHECK(one<U32, U32>("mov.b32 %d, %a;", 77) == 77);
  CHECK(one<U32, U32>("mov.u32 %d, WARP_SZ;", 0) == 32);
}
