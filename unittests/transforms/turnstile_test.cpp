// Turnstiles, and kernels that differ from one in a single detail.
#include "kernels.h"

#include <optional>

using namespace tally;
using namespace tally::ptx;

namespace {

/// Returns the rank of grids in which the kernel waits for lower blocks alone; nothing when the
/// analysis refuses it.
std::optional<unsigned> rankOf(const std::string &body, std::string_view before = "") {
  Module module = parsed(moduleWith("ld.param.u64 %rd1,[p]; mov.u32 %r1,%ctaid.z;" + body, before));
  ModuleFacts facts(module);
  KernelAnalysis analysis = analyzeKernel(facts, *module.function("k"), everyKind);
  if (analysis.waits != bundle::Waits::LowerBlocks) {
    CHECK(analysis.waits == bundle::Waits::Unknown);
    CHECK(analysis.refusal(Kind::Slice));
    return std::nullopt;
  }
  CHECK_FALSE(analysis.refusal(Kind::Slice));
  return analysis.gridRank;
}

const std::string load = "ld.acquire.gpu.global.u32 %r2,[%rd1];";
const std::string wait = "L: " + load + "setp.ne.s32 %p1,%r2,%r1; @%p1 bra L;";
const std::string pass = "add.s32 %r3,%r1,1; st.release.gpu.global.u32 [%rd1],%r3; ret;";

} // namespace

TEST_CASE("a turnstile by each dimension") {
  CHECK(rankOf(wait + pass) == 3);
  CHECK(rankOf("mov.u32 %r1,%ctaid.x;" + wait + pass) == std::nullopt); // x or z
  std::string byRow = "mov.u32 %r4,%ctaid.y; L: " + load +
                      "setp.ne.s32 %p1,%r2,%r4; @%p1 bra L; add.s32 %r3,%r4,1;"
                      "st.release.gpu.global.u32 [%rd1],%r3; ret;";
  CHECK(rankOf(byRow) == 2);
  std::string byColumn = "L: " + load +
                         "setp.eq.u32 %p1,%r2,%ctaid.x; @!%p1 bra L;"
                         "mov.u32 %r4,%ctaid.x; add.s32 %r3,1,%r4;"
                         "st.release.gpu.global.u32 [%rd1],%r3; ret;";
  CHECK(rankOf(byColumn) == 1);
}

TEST_CASE("the way out, through a reduction over the block") {
  // The and, or its negation, of "different", or the or of "equal".
  for (const char *test :
       {"selp.u32 %r4,1,0,%p1; setp.ne.u32 %p2,%r4,0; bar.red.and.pred %p3,0,%p2;"
        "selp.u32 %r5,1,0,%p3; setp.eq.s32 %p4,%r5,0; @%p4 bra D; bra L; D: ",
        "bar.red.or.pred %p3,0,!%p1; @!%p3 bra L; ",
        "not.pred %p2,%p1; bar.red.or.pred %p3,0,%p2; @%p3 bra D; bra L; D: ",
        "selp.u32 %r4,0,1,%p1; setp.eq.u32 %p2,%r4,1;"
        "bar.red.or.pred %p3,0,%p2; @%p3 bra D; bra L; D: "})
    CHECK(rankOf("L: " + load + "setp.ne.s32 %p1,%r2,%r1;" + test + pass) == 3);
  // One sense turned round.
  for (const char *test : {"bar.red.or.pred %p3,0,%p1; @!%p3 bra L; ",
                           "selp.u32 %r4,0,1,%p1; setp.eq.u32 %p2,%r4,0;"
                           "bar.red.or.pred %p3,0,%p2; @%p3 bra D; bra L; D: ",
                           "bar.red.popc.u32 %r4,0,%p1; setp.eq.u32 %p2,%r4,0; @!%p2 bra L; "})
    CHECK(rankOf("L: " + load + "setp.ne.s32 %p1,%r2,%r1;" + test + pass) == std::nullopt);
}

TEST_CASE("the first thread asks, and each asks what it saw last") {
  CHECK(rankOf("mov.u32 %r2,-1; mov.u32 %r5,%tid.x; setp.ne.u32 %p5,%r5,0; bra T;\n"
               "F: " +
               load +
               "\nT: setp.ne.s32 %p1,%r2,%r1; bar.red.and.pred %p2,0,%p1;\n"
               "@!%p2 bra D; @%p5 bra T; bra F;\nD: " +
               pass) == 3);
  // In some turns the value is another one.
  CHECK(rankOf("mov.u32 %r2,-1; mov.u32 %r5,%tid.x; setp.ne.u32 %p5,%r5,0; bra T;\n"
               "F: " +
               load +
               "\nbra T;\nG: mov.u32 %r2,%r1;\n"
               "T: setp.ne.s32 %p1,%r2,%r1; bar.red.and.pred %p2,0,%p1;\n"
               "@!%p2 bra D; @%p5 bra G; bra F;\nD: " +
               pass) == std::nullopt);
}

TEST_CASE("what is awaited") {
  std::string after = "setp.ne.s32 %p1,%r2,%r4; @%p1 bra L;" + pass;
  CHECK(rankOf("add.s32 %r4,%r1,1; L: " + load + after) == std::nullopt); // the next turn
  CHECK(rankOf("sub.s32 %r4,%r1,1; L: " + load + after) == std::nullopt);
  CHECK(rankOf("ld.global.u32 %r4,[%rd1+64]; L: " + load + after) == std::nullopt);
  CHECK(rankOf("mov.u32 %r4,%nctaid.z; L: " + load + after) == std::nullopt);
  CHECK(rankOf("mov.u32 %r4,%ctaid.z; L: " + load + after) == 3);
  // The test is less-than, not equality: a later block would release the waiting block too.
  CHECK(rankOf("L: " + load + "setp.lt.s32 %p1,%r2,%r1; @%p1 bra L;" + pass) == std::nullopt);
  // Part of the word.
  CHECK(rankOf("L: " + load + "and.b32 %r2,%r2,255; setp.ne.s32 %p1,%r2,%r1; @%p1 bra L;" + pass) ==
        std::nullopt);
  CHECK(rankOf("L: ld.acquire.gpu.global.u64 %rd2,[%rd1]; cvt.u32.u64 %r2,%rd2;"
               "setp.ne.s32 %p1,%r2,%r1; @%p1 bra L;" +
               pass) == std::nullopt);
}

TEST_CASE("what is passed on") {
  auto stores = [](const std::string &made) {
    return rankOf(wait + made + "st.release.gpu.global.u32 [%rd1],%r3; ret;");
  };
  CHECK(stores("add.s32 %r3,%r1,1; setp.eq.u32 %p2,%r3,%nctaid.z; selp.b32 %r3,0,%r3,%p2;") ==
        std::nullopt); // a register that is computed from itself
  CHECK(stores("add.s32 %r4,%r1,1; setp.eq.u32 %p2,%r4,%nctaid.z; selp.b32 %r3,0,%r4,%p2;") == 3);
  CHECK(stores("add.s32 %r3,%r1,2;") == std::nullopt);
  CHECK(stores("add.s32 %r3,%r1,0;") == std::nullopt);
  CHECK(stores("mov.u32 %r3,%r1;") == std::nullopt);
  CHECK(stores("mov.u32 %r3,1;") == std::nullopt);
  CHECK(stores("mov.u32 %r3,0;") == 3);
  // The value derives from the word that the block read, not from its id.
  CHECK(stores("add.s32 %r3,%r2,1;") == std::nullopt);
  CHECK(stores("ld.global.u32 %r3,[%rd1+64];") == std::nullopt);
  CHECK(rankOf(wait + "add.s32 %r3,%r1,1; atom.global.exch.b32 %r5,[%rd1],%r3; ret;") == 3);
}

TEST_CASE("other writes") {
  // With a counter, a later block could release an earlier one.
  CHECK(rankOf(wait + "red.global.add.u32 [%rd1],1; ret;") == std::nullopt);
  CHECK(rankOf(wait + "red.global.add.u32 [%rd1+64],1;" + pass) == std::nullopt);
  CHECK(rankOf(wait + "st.volatile.global.u32 [%rd1+64],%r2;" + pass) == std::nullopt);
  // Plain stores matter where their pointer is the word's, or is unknown.
  CHECK(rankOf(wait + "st.global.u32 [%rd1+64],%r2;" + pass) == std::nullopt);
  CHECK(rankOf(wait +
               "cvta.to.global.u64 %rd2,%rd1; add.s64 %rd3,%rd2,%rd4;"
               "st.global.u32 [%rd3],%r2;" +
               pass) == std::nullopt);
  const char *output = ".global .b32 output;";
  CHECK(rankOf(wait + "st.global.u32 [output],%r2;" + pass, output) == 3);
  CHECK(rankOf(wait + "ld.global.u64 %rd2,[output]; st.global.u32 [%rd2],%r2;" + pass, output) ==
        3);
  std::string fromMemory = "ld.global.u64 %rd2,[output]; L: ld.acquire.gpu.global.u32 %r2,[%rd2];"
                           "setp.ne.s32 %p1,%r2,%r1; @%p1 bra L; ";
  CHECK(rankOf(fromMemory + "st.global.u32 [%rd1],%r2;" + pass, output) == 3);
  CHECK(rankOf(fromMemory + "ld.global.u64 %rd3,[output]; st.global.u32 [%rd3],%r2;" + pass,
               output) == std::nullopt);
  // In a callee.
  CHECK(rankOf(wait + "call.uni f, (%rd1);" + pass,
               ".func f(.reg .u64 %a) { st.volatile.u32 [%a],7; ret; }") == std::nullopt);
}

TEST_CASE("a loop that does more than wait") {
  CHECK(rankOf("L: " + load + "st.global.u32 [%rd1+64],%r2; setp.ne.s32 %p1,%r2,%r1; @%p1 bra L;" +
               pass) == std::nullopt);
  // The loop has a second exit, on another condition of the word.
  CHECK(rankOf("L: " + load +
               "setp.ne.s32 %p1,%r2,%r1; @!%p1 bra D; setp.eq.s32 %p2,%r2,99;"
               "@%p2 bra D; bra L; D: " +
               pass) == std::nullopt);
  // A second exit that does not depend on the word is allowed.
  CHECK(rankOf("mov.u32 %r4,0; L: " + load +
               "setp.ne.s32 %p1,%r2,%r1; @!%p1 bra D;"
               "add.u32 %r4,%r4,1; setp.gt.u32 %p2,%r4,999; @%p2 bra D; bra L; D: " +
               pass) == 3);
  // A second loop waits for another word.
  CHECK(rankOf(wait + "M: ld.volatile.global.u32 %r5,[%rd1+4]; setp.eq.u32 %p2,%r5,0; @%p2 bra M;" +
               pass) == std::nullopt);
}

TEST_CASE("a word that is asked for in one way or another is followed at each depth") {
  // In a counting loop, each turn waits.
  CHECK(rankOf("mov.u32 %r4,0; O: add.u32 %r4,%r4,1; " + wait +
               "setp.lt.u32 %p2,%r4,9; @%p2 bra O;" + pass) == 3);
  // The word decides the number of the outer loop's turns.
  CHECK(rankOf("O: add.u32 %r5,%r1,1; " + wait +
               "add.u32 %r4,%r2,1; setp.lt.u32 %p2,%r4,9; @%p2 bra O;" + pass) == std::nullopt);
}
