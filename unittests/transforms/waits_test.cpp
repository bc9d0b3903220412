// Loops that wait for other blocks, and loops that only look like it.
#include "kernels.h"

using namespace tally;
using namespace tally::ptx;

namespace {

bundle::Waits waitsOf(std::string_view body, std::string_view before = "") {
  Module module = parsed(moduleWith(body, before));
  ModuleFacts facts(module);
  return analyzeKernel(facts, *module.function("k"), everyKind).waits;
}

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

TEST_CASE("a spin of scope .cta waits for the own block alone") {
  for (const char *load :
       {"ld.acquire.cta", "ld.relaxed.cta.global", "atom.or.acq_rel.cta.global"}) {
    bool isAtom = load[0] == 'a';
    std::string loop = pointer + "L: " + load + ".b32 %r1,[%rd1]" + (isAtom ? ",0" : "") +
                       "; setp.eq.u32 %p1,%r1,0; @%p1 bra L; ret;";
    CHECK(reasonsOf(loop) == none);
    CHECK(waitsOf(loop) == bundle::Waits::OwnBlock);
  }
  // A fence of the whole GPU suggests that other blocks write the word too.
  CHECK(reasonsOf(pointer + "L: membar.gl; ld.relaxed.cta.global.u32 %r1,[%rd1];"
                            "setp.eq.u32 %p1,%r1,0; @%p1 bra L; ret;") == waits);
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
  // Every exit leads past the count, so plain post-dominance would not tie the count to the flag.
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
  // The copy precedes the comparison, so the comparison no longer tells whether the cas succeeded.
  CHECK(reasonsOf(first + body +
                  "mov.u64 %rd2,%rd4; setp.ne.s64 %p1,%rd2,%rd4; @%p1 bra L; ret;") == waits);
  // The loop ends when the cas fails, and repeats when it succeeds.
  CHECK(reasonsOf(first + body +
                  "setp.eq.s64 %p1,%rd2,%rd4; mov.u64 %rd2,%rd4; @%p1 bra L; ret;") == waits);
  // Compared as floats, equal does not mean exchanged.
  CHECK(reasonsOf(first + body +
                  "setp.neu.f64 %p1,%rd2,%rd4; mov.u64 %rd2,%rd4; @%p1 bra L; ret;") == waits);
  // The address moves along.
  CHECK(reasonsOf(first + body +
                  "setp.ne.s64 %p1,%rd2,%rd4; mov.u64 %rd2,%rd4; add.u64 %rd1,%rd1,8; @%p1 bra L;"
                  "ret;") == waits);
  // The loop waits until the value is 3, by a cas.
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
  // The spin at A leads to B, which is inside of the loop; only the count leads out.
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
  // The loop loads, and the callee sleeps or fences.
  CHECK(reasonsOf(pointer + poll + "call.uni f; bra L;", ".func f() { nanosleep.u32 20; ret; }") ==
        waits);
  CHECK(reasonsOf(pointer + poll + "call.uni f; bra L;", ".func f() { membar.gl; ret; }") == waits);
  // The callee loads, and the loop fences.
  CHECK(reasonsOf(pointer + call + "membar.gl; bra L;", read) == waits);
  // There is no fence: a plain load alone is no poll.
  CHECK(reasonsOf(pointer + poll + "call.uni f; bra L;", ".func f() { ret; }") == none);
  CHECK(reasonsOf(pointer + call + "bra L;", read) == none);
}

TEST_CASE("calls in a loop are followed like loads") {
  const char *add = ".func (.reg .u32 %o) f(.reg .u64 %a) { atom.add.u32 %o,[%a],1; ret; }";
  // The loop counts by itself, and the call's result does not matter.
  CHECK(reasonsOf(pointer + "mov.u32 %r2,0; L: call.uni (%r1), f, (%rd1); add.u32 %r2,%r2,1;"
                            "setp.lt.u32 %p1,%r2,10; @%p1 bra L; ret;",
                  add) == none);
  // The call's result decides, through a register or through memory.
  CHECK(reasonsOf(pointer + "L: call.uni (%r1), f, (%rd1); setp.lt.u32 %p1,%r1,10; @%p1 bra L;"
                            "ret;",
                  add) == waits);
  CHECK(reasonsOf(pointer + ".local .b32 v; L: call.uni (%r1), f, (%rd1); ld.local.u32 %r2,[v];"
                            "setp.lt.u32 %p1,%r2,10; @%p1 bra L; ret;",
                  add) == waits);
}

TEST_CASE("a retry that a later turn ends, which finds what was stored") {
  // `test` compares the value that the cas found, %r4 or %f4, with the stored value, %r3 or %f3.
  auto raising = [](const std::string &test, const std::string &before = "",
                    const std::string &after = "") {
    return pointer + "ld.global.f32 %f3,[%rd1+64]; mov.b32 %r3,%f3; ld.global.u32 %r2,[%rd1];" +
           before + "L: atom.global.cas.b32 %r4,[%rd1],%r2,%r3; mov.b32 %f4,%r4; mov.u32 %r2,%r4;" +
           test + "@%p1 bra L;" + after + "ret;";
  };
  for (const char *test :
       {"setp.lt.f32 %p1,%f4,%f3;", "setp.gtu.f32 %p1,%f3,%f4;", "setp.gt.ftz.f32 %p1,%f3,%f4;",
        "setp.ne.f32 %p1,%f3,%f4;", "setp.lt.s32 %p1,%r4,%r3;", "setp.hi.u32 %p1,%r3,%r4;",
        "setp.geu.f32 %p2,%f4,%f3; not.pred %p1,%p2;", "setp.ge.s32 %p2,%r4,%r3; not.pred %p1,%p2;",
        // Another condition may end the loop earlier.
        "setp.lt.s32 %p2,%r4,%r3; setp.lt.s32 %p3,%r4,9; and.pred %p1,%p2,%p3;"}) {
    CAPTURE(test);
    CHECK(reasonsOf(raising(test)) == none);
  }
  for (const char *test :
       {// True for the stored value, or for another value.
        "setp.le.f32 %p1,%f4,%f3;", "setp.eq.s32 %p1,%r4,%r3;", "setp.gt.u32 %p1,%r4,9;",
        "setp.lt.s32 %p1,%r4,%r5;", "setp.lt.f32 %p1,%f4,%f5;",
        "setp.ltu.f32 %p2,%f4,%f3; not.pred %p1,%p2;",
        // True for a part of the value only.
        "setp.lt.s16 %p1,%r4,%r3;", "setp.lt.f16x2 %p1|%p2,%r4,%r3;",
        // Either condition is enough to repeat.
        "setp.lt.s32 %p2,%r4,%r3; setp.ne.s32 %p3,%r4,9; or.pred %p1,%p2,%p3;",
        // For a NaN only the flag ends the loop.
        "setp.ltu.f32 %p2,%f4,%f3; setp.ne.s32 %p3,%r4,9; and.pred %p1,%p2,%p3;",
        "setp.eq.s32 %p3,%r4,9; @%p3 ret; setp.ltu.f32 %p1,%f4,%f3;"}) {
    CAPTURE(test);
    CHECK(reasonsOf(raising(test)) == waits);
  }
  // An ordered or an integer comparison ends the loop in any case, so the loop does not wait for
  // the other exit.
  CHECK(reasonsOf(raising("setp.eq.s32 %p3,%r4,9; @%p3 ret; setp.lt.f32 %p1,%f4,%f3;")) == none);
  CHECK(reasonsOf(raising("setp.eq.s32 %p3,%r4,9; @%p3 ret; setp.lt.s32 %p1,%r4,%r3;")) == none);
  // The code overwrites the found value before it tests it.
  CHECK(reasonsOf(raising("mov.u32 %r4,%r5; setp.lt.s32 %p1,%r4,%r3;")) == waits);
  // The stored value differs from that of the previous turn, or is not the float that the test
  // compares with.
  CHECK(reasonsOf(raising("setp.lt.s32 %p1,%r4,%r3; add.u32 %r3,%r3,1;")) == waits);
  CHECK(reasonsOf(raising("setp.lt.f32 %p1,%f4,%f3; mov.f32 %f3,%f5;")) == waits);
  CHECK(reasonsOf(raising("setp.lt.f32 %p1,%f4,%f3;", "mov.f32 %f3,%f5;")) == waits);
  CHECK(reasonsOf(raising("setp.lt.f32 %p1,%f4,%f3;", "@%p4 mov.b32 %r3,%r6;")) == waits);
  // The same holds where an outer loop advances the float, unless it copies the float anew.
  auto around = [](const std::string &once, const std::string &inEach) {
    return pointer + "ld.global.f32 %f3,[%rd1+64]; ld.global.u32 %r2,[%rd1];" + once +
           "O: add.u32 %r9,%r9,1;" + inEach +
           "L: atom.global.cas.b32 %r4,[%rd1],%r2,%r3; mov.b32 %f4,%r4; mov.u32 %r2,%r4;"
           "setp.lt.f32 %p1,%f4,%f3; @%p1 bra L; add.f32 %f3,%f3,%f3; setp.lt.u32 %p5,%r9,4;"
           "@%p5 bra O; ret;";
  };
  CHECK(reasonsOf(around("", "mov.b32 %r3,%f3;")) == none);
  CHECK(reasonsOf(around("mov.b32 %r3,%f3;", "")) == waits);
}

TEST_CASE("a retry whose comparand is not what was seen last waits for the old value") {
  std::string loop = pointer + "ld.global.u32 %r2,[%rd1]; setp.eq.u32 %p4,%r9,0;"
                               "L: add.u32 %r3,%r2,7; atom.global.cas.b32 %r4,[%rd1],%r2,%r3;"
                               "setp.eq.s32 %p1,%r2,%r4; @%p1 ret;";
  CHECK(reasonsOf(loop + "mov.u32 %r2,%r4; bra L;") == none);
  CHECK(reasonsOf(loop + "@%p4 bra M; mov.u32 %r2,%r4; bra L; M: mov.u32 %r2,%r4; bra L;") == none);
  CHECK(reasonsOf(loop + "@%p4 bra L; mov.u32 %r2,%r4; bra L;") == waits);
  CHECK(reasonsOf(loop + "@%p4 mov.u32 %r2,%r4; bra L;") == waits);
  CHECK(reasonsOf(loop + "mov.u32 %r2,%r5; mov.u32 %r5,%r4; bra L;") == waits);
}

TEST_CASE("a retry's address is computed in the loop") {
  auto at = [](const std::string &address, const std::string &rest = "") {
    return pointer + "ld.global.u32 %r2,[%rd1];" + "L:" + address +
           "add.u32 %r3,%r2,7; atom.global.cas.b32 %r4,[%rd2],%r2,%r3; setp.ne.s32 %p1,%r2,%r4;"
           "mov.u32 %r2,%r4;" +
           rest + "@%p1 bra L; ret;";
  };
  CHECK(reasonsOf(at("add.s64 %rd2,%rd1,8;")) == none);
  CHECK(reasonsOf(at("mul.wide.u32 %rd3,%r9,4; add.s64 %rd2,%rd1,%rd3;")) == none);
  CHECK(reasonsOf(at("@%p4 add.s64 %rd2,%rd1,8;")) == waits);
  CHECK(reasonsOf(at("add.s64 %rd2,%rd2,8;")) == waits);
  CHECK(reasonsOf(at("mul.wide.u32 %rd3,%r2,4; add.s64 %rd2,%rd1,%rd3;")) == waits);
  CHECK(reasonsOf(at("add.s64 %rd2,%rd3,8;", "add.s64 %rd3,%rd3,8;")) == waits);
  CHECK(reasonsOf(at("add.s64 %rd2,%rd1,8;", "add.s64 %rd2,%rd1,16;")) == waits);
  CHECK(reasonsOf(at("ld.global.u64 %rd2,[%rd1+64];")) == waits);
  // Assigned after the cas, the register has another value in the first turn.
  CHECK(reasonsOf(at("", "add.s64 %rd2,%rd1,8;")) == waits);
}

TEST_CASE("retries in other codings") {
  std::string reload = pointer + "L: ld.volatile.global.u32 %r1,[%rd1]; add.u32 %r2,%r1,7;"
                                 "atom.global.cas.b32 %r3,[%rd1],%r1,%r2;";
  CHECK(reasonsOf(reload + "setp.ne.s32 %p1,%r3,%r1; @%p1 bra L; ret;") == none);
  // The predicate is copied and inverted before the branch, as in code without optimisation.
  CHECK(reasonsOf(reload + "mov.u32 %r5,%r3; bra.uni M; M: setp.eq.s32 %p1,%r1,%r5;"
                           "not.pred %p2,%p1; @%p2 bra L; ret;") == none);
  CHECK(reasonsOf(reload + "mov.u32 %r5,%r3; bra.uni M; M: setp.eq.s32 %p1,%r1,%r5;"
                           "not.pred %p2,%p1; @!%p2 bra L; ret;") == waits);
  // The value comes from another word, or the loop waits for it.
  CHECK(reasonsOf(pointer + "L: ld.volatile.global.u32 %r1,[%rd1+4]; add.u32 %r2,%r1,7;"
                            "atom.global.cas.b32 %r3,[%rd1],%r1,%r2;"
                            "setp.ne.s32 %p1,%r3,%r1; @%p1 bra L; ret;") == waits);
  CHECK(reasonsOf(reload + "setp.ne.s32 %p1,%r3,%r1; @%p1 bra L; setp.ne.s32 %p2,%r1,5;"
                           "@%p2 bra L; ret;") == waits);
  // Another write of the loop keeps the cas from succeeding.
  CHECK(reasonsOf(reload + "st.global.u32 [%rd1],%r2; setp.ne.s32 %p1,%r3,%r1; @%p1 bra L; ret;") ==
        waits);
}

TEST_CASE("claims in other codings") {
  // `step` stands between the claim and the next turn.
  auto probing = [](const std::string &step, const char *rest = "ret;") {
    return pointer + "mov.u32 %r2,-1; L: atom.global.cas.b32 %r1,[%rd1],%r2,5;" + step + rest;
  };
  std::string on = "add.u64 %rd1,%rd1,8; @%p1 bra L;";
  CHECK(reasonsOf(probing("setp.ne.s32 %p1,%r1,-1;" + on)) == none);
  CHECK(waitsOf(probing("setp.ne.s32 %p1,%r1,-1;" + on)) == bundle::Waits::None);
  CHECK(reasonsOf(probing("setp.ne.b32 %p1,%r2,%r1;" + on)) == none);
  CHECK(reasonsOf(probing("setp.eq.s32 %p2,%r1,-1; not.pred %p1,%p2;" + on)) == none);
  CHECK(reasonsOf(probing("setp.ne.s32 %p1,%r1,-1; setp.ne.s32 %p2,%r1,5; and.pred %p1,%p1,%p2;" +
                          on)) == none);
  CHECK(reasonsOf(probing("setp.eq.s32 %p1,%r1,-1; setp.eq.s32 %p2,%r1,5; or.pred %p1,%p1,%p2;"
                          "@%p1 bra M; add.u64 %rd1,%rd1,8; bra L; M: ret;",
                          "")) == none);
  // The loop also repeats after a success: either condition is enough, or the test is another.
  CHECK(reasonsOf(probing("setp.ne.s32 %p1,%r1,-1; setp.ne.s32 %p2,%r1,5; or.pred %p1,%p1,%p2;" +
                          on)) == waits);
  CHECK(reasonsOf(probing("setp.eq.s32 %p1,%r1,-1; setp.eq.s32 %p2,%r1,5; and.pred %p1,%p1,%p2;"
                          "@%p1 bra M; add.u64 %rd1,%rd1,8; bra L; M: ret;",
                          "")) == waits);
  CHECK(reasonsOf(probing("setp.eq.s32 %p1,%r1,-1;" + on)) == waits);
  CHECK(reasonsOf(probing("setp.ne.s32 %p1,%r1,-2;" + on)) == waits);
  CHECK(reasonsOf(probing("setp.ne.s16 %p1,%r1,-1;" + on)) == waits);
  CHECK(reasonsOf(probing("setp.ne.f32 %p1,%r1,%r2;" + on)) == waits);
  CHECK(reasonsOf(probing("mov.u32 %r1,%r3; setp.ne.s32 %p1,%r1,-1;" + on)) == waits);
  // A lock that no code here releases.
  CHECK(reasonsOf(probing("setp.ne.s32 %p1,%r1,-1; @%p1 bra L;")) == waits);
  // The comparand is no constant.
  CHECK(reasonsOf(pointer +
                  "mov.u32 %r2,-1; @%p2 mov.u32 %r2,7;"
                  "L: atom.global.cas.b32 %r1,[%rd1],%r2,5;"
                  "setp.ne.s32 %p1,%r2,%r1;" +
                  on + "ret;") == waits);
  // Other writes, and their addresses.
  std::string rest = "setp.ne.s32 %p1,%r1,-1;" + on;
  CHECK(reasonsOf(probing(rest, "atom.global.exch.b32 %r3,[%rd1],7; ret;")) == waits);
  CHECK(reasonsOf(probing(rest, "atom.global.cas.b32 %r3,[%rd1],6,7; ret;")) == waits);
  CHECK(reasonsOf(probing(rest, "st.global.u32 [%rd1],-1; ret;")) == waits);
}

TEST_CASE("members of the elements that are claimed") {
  // Elements have `stride` bytes; the key lies at offset 0; `store` writes the value.
  auto table = [](const char *stride, const char *store) {
    return pointer + "L: mul.wide.u32 %rd2,%r2," + stride +
           "; add.s64 %rd3,%rd1,%rd2; add.u32 %r2,%r2,1;"
           "atom.global.cas.b32 %r1,[%rd3],0,5; setp.ne.s32 %p1,%r1,0; @%p1 bra L;" +
           store + " ret;";
  };
  CHECK(reasonsOf(table("8", "st.global.u32 [%rd3+4],0;")) == none);
  CHECK(reasonsOf(table("8", "atom.global.exch.b32 %r3,[%rd3+4],0;")) == none);
  CHECK(reasonsOf(table("24", "st.global.u32 [%rd3+4],0;")) == none);
  CHECK(reasonsOf(table("8", "shl.b32 %r3,%r4,3; cvt.u64.u32 %rd5,%r3; add.s64 %rd4,%rd5,%rd1;"
                             "st.global.u32 [%rd4+-4],0;")) == none);
  CHECK(reasonsOf(table("16", "mad.wide.u32 %rd4,%r4,16,%rd1; st.global.v2.u32 [%rd4+8],"
                              "{%r3,%r3};")) == none);
  CHECK(reasonsOf(table("16", "mad.wide.u32 %rd4,%r4,16,%rd1; st.global.v4.u32 [%rd4+8],"
                              "{%r3,%r3,%r3,%r3};")) == waits);
  CHECK(reasonsOf(table("8", "st.global.u32 [%rd3+8],0;")) == waits);
  CHECK(reasonsOf(table("8", "st.global.u64 [%rd3+4],%rd2;")) == waits);
  CHECK(reasonsOf(table("12", "st.global.u32 [%rd3+4],0;")) == waits);
  CHECK(reasonsOf(table("8", "mul.wide.u32 %rd5,%r4,4; add.s64 %rd4,%rd5,%rd1;"
                             "st.global.u32 [%rd4+4],0;")) == waits);
  CHECK(reasonsOf(table("8", "st.global.u32 [%rd3+2],0;")) == waits);
  // The other pointer may equal this one plus 4.
  CHECK(reasonsOf(table("8", "mov.u64 %rd4,g; st.volatile.global.u32 [%rd4+4],0;"),
                  ".global .b32 g[4];") == waits);
}

TEST_CASE("what is written to one state space is not read from another") {
  std::string count =
      pointer + ".shared .b32 v; .local .b32 w; L: atom.global.add.u32 %r1,[%rd1],1;";
  CHECK(reasonsOf(count + "st.local.u32 [w],%r1; ld.shared.u32 %r2,[v]; setp.ne.u32 %p1,%r2,10;"
                          "@%p1 bra L; ret;") == none);
  CHECK(reasonsOf(count + "st.shared.u32 [v],%r1; ld.shared.u32 %r2,[v]; setp.ne.u32 %p1,%r2,10;"
                          "@%p1 bra L; ret;") == waits);
  CHECK(reasonsOf(count + "st.shared.u32 [v],%r1; ld.u32 %r2,[%rd2]; setp.ne.u32 %p1,%r2,10;"
                          "@%p1 bra L; ret;") == waits);
  CHECK(reasonsOf(count + "st.u32 [%rd2],%r1; ld.local.u32 %r2,[w]; setp.ne.u32 %p1,%r2,10;"
                          "@%p1 bra L; ret;") == waits);
}

TEST_CASE("counters in other codings") {
  // `step` stands between the atomic and the branch that repeats on %p1.
  auto taking = [](const std::string &step, const char *rest = "ret;") {
    return pointer + ".shared .b32 v; .shared .b32 w[4]; L: atom.global.add.u32 %r1,[%rd1],1;" +
           step + "@%p1 bra L;" + rest;
  };
  CHECK(reasonsOf(taking("setp.lt.u32 %p1,%r1,%r9;")) == none);
  CHECK(waitsOf(taking("setp.lt.u32 %p1,%r1,%r9;")) == bundle::Waits::None);
  CHECK(reasonsOf(taking("setp.gt.u32 %p1,%r9,%r1;")) == none);
  CHECK(reasonsOf(taking("setp.ge.u32 %p2,%r1,%r9; not.pred %p1,%p2;")) == none);
  CHECK(reasonsOf(taking(
            "mad.lo.u32 %r2,%r1,4,%r8; sub.u32 %r3,%r2,7; setp.le.s32 %p1,%r3,%r9;")) == none);
  CHECK(reasonsOf(taking("setp.lt.u32 %p1,%r1,%r9; and.pred %p1,%p1,%p2;")) == waits);
  CHECK(reasonsOf(taking("setp.lt.u32 %p3,%r1,%r9; and.pred %p1,%p3,%p2;")) == none);
  CHECK(reasonsOf(taking("setp.lt.u32 %p3,%r1,%r9; or.pred %p1,%p3,%p2;")) == waits);
  CHECK(reasonsOf(taking("mov.u32 %r2,2; shfl.sync.idx.b32 %r2,%r1,0,31,-1;"
                         "setp.lt.u32 %p1,%r2,%r9;")) == waits);
  CHECK(reasonsOf(taking("shfl.sync.idx.b32 %r2,%r1,0,31,-1; setp.lt.u32 %p1,%r2,%r9;")) == none);
  // The inverted test, another number, a bound that changes, and a ticket that may be an old one.
  CHECK(reasonsOf(taking("setp.ge.u32 %p1,%r1,%r9;")) == waits);
  CHECK(reasonsOf(taking("setp.ne.u32 %p1,%r1,%r9;")) == waits);
  CHECK(reasonsOf(taking("sub.u32 %r2,%r8,%r1; setp.lt.u32 %p1,%r2,%r9;")) == waits);
  CHECK(reasonsOf(taking("and.b32 %r2,%r1,7; setp.lt.u32 %p1,%r2,%r9;")) == waits);
  CHECK(reasonsOf(taking("add.u32 %r9,%r9,1; setp.lt.u32 %p1,%r1,%r9;")) == waits);
  CHECK(reasonsOf(taking("@%p2 mov.u32 %r2,%r1; setp.lt.u32 %p1,%r2,%r9;")) == waits);
  CHECK(reasonsOf(taking("add.u32 %r2,%r2,%r1; sub.u32 %r2,%r2,%r1; setp.lt.u32 %p1,%r2,%r9;")) ==
        waits);
  // It polls, and counts nothing.
  CHECK(reasonsOf(pointer + "L: atom.global.add.u32 %r1,[%rd1],0; setp.lt.u32 %p1,%r1,%r9;"
                            "@%p1 bra L; ret;") == waits);
  // A turn that does not pass the branch, or the test.
  CHECK(reasonsOf(taking("setp.lt.u32 %p1,%r1,%r9; @%p4 bra L;")) == waits);
  CHECK(reasonsOf(taking("@%p4 bra L; setp.lt.u32 %p1,%r1,%r9;")) == waits);
  // Other writes to the word.
  for (const char *write :
       {"st.global.u32 [%rd1],0; ret;", "atom.global.exch.b32 %r3,[%rd1],0; ret;",
        "atom.global.add.u32 %r3,[%rd1],2; ret;", "red.global.add.s32 [%rd1],-1; ret;",
        "atom.global.add.u32 %r3,[%rd1],%r4; ret;"})
    CHECK(reasonsOf(taking("setp.lt.u32 %p1,%r1,%r9;", write)) == waits);
  CHECK(reasonsOf(taking("setp.lt.u32 %p1,%r1,%r9;", "red.global.add.u32 [%rd1],1; ret;")) == none);
  // Through shared memory.
  std::string shared = "st.shared.u32 [v],%r1; bar.sync 0; ld.shared.u32 %r2,[v];"
                       "setp.lt.u32 %p1,%r2,%r9;";
  CHECK(reasonsOf(taking(shared)) == none);
  CHECK(reasonsOf(taking("st.shared.u32 [w+12],%r3;" + shared)) == none);
  CHECK(reasonsOf(taking("st.shared.u32 [w+16],%r3;" + shared)) == waits);
  CHECK(reasonsOf(taking("st.shared.u32 [v],%r3;" + shared)) == waits);
  CHECK(reasonsOf(taking("st.shared.u32 [%r3],%r3;" + shared)) == waits);
  CHECK(reasonsOf(taking("st.u32 [%rd3],%r3;" + shared)) == waits);
  CHECK(reasonsOf(taking("atom.shared.exch.b32 %r3,[v],0;" + shared)) == waits);
  CHECK(reasonsOf(taking("cp.async.ca.shared.global [v],[%rd3],4;" + shared)) == waits);
  // A pipeline of asynchronous copies beside a ticket that stays in registers.
  CHECK(reasonsOf(taking("cp.async.ca.shared.global [w],[%rd3],4; cp.async.wait_all; bar.sync 0;"
                         "ld.shared.u32 %r3,[w]; setp.lt.u32 %p1,%r1,%r9;")) == none);
}

TEST_CASE("a pipeline of copies waits for nobody") {
  auto pipeline = [](const char *fill, const char *wait) {
    return ".shared .align 128 .b8 s[4096];" + pointer +
           "mov.u32 %r4,s; ld.param.u32 %r2,[n]; L: " + fill + wait +
           "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5},[%r4];"
           "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r6,%r7},{%r5,%r5},{%r5},{%r6,%r7};"
           "shfl.sync.idx.b32 %r8,%r6,0,31,-1; bar.sync 0; add.u64 %rd1,%rd1,16;"
           "sub.u32 %r2,%r2,1; setp.ne.u32 %p1,%r2,0; @%p1 bra L; st.global.u32 [%rd1],%r8; ret;";
  };
  CHECK(reasonsOf(pipeline("cp.async.cg.shared.global [%r4],[%rd1],16; cp.async.commit_group;",
                           "cp.async.wait_group 1; bar.sync 0;")) == none);
  CHECK_FALSE(reasonsOf(pipeline("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                                 " [%r4],[%rd1],16,[%r9];",
                                 "W: mbarrier.try_wait.parity.shared::cta.b64 %p2,[%r9],%r10;"
                                 "@!%p2 bra W; xor.b32 %r10,%r10,1;"))
                  .contains("waits-on-blocks"));
}

TEST_CASE("a spin by a register of the module waits") {
  CHECK(reasonsOf(pointer + "L: ld.volatile.global.u32 %word,[%rd1]; setp.eq.u32 %p1,%word,0;"
                            "@%p1 bra L; ret;",
                  ".reg .u32 %word;") == waits);
}
