// Branches, calls, returns, exits, traps and endless loops.
#include "harness.h"

using namespace tally;
using namespace tally::emulator;
using U32 = std::uint32_t;

namespace {

const std::string declarations =
    "\n.reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %d<8>; .reg .b64 %out;\n"
    ".reg .b32 %lane; ld.param.u64 %out, [out]; mov.u32 %lane, %tid.x;\n"
    "mad.wide.u32 %out, %lane, 4, %out;\n";

std::string kernel(const std::string &body, const std::string &before = "") {
  return header + before + ".visible .entry k(.param .u64 out)\n{" + declarations + body +
         "\nret;\n}\n";
}

std::vector<U32> run(const std::string &text, U32 threads, std::uint64_t seed = 0) {
  Harness h(text);
  DevicePtr out = h.upload(std::vector<U32>(threads, 99));
  auto fault = h.run("k", shapeOf(1, threads), {seed, 1}, out);
  REQUIRE_MESSAGE(!fault, fault->message);
  return h.download<U32>(out, threads);
}

std::optional<Fault> faultOf(const std::string &text, U32 threads) {
  Harness h(text);
  h.machine.setStepLimit(1u << 20);
  return h.run("k", shapeOf(1, threads), {}, h.upload(std::vector<U32>(threads)));
}

} // namespace

TEST_CASE("labels belong to their scope, registers may be shadowed") {
  auto out = run(kernel(R"(
    mov.u32 %r1, 5;
    { .reg .b32 %r<2>; mov.u32 %r1, 6; bra again; mov.u32 %r1, 7; again: }
    { bra again; add.u32 %r1, %r1, 100; again: add.u32 %r1, %r1, 1; }
    st.global.u32 [%out], %r1;)"),
                 1);
  CHECK(out[0] == 6);
}

TEST_CASE("lanes of a warp in different functions keep their own registers") {
  // The 64-bit registers of one function lie at the offsets of the other function's 32-bit
  // registers.
  const std::string functions = R"(
.func (.param .b32 r) wide(.param .b32 a)
{ .reg .b32 %x; .reg .b64 %w<4>; .reg .b32 %n; .reg .pred %p;
  ld.param.b32 %x, [a]; mul.wide.u32 %w0, %x, 1000; mul.wide.u32 %w1, %x, 77;
  mov.u32 %n, 0;
again: add.u64 %w0, %w0, %w1; add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 9; @%p bra again;
  cvt.u32.u64 %x, %w0; st.param.b32 [r], %x; ret; }
.func (.param .b32 r) narrow(.param .b32 a)
{ .reg .b32 %x<8>; .reg .pred %p;
  ld.param.b32 %x0, [a]; mov.u32 %x1, 1; mov.u32 %x2, 2; mov.u32 %x3, 3; mov.u32 %x4, 4;
  mov.u32 %x5, 0;
again: add.u32 %x0, %x0, %x1; add.u32 %x0, %x0, %x2; add.u32 %x0, %x0, %x3;
  add.u32 %x0, %x0, %x4; add.u32 %x5, %x5, 1; setp.lt.u32 %p, %x5, 9; @%p bra again;
  st.param.b32 [r], %x0; ret; }
)";
  const std::string text = kernel(R"(
    and.b32 %r1, %lane, 1; setp.eq.u32 %p1, %r1, 0;
    @%p1 bra even;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %lane; call (b), wide, (a);
      ld.param.b32 %r2, [b]; }
    bra done;
even:
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %lane; call (b), narrow, (a);
      ld.param.b32 %r2, [b]; }
done:
    st.global.u32 [%out], %r2;)",
                                  functions);
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    auto out = run(text, 32, seed);
    for (U32 lane = 0; lane < 32; ++lane)
      CHECK(out[lane] == (lane % 2 ? lane * 1000 + 9 * 77 * lane : lane + 90));
  }
}

TEST_CASE("brx.idx sends every lane to its own target") {
  const std::string text = kernel(R"(
    targets: .branchtargets zero, one, two;
    rem.u32 %r1, %lane, 3;
    brx.idx %r1, targets;
    zero: mov.u32 %r2, 10; bra.uni join;
    one: mov.u32 %r2, 11; bra.uni join;
    two: mov.u32 %r2, 12;
    join: st.global.u32 [%out], %r2;)");
  for (std::uint64_t seed : {0, 7}) {
    auto out = run(text, 32, seed);
    for (U32 i = 0; i < 32; ++i)
      CHECK(out[i] == 10 + i % 3);
  }
}

TEST_CASE("predicated ret and exit end only their lanes") {
  auto out = run(kernel(R"(
    setp.lt.u32 %p1, %lane, 4; setp.gt.u32 %p2, %lane, 8;
    @%p1 ret;
    st.global.u32 [%out], 1;
    @%p2 exit;
    st.global.u32 [%out], 2;)"),
                 12);
  CHECK(out == std::vector<U32>{99, 99, 99, 99, 2, 2, 2, 2, 2, 1, 1, 1});
}

TEST_CASE("a recursive function whose depth differs by lane") {
  const std::string factorial = R"(
.func (.param .b32 result) factorial(.param .b32 n)
{
  .reg .pred %p<2>; .reg .b32 %r<5>;
  ld.param.u32 %r1, [n];
  mov.u32 %r2, 1;
  setp.lt.u32 %p1, %r1, 2;
  @%p1 bra done;
  sub.u32 %r3, %r1, 1;
  {
    .param .b32 argument; .param .b32 value;
    st.param.b32 [argument], %r3;
    call.uni (value), factorial, (argument);
    ld.param.b32 %r4, [value];
  }
  mul.lo.u32 %r2, %r1, %r4;
done:
  st.param.b32 [result], %r2;
  ret;
}
)";
  const std::string text = kernel(R"(
    and.b32 %r1, %lane, 7;
    { .param .b32 a; .param .b32 v; st.param.b32 [a], %r1; call (v), factorial, (a);
      ld.param.b32 %r2, [v]; }
    st.global.u32 [%out], %r2;)",
                                  factorial);
  const U32 expected[] = {1, 1, 2, 6, 24, 120, 720, 5040};
  for (std::uint64_t seed : {0, 1, 2}) {
    auto out = run(text, 64, seed);
    for (U32 i = 0; i < 64; ++i)
      CHECK(out[i] == expected[i % 8]);
  }
}

TEST_CASE("endless recursion is a fault") {
  auto fault = faultOf(kernel("call f;", ".func f() { call f; ret; }\n"), 1);
  REQUIRE(fault);
  CHECK(fault->kind == FaultKind::Trap);
  CHECK(fault->message.find("stack overflow") == 0);
}

TEST_CASE("indirect calls go through tables, each lane to its own callee") {
  const std::string functions = R"(
.func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %r<2>; ld.param.u32 %r1, [x];
  add.u32 %r1, %r1, %r1; st.param.u32 [r], %r1; ret; }
.func (.param .b32 r) square(.param .b32 x) { .reg .b32 %r<2>; ld.param.u32 %r1, [x];
  mul.lo.u32 %r1, %r1, %r1; st.param.u32 [r], %r1; ret; }
.global .align 8 .u64 table[2] = {twice, square};
)";
  const std::string text = kernel(R"(
    and.b32 %r1, %lane, 1;
    mov.u64 %d1, table; mad.wide.u32 %d1, %r1, 8, %d1; ld.global.u64 %d2, [%d1];
    { .param .b32 a; .param .b32 v; st.param.b32 [a], %lane;
      prototype: .callprototype (.param .b32 _) _ (.param .b32 _);
      call (v), %d2, (a), prototype;
      ld.param.b32 %r2, [v]; }
    st.global.u32 [%out], %r2;)",
                                  functions);
  for (std::uint64_t seed : {0, 3}) {
    auto out = run(text, 32, seed);
    for (U32 i = 0; i < 32; ++i)
      CHECK(out[i] == (i % 2 ? i * i : 2 * i));
  }
  auto fault = faultOf(kernel(R"(
    mov.u64 %d2, 4096;
    { prototype: .callprototype _ (); call %d2, (), prototype; })"),
                       1);
  REQUIRE(fault);
  CHECK(fault->kind == FaultKind::OutOfBounds);
}

TEST_CASE("functions take and give vector registers of every width") {
  const std::string functions = R"(
.func (.reg .v2 .u32 r) turn2(.reg .v2 .u32 a, .reg .b32 n)
{ .reg .b32 x, y; mov.u32 x, a.x; mov.u32 y, a.y; add.u32 x, x, n; mov.v2.u32 r, {y, x}; ret; }
.func (.reg .v4 .f32 r) turn4(.reg .v4 .f32 a)
{ .reg .f32 x, y, z, w; mov.f32 x, a.x; mov.f32 y, a.y; mov.f32 z, a.z; mov.f32 w, a.w;
  mov.v4.f32 r, {w, z, y, x}; ret; }
.func (.reg .v2 .u64 r) wide(.reg .v2 .u64 a)
{ .reg .b64 x, y; mov.u64 x, a.x; mov.u64 y, a.y; mov.v2.u64 r, {y, x}; ret; }
.func (.reg .v4 .b16 r) half(.reg .v4 .b16 a)
{ .reg .b16 x, y, z, w; mov.b16 x, a.x; mov.b16 y, a.y; mov.b16 z, a.z; mov.b16 w, a.w;
  mov.v4.b16 r, {w, z, y, x}; ret; }
)";
  // The first component of each result comes from the argument's last component.
  auto of = [&](const std::string &body) { return run(kernel(body, functions), 3); };
  CHECK(of(".reg .v2 .u32 v; mov.v2.u32 v, {%lane, 7}; call (v), turn2, (v, 10); mov.u32 %r1, v.x;"
           "mov.u32 %r2, v.y; mad.lo.u32 %r1, %r1, 1000, %r2; st.global.u32 [%out], %r1;") ==
        std::vector<U32>{7010, 7011, 7012});
  CHECK(of(".reg .v4 .f32 v; .reg .f32 a, b; cvt.rn.f32.u32 a, %lane;"
           "mov.v4.f32 v, {a, 0f3f800000, 0f40000000, 0f40400000}; call (v), turn4, (v);"
           "mov.f32 a, v.x; mov.f32 b, v.w; fma.rn.f32 a, a, 0f41200000, b;"
           "cvt.rni.u32.f32 %r1, a; st.global.u32 [%out], %r1;") == std::vector<U32>{30, 31, 32});
  CHECK(of(".reg .v2 .u64 v; cvt.u64.u32 %d1, %lane; mov.v2.u64 v, {%d1, 5}; call (v), wide, (v);"
           "mov.u64 %d1, v.x; mov.u64 %d2, v.y; mad.lo.u64 %d1, %d1, 10, %d2;"
           "st.global.u32 [%out], %d1;") == std::vector<U32>{50, 51, 52});
  CHECK(of(".reg .v4 .b16 v; .reg .b16 a, b; cvt.u16.u32 a, %lane; mov.b16 b, 6;"
           "mov.v4.b16 v, {a, b, b, b}; call (v), half, (v); mov.b16 a, v.x; mov.b16 b, v.w;"
           "mov.b32 %r1, {b, a}; st.global.u32 [%out], %r1;") ==
        std::vector<U32>{6 << 16, 6 << 16 | 1, 6 << 16 | 2});
}

TEST_CASE("a literal is an argument of the size and type that the function takes") {
  const std::string functions = R"(
.func (.reg .s64 r) same64(.reg .s64 a) { mov.s64 r, a; ret; }
.func (.reg .f64 r) same_double(.reg .f64 a) { mov.f64 r, a; ret; }
.func (.reg .f32 r) same_float(.reg .f32 a) { mov.f32 r, a; ret; }
.func (.param .b64 r) in_memory(.param .b64 a)
{ .reg .b64 x; ld.param.b64 x, [a]; st.param.b64 [r], x; ret; }
)";
  auto of = [&](const std::string &body) { return run(kernel(body, functions), 2); };
  auto both = [](U32 value) { return std::vector<U32>(2, value); };
  std::string sum = "shr.u64 %d2, %d1, 32; add.s64 %d1, %d1, %d2; st.global.u32 [%out], %d1;";
  CHECK(of("call (%d1), same64, (-5);" + sum) == both(U32(-6)));
  CHECK(of("call (%d1), same64, (0x300000004);" + sum) == both(7));
  CHECK(of("{ .param .b64 v; call (v), in_memory, (0x300000004); ld.param.b64 %d1, [v]; }" + sum) ==
        both(7));
  std::string three = ".reg .f64 e; .reg .f32 f;";
  std::string rounded = "cvt.rni.u32.f64 %r1, e; st.global.u32 [%out], %r1;";
  CHECK(of(three + "call (e), same_double, (3.0);" + rounded) == both(3));
  CHECK(of(three + "call (e), same_double, (0d4008000000000000);" + rounded) == both(3));
  CHECK(of(three + "call (f), same_float, (3.0); cvt.f64.f32 e, f;" + rounded) == both(3));
  CHECK(of(three + "call (f), same_float, (0f40400000); cvt.f64.f32 e, f;" + rounded) == both(3));
}

TEST_CASE("functions take and give registers, and several parameters of several sizes") {
  const std::string functions = R"(
.func (.reg .b32 sum) plus(.reg .b32 a, .reg .b32 b) { add.u32 sum, a, b; ret; }
.func (.param .align 8 .b8 r[16]) pair(.param .b64 x, .param .b32 y)
{ .reg .b64 %d<2>; .reg .b32 %r<2>; ld.param.u64 %d1, [x]; ld.param.u32 %r1, [y];
  st.param.b64 [r], %d1; st.param.b32 [r+8], %r1; ret; }
)";
  auto out = run(kernel(R"(
    call (%r1), plus, (%lane, 5);
    mov.u64 %d1, 300;
    { .param .b64 x; .param .b32 y; .param .align 8 .b8 v[16];
      st.param.b64 [x], %d1; st.param.b32 [y], %r1;
      call (v), pair, (x, y);
      ld.param.b64 %d2, [v]; ld.param.b32 %r2, [v+8]; }
    cvt.u32.u64 %r3, %d2; add.u32 %r2, %r2, %r3;
    st.global.u32 [%out], %r2;)",
                        functions),
                 4);
  CHECK(out == std::vector<U32>{305, 306, 307, 308});
}

TEST_CASE(
    "without a printer vprintf returns 0; trap, __assertfail and unknown callees are faults") {
  const std::string externals = ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 "
                                "a);\n.extern .func __assertfail(.param .b64 m, .param .b64 f, "
                                ".param .b32 l, .param .b64 n, .param .b64 s);\n"
                                ".extern .func (.param .b64 p) unknown(.param .b64 n);\n";
  auto out = run(kernel(R"(
    { .param .b64 f; .param .b64 a; .param .b32 v; mov.u64 %d1, 0;
      st.param.b64 [f], %d1; st.param.b64 [a], %d1; call.uni (v), vprintf, (f, a);
      ld.param.b32 %r1, [v]; }
    st.global.u32 [%out], %r1;)",
                        externals),
                 2);
  CHECK(out == std::vector<U32>{0, 0});
  auto fault = faultOf(kernel("setp.eq.u32 %p1, %lane, 3; @%p1 trap;"), 8);
  REQUIRE(fault);
  CHECK(fault->kind == FaultKind::Trap);
  CHECK(fault->thread == Dim3{3, 0, 0});
  fault = faultOf(kernel(R"({ .param .b64 m; .param .b32 l;
    call.uni __assertfail, (m, m, l, m, m); })",
                         externals),
                  1);
  REQUIRE(fault);
  CHECK(fault->kind == FaultKind::Assertion);
  CHECK(fault->message.find("__assertfail") != std::string::npos);
  fault =
      faultOf(kernel("{ .param .b64 n; .param .b64 p; call (p), unknown, (n); }", externals), 1);
  REQUIRE(fault);
  CHECK(fault->kind == FaultKind::Unimplemented);
  CHECK(fault->message.find("unknown has no body") != std::string::npos);
}

TEST_CASE("an endless loop ends at the step limit") {
  auto fault = faultOf(kernel("forever: bra.uni forever;"), 32);
  REQUIRE(fault);
  CHECK(fault->kind == FaultKind::StepLimit);
  CHECK(fault->message.find("bra.uni forever;") != std::string::npos);
}

TEST_CASE("an unknown label is an error of loading") {
  auto parsed = ptx::parse(header + ".entry k() { bra nowhere; }");
  if (auto *module = std::get_if<ptx::Module>(&parsed)) {
    Machine machine;
    auto loaded = machine.load(*module);
    REQUIRE_FALSE(bool(loaded));
    CHECK(loaded.error().message.find("nowhere") != std::string::npos);
  }
}

TEST_CASE("a lane that spins for another of its warp does not starve it") {
  // Lane 1 stores the flag on the path with the higher program counter.
  const std::string text = kernel(R"(
    .shared .u32 flag;
    setp.eq.u32 %p1, %lane, 0; @%p1 st.shared.u32 [flag], 0;
    bar.warp.sync 0xffffffff;
    setp.eq.u32 %p1, %lane, 1;
    @%p1 bra set;
    wait: ld.volatile.shared.u32 %r1, [flag]; setp.eq.u32 %p2, %r1, 0; @%p2 bra wait;
    bra.uni join;
    set: st.volatile.shared.u32 [flag], 1;
    join: st.global.u32 [%out], 7;)");
  for (std::uint64_t seed : {0, 1, 2})
    CHECK(run(text, 32, seed) == std::vector<U32>(32, 7));
}
