// Loops that wait for other blocks, and loops that only look like it.
#include "kernels.h"

using namespace tally::ptx;

namespace {

const Codes none;
const Codes waits = {"waits-on-blocks"};
const std::string pointer = "ld.param.u64 %rd1,[p]; ";

} // namespace

TEST_CASE("a spin on a strong load waits") {
  for (const char *load : {"ld.volatile.global", "ld.acquire.gpu.global", "ld.relaxed.gpu",
                           "ld.volatile", "ld.global.cv", "ld.global.cg", "ld.mmio.relaxed.sys"})
    CHECK(reasonsOf(pointer + "L: " + load +
                    ".u32 %r1,[%rd1]; setp.eq.u32 %p1,%r1,0; @%p1 bra L; ret;") == waits);
}

TEST_CASE("a strong load of shared memory waits for nobody outside") {
  CHECK(reasonsOf(".shared .b32 s; L: ld.volatile.shared.u32 %r1,[s]; setp.eq.u32 %p1,%r1,0;"
                  "@%p1 bra L; ret;") == none);
}

TEST_CASE("a strong load in a loop that counts does not decide") {
  CHECK(reasonsOf(pointer + "mov.u32 %r2,0; L: ld.volatile.global.u32 %r1,[%rd1];"
                            "add.u32 %r2,%r2,1; setp.lt.u32 %p1,%r2,10; @%p1 bra L; ret;") == none);
}

TEST_CASE("a predicated ret out of the loop is a way out") {
  CHECK(reasonsOf(pointer + "L: ld.volatile.global.u32 %r1,[%rd1]; setp.ne.u32 %p1,%r1,0;"
                            "@%p1 ret; bra L;") == waits);
}

TEST_CASE("a decision carried by a constant assigned under a branch") {
  CHECK(reasonsOf(pointer + "mov.u32 %r2,0;\n"
                            "L: ld.volatile.global.u32 %r1,[%rd1]; setp.eq.u32 %p1,%r1,0;\n"
                            "@%p1 bra N; mov.u32 %r2,1;\n"
                            "N: setp.eq.u32 %p2,%r2,0; @%p2 bra L; ret;") == waits);
}

TEST_CASE("a decision carried through shared memory and a barrier") {
  CHECK(reasonsOf(".shared .b32 s;" + pointer +
                  "L: ld.volatile.global.u32 %r1,[%rd1]; st.shared.u32 [s],%r1; bar.sync 0;\n"
                  "ld.shared.u32 %r2,[s]; setp.eq.u32 %p1,%r2,0; @%p1 bra L; ret;")
            .contains("waits-on-blocks"));
}

TEST_CASE("a spin inside a loop that counts") {
  CHECK(reasonsOf(pointer + "mov.u32 %r2,0;\n"
                            "O: L: ld.volatile.global.u32 %r1,[%rd1]; setp.eq.u32 %p1,%r1,0;\n"
                            "@%p1 bra L; add.u32 %r2,%r2,1; setp.lt.u32 %p2,%r2,4; @%p2 bra O;\n"
                            "ret;") == waits);
}

TEST_CASE("a loop that counts only the turns that found the flag set") {
  // Every way out leads past the count, so plain post-dominance would not tie it to the flag.
  CHECK(reasonsOf(pointer + "mov.u32 %r2,0;\n"
                            "H: ld.volatile.global.u32 %r1,[%rd1]; setp.eq.u32 %p1,%r1,0;\n"
                            "@%p1 bra T; add.u32 %r2,%r2,1; setp.ge.u32 %p2,%r2,4; @%p2 bra E;\n"
                            "T: bra H; E: ret;") == waits);
}

TEST_CASE("work done on what a read says, in a loop that counts by itself") {
  CHECK(reasonsOf(pointer + "mov.u32 %r2,0;\n"
                            "H: atom.global.add.u32 %r1,[%rd1],1; setp.gt.u32 %p1,%r1,99;\n"
                            "@%p1 bra T; st.global.u32 [%rd1+8],%r2;\n"
                            "T: add.u32 %r2,%r2,1; setp.lt.u32 %p2,%r2,4; @%p2 bra H; ret;") ==
        none);
}

TEST_CASE("a plain load beside a fence may be a poll") {
  std::string loop = "ld.global.u32 %r1,[%rd1]; setp.eq.u32 %p1,%r1,0; @%p1 bra L; ret;";
  CHECK(reasonsOf(pointer + "L: membar.gl; " + loop) == waits);
  CHECK(reasonsOf(pointer + "L: nanosleep.u32 20; " + loop) == waits);
  CHECK(reasonsOf(pointer + "L: membar.cta; " + loop) == none);
}

TEST_CASE("a lock is no retry loop") {
  CHECK(reasonsOf(pointer + "L: atom.global.cas.b32 %r1,[%rd1],0,1; setp.ne.s32 %p1,%r1,0;"
                            "@%p1 bra L; ret;") == waits);
  // A constant comparand in a register is still a constant.
  CHECK(reasonsOf(pointer + "mov.u32 %r2,0; mov.u32 %r3,1;"
                            "L: atom.global.cas.b32 %r1,[%rd1],%r2,%r3; setp.ne.s32 %p1,%r1,%r2;"
                            "@%p1 bra L; ret;") == waits);
  CHECK(reasonsOf(pointer + "L: atom.global.exch.b32 %r1,[%rd1],1; setp.ne.s32 %p1,%r1,0;"
                            "@%p1 bra L; ret;") == waits);
}

TEST_CASE("the retry loop of an emulated atomic") {
  std::string first = pointer + "ld.global.u64 %rd2,[%rd1];\n";
  std::string body = "L: add.u64 %rd3,%rd2,7; atom.global.cas.b64 %rd4,[%rd1],%rd2,%rd3;\n";
  CHECK(reasonsOf(first + body +
                  "setp.ne.s64 %p1,%rd2,%rd4; mov.u64 %rd2,%rd4; @%p1 bra L; ret;") == none);
  // The copy before the comparison: the comparison no longer says whether it succeeded.
  CHECK(reasonsOf(first + body +
                  "mov.u64 %rd2,%rd4; setp.ne.s64 %p1,%rd2,%rd4; @%p1 bra L; ret;") == waits);
  // Leaves on failure, goes round on success.
  CHECK(reasonsOf(first + body +
                  "setp.eq.s64 %p1,%rd2,%rd4; mov.u64 %rd2,%rd4; @%p1 bra L; ret;") == waits);
  // Compared as floats, equal does not mean exchanged.
  CHECK(reasonsOf(first + body +
                  "setp.neu.f64 %p1,%rd2,%rd4; mov.u64 %rd2,%rd4; @%p1 bra L; ret;") == waits);
  // The address moves along.
  CHECK(reasonsOf(first + body +
                  "setp.ne.s64 %p1,%rd2,%rd4; mov.u64 %rd2,%rd4; add.u64 %rd1,%rd1,8; @%p1 bra L;"
                  "ret;") == waits);
  // Waits until the value is 3, by way of a cas.
  CHECK(reasonsOf(first + body + "setp.ne.s64 %p1,%rd4,3; mov.u64 %rd2,%rd4; @%p1 bra L; ret;") ==
        waits);
}

TEST_CASE("a retry loop that can go round past its cas") {
  CHECK(reasonsOf(pointer + "ld.global.u64 %rd2,[%rd1];\n"
                            "L: setp.eq.u64 %p2,%rd2,5; @%p2 bra L;\n"
                            "add.u64 %rd3,%rd2,7; atom.global.cas.b64 %rd4,[%rd1],%rd2,%rd3;\n"
                            "setp.ne.s64 %p1,%rd2,%rd4; mov.u64 %rd2,%rd4; @%p1 bra L; ret;") ==
        waits);
}

TEST_CASE("a retry loop with a second way out, as atomicMax of floats has it") {
  CHECK(reasonsOf(pointer + "ld.global.u32 %r2,[%rd1];\n"
                            "L: setp.gt.s32 %p2,%r2,9; @%p2 bra E;\n"
                            "atom.global.cas.b32 %r4,[%rd1],%r2,9;\n"
                            "setp.ne.s32 %p1,%r2,%r4; mov.u32 %r2,%r4; @%p1 bra L;\n"
                            "E: ret;") == none);
}

TEST_CASE("a called function that spins, and one that is asked again and again") {
  const char *spin = ".func f(.param .b64 a) { .reg .b64 %d; .reg .b32 %x; .reg .pred %q;"
                     "ld.param.u64 %d,[a]; L: ld.volatile.u32 %x,[%d]; setp.eq.u32 %q,%x,0;"
                     "@%q bra L; ret; }";
  CHECK(reasonsOf(pointer + "{ .param .b64 a; st.param.b64 [a],%rd1; call.uni f,(a); } ret;",
                  spin) == waits);
  const char *peek = ".func (.param .b32 v) f(.param .b64 a) { .reg .b64 %d; .reg .b32 %x;"
                     "ld.param.u64 %d,[a]; ld.volatile.u32 %x,[%d]; st.param.b32 [v],%x; ret; }";
  CHECK(reasonsOf(pointer + "L: { .param .b64 a; .param .b32 v; st.param.b64 [a],%rd1;"
                            "call.uni (v),f,(a); ld.param.b32 %r1,[v]; }"
                            "setp.eq.u32 %p1,%r1,0; @%p1 bra L; ret;",
                  peek) == waits);
}

TEST_CASE("a loop with two entries is judged by all its branches") {
  CHECK(reasonsOf(pointer + "mov.u32 %r3,%tid.x; setp.eq.u32 %p3,%r3,0; @%p3 bra B;\n"
                            "A: ld.volatile.global.u32 %r1,[%rd1];\n"
                            "B: setp.eq.u32 %p1,%r1,0; @%p1 bra A; ret;") == waits);
  // The spin at A leads to B, which is inside; only the count leads out.
  CHECK(reasonsOf(pointer + "mov.u32 %r2,0; mov.u32 %r3,%tid.x; setp.eq.u32 %p3,%r3,0;\n"
                            "@%p3 bra B;\n"
                            "A: ld.volatile.global.u32 %r1,[%rd1]; setp.eq.u32 %p1,%r1,0;\n"
                            "@%p1 bra A;\n"
                            "B: add.u32 %r2,%r2,1; setp.lt.u32 %p2,%r2,4; @%p2 bra A; ret;") ==
        waits);
}

TEST_CASE("a poll by a plain load, its fence or nap on the other side of a call") {
  const std::string poll = "L: ld.global.u32 %r1,[%rd1]; setp.eq.u32 %p1,%r1,0; @!%p1 ret;";
  const std::string read = ".func (.reg .u32 %o) f(.reg .u64 %a) {"
                           "ld.global.u32 %o,[%a]; ret; }";
  const std::string call = "L: call.uni (%r1), f, (%rd1); setp.eq.u32 %p1,%r1,0; @!%p1 ret;";
  // The loop loads, the callee naps or fences.
  CHECK(reasonsOf(pointer + poll + "call.uni f; bra L;", ".func f() { nanosleep.u32 20; ret; }") ==
        waits);
  CHECK(reasonsOf(pointer + poll + "call.uni f; bra L;", ".func f() { membar.gl; ret; }") == waits);
  // The callee loads, the loop fences.
  CHECK(reasonsOf(pointer + call + "membar.gl; bra L;", read) == waits);
  // Nobody fences: a plain load alone is no poll.
  CHECK(reasonsOf(pointer + poll + "call.uni f; bra L;", ".func f() { ret; }") == none);
  CHECK(reasonsOf(pointer + call + "bra L;", read) == none);
}
