// atom and red: the values that they leave in memory and return.
#include "evaluate.h"

using namespace tally;
using namespace tally::emulator;
using U16 = std::uint16_t;
using U32 = std::uint32_t;
using U64 = std::uint64_t;

namespace {

/// Runs *cell op b (, c) in one thread; returns {returned value, value left in memory}.
template <class T> std::pair<T, T> atomic(const std::string &form, T cell, T b, T c = 0) {
  std::string type = bitsType<T>();
  std::string text = header +
                     ".visible .entry k(.param .u64 cell, .param .u64 operands)\n{\n"
                     ".reg .b64 %cell, %operands; .reg ." +
                     type +
                     " %d, %b, %c;\n"
                     "ld.param.u64 %cell, [cell]; ld.param.u64 %operands, [operands];\n"
                     "ld.global." +
                     type + " %b, [%operands]; ld.global." + type + " %c, [%operands+" +
                     std::to_string(sizeof(T)) + "];\n" + form + "\nst.global." + type +
                     " [%operands], %d;\nret;\n}\n";
  Harness h(text);
  DevicePtr pointer = h.upload(std::vector<T>{cell}), operands = h.upload(std::vector<T>{b, c});
  INFO(form);
  h.ok("k", shapeOf(1, 1), pointer, operands);
  return {h.download<T>(operands, 1)[0], h.download<T>(pointer, 1)[0]};
}

template <class T> std::pair<T, T> pair(T a, T b) { return {a, b}; }

} // namespace

TEST_CASE("integer atomics return the old value and leave the new one") {
  CHECK(atomic<U32>("atom.global.add.u32 %d, [%cell], %b;", 5, 7) == pair<U32>(5, 12));
  CHECK(atomic<U64>("atom.relaxed.gpu.add.u64 %d, [%cell], %b;", 5, 7) == pair<U64>(5, 12));
  CHECK(atomic<U32>("atom.exch.b32 %d, [%cell], %b;", 5, 7) == pair<U32>(5, 7));
  CHECK(atomic<U32>("atom.acq_rel.sys.global.cas.b32 %d, [%cell], %b, %c;", 5, 5, 9) ==
        pair<U32>(5, 9));
  CHECK(atomic<U32>("atom.global.cas.b32 %d, [%cell], %b, %c;", 5, 6, 9) == pair<U32>(5, 5));
  CHECK(atomic<U64>("atom.global.cas.b64 %d, [%cell], %b, %c;", 5, 5, 9) == pair<U64>(5, 9));
  CHECK(atomic<U16>("atom.global.cas.b16 %d, [%cell], %b, %c;", 5, 5, 9) == pair<U16>(5, 9));
  CHECK(atomic<U32>("atom.global.inc.u32 %d, [%cell], %b;", 5, 7) == pair<U32>(5, 6));
  CHECK(atomic<U32>("atom.global.inc.u32 %d, [%cell], %b;", 7, 7) == pair<U32>(7, 0));
  CHECK(atomic<U32>("atom.global.dec.u32 %d, [%cell], %b;", 0, 7) == pair<U32>(0, 7));
  CHECK(atomic<U32>("atom.global.dec.u32 %d, [%cell], %b;", 3, 7) == pair<U32>(3, 2));
  CHECK(atomic<U32>("atom.global.dec.u32 %d, [%cell], %b;", 9, 7) == pair<U32>(9, 7));
  CHECK(atomic<U32>("atom.global.min.s32 %d, [%cell], %b;", 3, U32(-1)) == pair<U32>(3, U32(-1)));
  CHECK(atomic<U32>("atom.global.min.u32 %d, [%cell], %b;", 3, U32(-1)) == pair<U32>(3, 3));
  CHECK(atomic<U64>("atom.global.max.s64 %d, [%cell], %b;", 3, ~U64{0}) == pair<U64>(3, 3));
  CHECK(atomic<U32>("atom.global.and.b32 %d, [%cell], %b;", 12, 10) == pair<U32>(12, 8));
  CHECK(atomic<U32>("atom.global.or.b32 %d, [%cell], %b;", 12, 10) == pair<U32>(12, 14));
  CHECK(atomic<U64>("atom.global.xor.b64 %d, [%cell], %b;", 12, 10) == pair<U64>(12, 6));
  CHECK(atomic<U32>("red.global.max.u32 [%cell], %b; mov.u32 %d, 1;", 12, 40) == pair<U32>(1, 40));
}

TEST_CASE("floating-point atomics") {
  CHECK(atomic<U32>("atom.global.add.f32 %d, [%cell], %b;", bitsOf(1.5f), bitsOf(2.0f)) ==
        pair<U32>(bitsOf(1.5f), bitsOf(3.5f)));
  CHECK(atomic<U32>("red.global.add.f32 [%cell], %b; mov.u32 %d, 0;", 1, 1) == pair<U32>(0, 0));
  CHECK(atomic<U64>("atom.global.add.f64 %d, [%cell], %b;", std::bit_cast<U64>(1.5),
                    std::bit_cast<U64>(2.0))
            .second == std::bit_cast<U64>(3.5));
  CHECK(atomic<U32>("atom.global.add.noftz.f16x2 %d, [%cell], %b;", 0x3c004000u, 0x40003c00u)
            .second == 0x42004200u);
  CHECK(atomic<U16>("atom.global.add.noftz.bf16 %d, [%cell], %b;", 0x3f80, 0x4000).second ==
        0x4040);
}

TEST_CASE("all lanes of all blocks get their own ticket") {
  Harness h(header + R"(.visible .entry k(.param .u64 counter, .param .u64 seen) {
    .reg .b64 %d<4>; .reg .b32 %r<4>; .shared .u32 s;
    ld.param.u64 %d1, [counter]; ld.param.u64 %d2, [seen];
    atom.global.add.u32 %r1, [%d1], 1;
    mad.wide.u32 %d3, %r1, 4, %d2; atom.global.add.u32 %r2, [%d3], 1;
    ret; })");
  for (std::uint64_t seed : {0, 1, 2}) {
    DevicePtr counter = h.upload(std::vector<U32>{0}), seen = h.upload(std::vector<U32>(500));
    auto fault = h.run("k", shapeOf(5, 100), {seed, 3}, counter, seen);
    REQUIRE_MESSAGE(!fault, fault->message);
    CHECK(h.download<U32>(counter, 1)[0] == 500);
    CHECK(h.download<U32>(seen, 500) == std::vector<U32>(500, 1));
  }
}

TEST_CASE("a compare-and-swap lock among the lanes of a warp makes progress") {
  Harness h(header + R"(.visible .entry k(.param .u64 cell) {
    .reg .b64 %d<3>; .reg .b32 %r<4>; .reg .pred %p<3>;
    ld.param.u64 %d1, [cell];
    lock: atom.global.cas.b32 %r1, [%d1], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra lock;
    ld.volatile.global.u32 %r2, [%d1+4]; add.u32 %r2, %r2, 1; st.volatile.global.u32 [%d1+4], %r2;
    membar.gl; atom.global.exch.b32 %r3, [%d1], 0;
    ret; })");
  for (std::uint64_t seed : {0, 1, 2}) {
    DevicePtr cell = h.upload(std::vector<U32>{0, 0});
    auto fault = h.run("k", shapeOf(3, 64), {seed, 3}, cell);
    REQUIRE_MESSAGE(!fault, fault->message);
    CHECK(h.download<U32>(cell, 2)[1] == 192);
  }
}
