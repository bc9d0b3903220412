// State spaces, generic addresses, vectors, initialisers, and the faults of wrong accesses.
#include "harness.h"

#include "../../lib/emulator/memory.h"

using namespace tally;
using namespace tally::emulator;
using U32 = std::uint32_t;
using U64 = std::uint64_t;

namespace {

/// A kernel with `out` in %out, tid in %lane, and registers of every size.
std::string kernel(const std::string &body, const std::string &before = "",
                   const std::string &parameters = "") {
  return header + before + ".visible .entry k(.param .u64 out" + parameters +
         ")\n{\n.reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<12>; .reg .f32 %f<8>;\n"
         ".reg .b64 %d<12>; .reg .b64 %out; .reg .b32 %lane;\n"
         "ld.param.u64 %out, [out]; mov.u32 %lane, %tid.x;\n" +
         body + "\nret;\n}\n";
}

template <class T> std::vector<T> run(const std::string &text, U32 threads, std::size_t count) {
  Harness h(text);
  DevicePtr out = h.upload(std::vector<T>(count));
  h.ok("k", shapeOf(1, threads, 64), out);
  return h.download<T>(out, count);
}

Fault faultOf(const std::string &text, U32 threads = 1) {
  Harness h(text);
  DevicePtr out = h.upload(std::vector<U32>(16));
  auto fault = h.run("k", shapeOf(2, threads, 64), {}, out);
  REQUIRE(fault);
  return *fault;
}

} // namespace

TEST_CASE("global memory keeps exact bounds, aligns to 256 bytes and joins what is freed") {
  GlobalMemory globalMemory;
  auto a = *globalMemory.allocate(100, std::byte{1}), b = *globalMemory.allocate(300, std::byte{2});
  CHECK(a % 256 == 0);
  CHECK(b >= a + 512);
  CHECK(globalMemory.find(a + 99).begin == a);
  CHECK(globalMemory.find(a + 100).end == 0);
  CHECK(globalMemory.find(b + 299).end == b + 300);
  CHECK(*globalMemory.host(b + 299) == std::byte{2});
  CHECK_FALSE(bool(globalMemory.free(a + 1)));
  CHECK(bool(globalMemory.free(a)));
  CHECK_FALSE(bool(globalMemory.free(a)));
  CHECK(bool(globalMemory.free(b)));
  CHECK(*globalMemory.allocate(900, std::byte{0}) == a);
}

TEST_CASE("sub-word loads and stores extend and truncate to the register") {
  auto out = run<U32>(kernel(R"(
    st.global.u32 [%out], 0x8182f3f4;
    ld.global.u8 %h1, [%out+3];  cvt.u32.u16 %r1, %h1; st.global.u32 [%out+4], %r1;
    ld.global.s8 %r2, [%out+2];  st.global.u32 [%out+8], %r2;
    ld.global.s16 %r3, [%out];   st.global.u32 [%out+12], %r3;
    ld.global.u16 %r4, [%out];   st.global.u32 [%out+16], %r4;
    ld.global.s8 %d1, [%out+1];  st.global.u64 [%out+24], %d1;
    ld.global.s32 %d2, [%out];   st.global.u64 [%out+32], %d2;
    mov.u32 %r5, 0x1234567;
    st.global.u32 [%out+40], 0; st.global.u8 [%out+41], %r5; st.global.u16 [%out+42], %r5;)"),
                      1, 16);
  CHECK(out[1] == 0x81);
  CHECK(out[2] == 0xffffff82u);
  CHECK(out[3] == 0xfffff3f4u);
  CHECK(out[4] == 0xf3f4);
  CHECK(out[6] == 0xfffffff3u);
  CHECK(out[7] == 0xffffffffu);
  CHECK(out[8] == 0x8182f3f4u);
  CHECK(out[9] == 0xffffffffu);
  CHECK(out[10] == 0x45676700u);
}

TEST_CASE("vector accesses, with sinks, in every qualifier's spelling") {
  auto out = run<U32>(kernel(R"(
    mov.u32 %r1, 1; mov.u32 %r2, 2; mov.u32 %r3, 3; mov.u32 %r4, 4;
    st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4};
    ld.global.nc.L1::no_allocate.v4.u32 {%r5, _, %r6, %r7}, [%out];
    st.global.cg.v2.u32 [%out+16], {%r7, %r5};
    ld.volatile.global.u32 %r8, [%out+8];
    st.relaxed.gpu.global.u32 [%out+24], %r8;
    ld.acquire.sys.global.u32 %r9, [%out+24];
    st.release.cta.global.u32 [%out+28], %r9;
    fence.acq_rel.gpu; membar.gl;
    ld.v2.b64 {%d1, %d2}, [%out];
    st.wb.global.b64 [%out+32], %d2;)"),
                      1, 12);
  CHECK(out == std::vector<U32>{1, 2, 3, 4, 4, 1, 3, 3, 3, 4, 0, 0});
}

TEST_CASE("module variables are initialised, with addresses of variables and functions") {
  auto out = run<U32>(kernel(R"(
    ld.const.u32 %r1, [table+8];  st.global.u32 [%out], %r1;
    ld.global.f32 %f1, [real];    st.global.f32 [%out+4], %f1;
    ld.global.u64 %d1, [pointer]; ld.u32 %r2, [%d1]; st.global.u32 [%out+8], %r2;
    mov.u64 %d2, text; cvta.global.u64 %d2, %d2; ld.u8 %r3, [%d2+1]; st.global.u32 [%out+12], %r3;
    ld.global.u32 %r4, [zeros+4]; st.global.u32 [%out+16], %r4;
    mov.u64 %d3, table; ld.const.u32 %r5, [%d3+4]; st.global.u32 [%out+20], %r5;)",
                             ".const .align 4 .u32 table[4] = {10, 20, 30};\n"
                             ".global .f32 real = 1.5;\n"
                             ".global .align 1 .b8 text[3] = {104, 105, 0};\n"
                             ".global .u64 pointer = generic(table)+4;\n"
                             ".global .u32 zeros[4];\n"),
                      1, 6);
  CHECK(out == std::vector<U32>{30, 0x3fc00000u, 20, 105, 0, 20});
}

TEST_CASE("shared memory: static, module-scope and dynamic, through generic addresses too") {
  auto out = run<U32>(kernel(R"(
    .shared .align 4 .b8 own[128];
    mov.u32 %r1, own; mad.lo.u32 %r1, %lane, 4, %r1; st.shared.u32 [%r1], %lane;
    bar.sync 0;
    xor.b32 %r2, %lane, 31; mov.u64 %d1, own; cvta.shared.u64 %d1, %d1;
    mad.wide.u32 %d1, %r2, 4, %d1;
    ld.u32 %r3, [%d1]; mad.wide.u32 %d2, %lane, 4, %out; st.global.u32 [%d2], %r3;
    setp.eq.u32 %p1, %lane, 0;
    @!%p1 ret;
    st.shared.u32 [common], 7; st.shared.u32 [dynamic+60], 8;
    mov.u32 %r4, dynamic; ld.shared.u32 %r5, [%r4+60]; ld.shared.u32 %r6, [common];
    add.u32 %r5, %r5, %r6; st.global.u32 [%out], %r5;
    mov.u32 %r7, %dynamic_smem_size; st.global.u32 [%out+4], %r7;
    isspacep.shared %p2, %d1; isspacep.global %p3, %d1; selp.u32 %r8, 1, 0, %p2;
    @%p3 add.u32 %r8, %r8, 2; st.global.u32 [%out+8], %r8;
    cvta.to.shared.u64 %d3, %d1; ld.shared.u32 %r9, [%d3]; st.global.u32 [%out+12], %r9;)",
                             ".extern .shared .align 16 .b8 dynamic[];\n.shared .u32 common;\n"),
                      32, 32);
  CHECK(out[0] == 15);
  CHECK(out[1] == 64);
  CHECK(out[2] == 1);
  CHECK(out[3] == 31);
  CHECK(out[31] == 0);
  CHECK(out[10] == 21);
}

TEST_CASE("an array's element by a register: in the array's scalars, unsigned") {
  auto out = run<U32>(kernel(R"(
    .shared .b32 before[5]; .shared .v2 .b32 pairs[8]; .local .b32 own[8]; .local .b16 small[8];
    .reg .b16 %i; .reg .b64 %w;
    mov.u32 %r1, 3; cvt.u16.u32 %i, %r1; cvt.u64.u32 %w, %r1;
    ld.global.u32 %r2, table[%r1];         st.global.u32 [%out], %r2;
    ld.global.u32 %r2, table[%r1+1];       st.global.u32 [%out+4], %r2;
    ld.global.u32 %r2, table[%i];          st.global.u32 [%out+8], %r2;
    ld.global.u32 %r2, table[ %w + 0x2 ];  st.global.u32 [%out+12], %r2;
    ld.const.u16 %h1, words[%r1];          cvt.u32.u16 %r2, %h1; st.global.u32 [%out+16], %r2;
    mov.u64 %d1, table[%r1];               ld.u32 %r2, [%d1+4]; st.global.u32 [%out+20], %r2;
    mov.u32 %r3, before; st.shared.u32 before[%r1], 77;
    ld.shared.u32 %r2, [before+12];        st.global.u32 [%out+24], %r2;
    mov.u32 %r3, pairs; mov.u32 %r4, pairs[%r1]; sub.u32 %r2, %r4, %r3;
    st.global.u32 [%out+28], %r2;
    mov.u32 %r3, pairs; mov.u32 %r4, pairs[3]; sub.u32 %r2, %r4, %r3;
    st.global.u32 [%out+32], %r2;
    st.local.u32 own[%r1], 88;             ld.local.u32 %r2, [own+12]; st.global.u32 [%out+36], %r2;
    mov.u32 %r5, 0xffffffff;
    ld.global.u32 %r2, table[%r5+2];       st.global.u32 [%out+40], %r2;
    setp.ne.u32 %p1, %lane, 0; mov.u32 %r2, 5;
    @%p1 ld.global.u32 %r2, table[%r1];    st.global.u32 [%out+44], %r2;
    mul.lo.u32 %r6, %r1, 2;
    st.shared.u32 window[%r6], 99;         ld.shared.u32 %r2, [window+24]; st.global.u32 [%out+48], %r2;
  )",
                             ".global .u32 table[8] = {10, 11, 12, 13, 14, 15, 16, 17};\n"
                             ".const .u16 words[4] = {1, 2, 3, 4};\n"
                             ".extern .shared .align 4 .b32 window[];\n"),
                      1, 13);
  CHECK(out == std::vector<U32>{13, 14, 13, 15, 4, 14, 77, 12, 12, 88, 11, 5, 99});
}

TEST_CASE("local memory is each thread's own") {
  auto out = run<U32>(kernel(R"(
    .local .align 8 .b8 depot[16];
    .reg .b64 %SP, %SPL;
    mov.u64 %SPL, depot; cvta.local.u64 %SP, %SPL;
    add.u32 %r1, %lane, 100; st.u32 [%SP+4], %r1; st.local.u32 [%SPL+8], %lane;
    ld.local.u32 %r2, [depot+4]; ld.u32 %r3, [%SP+8]; add.u32 %r2, %r2, %r3;
    isspacep.local %p1, %SP; @%p1 add.u32 %r2, %r2, 1000;
    mad.wide.u32 %d2, %lane, 4, %out; st.global.u32 [%d2], %r2;)"),
                      40, 40);
  for (U32 i = 0; i < 40; ++i)
    CHECK(out[i] == 1100 + 2 * i);
}

TEST_CASE("parameters: vectors, structures, and through their address") {
  Harness h(kernel(R"(
    ld.param.v2.u32 {%r1, %r2}, [pair]; ld.param.u8 %r3, [bytes+2]; ld.param.s8 %r4, [bytes+3];
    mov.b64 %d1, bytes; ld.param.u16 %r5, [%d1+2];
    cvta.param.u64 %d2, %d1; ld.u8 %r6, [%d2+1];
    st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4}; st.global.v2.u32 [%out+16], {%r5, %r6};)",
                   "", ", .param .align 8 .b8 pair[8], .param .align 4 .b8 bytes[4]"));
  DevicePtr out = h.upload(std::vector<U32>(6));
  h.ok("k", shapeOf(1, 1), out, U64{0x500000004u}, U32{0xf7030201u});
  CHECK(h.download<U32>(out, 6) == std::vector<U32>{4, 5, 3, U32(-9), 0xf703u, 2});
}

TEST_CASE("special registers tell who and where a thread is") {
  Harness h(header + R"(.visible .entry k(.param .u64 out) {
    .reg .b32 %r<12>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [out];
    mov.u32 %r1, %ctaid.y; mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ctaid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    mov.u32 %r5, %ntid.x; mov.u32 %r6, %tid.y; mov.u32 %r7, %tid.x; mad.lo.u32 %r6, %r6, %r5, %r7;
    mad.lo.u32 %r4, %r4, 40, %r6;
    mul.wide.u32 %d2, %r4, 16; add.u64 %d1, %d1, %d2;
    mov.u32 %r8, %laneid; mov.u32 %r9, %warpid; mov.u32 %r10, %lanemask_lt; mov.u32 %r11, %nwarpid;
    st.global.v4.u32 [%d1], {%r8, %r9, %r10, %r11};
    ret; })");
  DevicePtr out = h.upload(std::vector<U32>(6 * 40 * 4));
  h.ok("k", {{3, 2, 1}, {8, 5, 1}, 0}, out);
  auto got = h.download<U32>(out, 6 * 40 * 4);
  for (U32 i = 0; i < 240; ++i) {
    U32 lane = i % 40 % 32;
    CHECK(got[4 * i] == lane);
    CHECK(got[4 * i + 1] == i % 40 / 32);
    CHECK(got[4 * i + 2] == (1u << lane) - 1);
    CHECK(got[4 * i + 3] == 2);
  }
}

TEST_CASE("cp.async has copied by the time one can look") {
  auto out = run<U32>(kernel(R"(
    .shared .align 16 .b8 buffer[32];
    st.global.u32 [%out], 5; st.global.u32 [%out+4], 6; st.global.u32 [%out+8], 7;
    mov.u32 %r1, buffer; mov.u32 %r2, 4;
    cp.async.ca.shared.global [%r1], [%out], 8;
    cp.async.cg.shared.global [%r1+16], [%out], 16, %r2;
    cp.async.commit_group; cp.async.wait_group 0;
    ld.shared.u32 %r3, [%r1+4]; ld.shared.v2.u32 {%r4, %r5}, [%r1+16];
    st.global.u32 [%out+12], %r3; st.global.v2.u32 [%out+16], {%r4, %r5};)"),
                      1, 6);
  CHECK(out == std::vector<U32>{5, 6, 7, 6, 5, 0});
}

TEST_CASE("wrong accesses are faults that name the line, the block and the thread") {
  Fault fault =
      faultOf(kernel("mad.wide.u32 %d1, %lane, 4, %out;\nst.global.u32 [%d1], %lane;"), 20);
  CHECK(fault.kind == FaultKind::OutOfBounds);
  CHECK(fault.line == 10);
  CHECK(fault.block == Dim3{0, 0, 0});
  CHECK(fault.thread == Dim3{16, 0, 0});
  CHECK(fault.message.find("out-of-bounds global write of 4 bytes") == 0);
  CHECK(fault.message.find("(byte 64 of the allocation at") != std::string::npos);
  CHECK(fault.message.find("line 10 of k by block (0, 0, 0), thread (16, 0, 0): st.global.u32") !=
        std::string::npos);

  CHECK(faultOf(kernel("ld.global.u32 %r1, [%out+2];")).kind == FaultKind::Misaligned);
  CHECK(faultOf(kernel("ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%out+8];")).kind ==
        FaultKind::Misaligned);
  CHECK(faultOf(kernel("mov.u64 %d1, 0; ld.u32 %r1, [%d1];")).kind == FaultKind::OutOfBounds);
  CHECK(faultOf(kernel("ld.global.u32 %r1, [%out+-4];")).kind == FaultKind::OutOfBounds);
  CHECK(faultOf(kernel("mov.u32 %r1, 64; ld.shared.u32 %r1, [%r1];")).kind ==
        FaultKind::OutOfBounds);
  CHECK(faultOf(kernel("mov.u32 %r1, -4; ld.shared.u32 %r1, [%r1];")).kind ==
        FaultKind::OutOfBounds);
  CHECK(faultOf(kernel(".local .b8 depot[8]; st.local.u32 [depot+16], 1;")).kind ==
        FaultKind::OutOfBounds);
  CHECK(faultOf(kernel("mov.b64 %d1, out; cvta.param.u64 %d1, %d1; st.u32 [%d1], 1;")).kind ==
        FaultKind::OutOfBounds);
  CHECK(faultOf(kernel("atom.global.add.u32 %r1, [%out+64], 1;")).kind == FaultKind::OutOfBounds);
}

TEST_CASE("freed memory is out of bounds") {
  Harness h(kernel("st.global.u32 [%out], 1;"));
  DevicePtr out = *h.machine.allocate(64);
  h.ok("k", shapeOf(1, 1), out);
  REQUIRE(bool(h.machine.free(out)));
  auto fault = h.run("k", shapeOf(1, 1), {}, out);
  REQUIRE(fault);
  CHECK(fault->kind == FaultKind::OutOfBounds);
}

TEST_CASE("unwritten memory shows a pattern") {
  Harness h(kernel(".shared .u32 s; ld.shared.u32 %r1, [s]; st.global.u32 [%out], %r1;"));
  DevicePtr out = *h.machine.allocate(8);
  h.ok("k", shapeOf(1, 1), out);
  CHECK(h.download<U32>(out, 2) == std::vector<U32>{0xa5a5a5a5u, 0xa5a5a5a5u});
}

TEST_CASE("an index that ptxas refuses has no address") {
  for (const char *load : {"ld.global.u32 %r1, single[%lane];", "ld.param.u32 %r1, out[%lane];",
                           "ld.global.u32 %r1, table[%lane*2];"})
    CHECK(faultOf(kernel(load, ".global .u32 single; .global .u32 table[4];\n"))
              .message.find("is no address") != std::string::npos);
}

TEST_CASE("what is lacking is named when it is reached, not before") {
  Harness h(kernel("setp.eq.u32 %p1, %lane, 9;\n@%p1 frobnicate.b32 %r1, %r2;"));
  DevicePtr out = h.upload(std::vector<U32>(4));
  h.ok("k", shapeOf(1, 8), out);
  auto fault = h.run("k", shapeOf(1, 32), {}, out);
  REQUIRE(fault);
  CHECK(fault->kind == FaultKind::Unimplemented);
  CHECK(fault->thread == Dim3{9, 0, 0});
  CHECK(fault->message.find("@%p1 frobnicate.b32 %r1, %r2;") != std::string::npos);
}

TEST_CASE("a launch that does not fit the kernel is a fault of its own") {
  Harness h(header + ".visible .entry k(.param .u64 out) .reqntid 32, 2, 1 { ret; }");
  auto complaint = [&](const char *name, const LaunchShape &shape, auto... args) {
    auto fault = h.run(name, shape, {}, args...);
    REQUIRE(fault);
    CHECK(fault->kind == FaultKind::BadLaunch);
    return fault->message;
  };
  CHECK(complaint("nobody", shapeOf(1, 1), U64{0}) == "no kernel nobody in the module");
  CHECK(complaint("k", {{1, 1, 1}, {64, 1, 1}, 0}, U64{0}) ==
        "launching k: the block is not the one that .reqntid demands");
  CHECK(complaint("k", {{1, 1, 1}, {32, 3, 1}, 0}, U64{0}).find("96 threads") != std::string::npos);
  CHECK(complaint("k", {{1, 1, 1}, {32, 2, 1}, 0}) ==
        "launching k: 0 bytes of parameters where it takes 8");
  CHECK(complaint("k", {{0, 1, 1}, {32, 2, 1}, 0}, U64{0}).find("extent") != std::string::npos);
  CHECK(complaint("k", {{1, 1, 1}, {32, 2, 1}, 300000}, U64{0}).find("shared") !=
        std::string::npos);
  h.ok("k", {{1, 1, 1}, {32, 2, 1}, 0}, U64{0});
  auto info = kernelInfo(*h.program, "k");
  REQUIRE(bool(info));
  CHECK(info->parameterBytes == 8);
  CHECK(info->maxThreadsPerBlock == 64);
  CHECK_FALSE(bool(kernelInfo(*h.program, "nobody")));
}
