// Look-back by block ids and by tickets, and kernels that differ from it in one detail.
#include "kernels.h"

using namespace tally;
using namespace tally::ptx;

namespace {

bundle::Waits waitsOf(std::string_view body, std::string_view before = "") {
  Module module = parsed(moduleWith("ld.param.u64 %rd1,[p]; mov.u32 %r1,%ctaid.x;"
                                    "mov.u32 %r2,%tid.x;" +
                                        std::string(body),
                                    before));
  ModuleFacts facts(module);
  KernelAnalysis analysis = analyzeKernel(facts, *module.function("k"), everyKind);
  CHECK((analysis.waits == bundle::Waits::Unknown) == (analysis.refusal(Kind::Slice) != nullptr));
  if (analysis.waits == bundle::Waits::LowerBlocks)
    CHECK(analysis.gridRank == 1);
  return analysis.waits;
}

constexpr auto lower = bundle::Waits::LowerBlocks;
constexpr auto tickets = bundle::Waits::Tickets;
constexpr auto unknown = bundle::Waits::Unknown;

/// Spins on the word at %rd5.
const std::string spin = "L: ld.volatile.global.u32 %r9,[%rd5]; setp.eq.u32 %p1,%r9,0; @%p1 bra L;";
/// A kernel that publishes in word `%r1`; `index` computes %r3, and `read` computes %rd5 from %r3.
std::string kernel(const std::string &index, const std::string &own = "%r1") {
  return "mul.wide.u32 %rd2," + own +
         ",4; add.s64 %rd3,%rd1,%rd2; st.volatile.global.u32 [%rd3],1;" + index +
         "mul.wide.s32 %rd4,%r3,4; add.s64 %rd5,%rd1,%rd4;" + spin + "ret;";
}

} // namespace

TEST_CASE("words of lower blocks") {
  CHECK(waitsOf(kernel("add.s32 %r3,%r1,-1;")) == lower);
  CHECK(waitsOf(kernel("sub.s32 %r3,%r1,%r2; add.s32 %r3,%r3,-1;")) == lower);
  CHECK(waitsOf(kernel("not.b32 %r4,%r2; add.s32 %r3,%r1,%r4;")) == lower);
  CHECK(waitsOf(kernel("shr.u32 %r4,%r2,5; sub.s32 %r3,%r1,%r4; sub.s32 %r3,%r3,1;")) == lower);
  CHECK(waitsOf(kernel("mad.lo.s32 %r3,%r2,-2,%r1; sub.s32 %r3,%r3,3;")) == lower);
  // A parameter shifts both indices.
  CHECK(waitsOf("ld.param.u32 %r5,[n]; add.s32 %r6,%r1,%r5;" +
                kernel("add.s32 %r3,%r6,-1;", "%r6")) == lower);
}

TEST_CASE("words that are not shown to be lower") {
  CHECK(waitsOf(kernel("add.s32 %r3,%r1,1;")) == unknown);
  CHECK(waitsOf(kernel("mov.u32 %r3,%r1;")) == unknown); // its own
  CHECK(waitsOf(kernel("add.s32 %r3,%r1,%r2; add.s32 %r3,%r3,-1;")) == unknown);
  CHECK(waitsOf(kernel("and.b32 %r4,%r2,1; add.s32 %r3,%r1,%r4;")) == unknown);
  CHECK(waitsOf(kernel("mov.u32 %r3,7;")) == unknown);
  CHECK(waitsOf(kernel("neg.s32 %r3,%r1;")) == unknown);
  CHECK(waitsOf(kernel("shl.b32 %r3,%r1,1; add.s32 %r3,%r3,-1;")) == unknown); // another stride
  CHECK(waitsOf(kernel("xor.b32 %r3,%r1,1;")) == unknown);
  CHECK(waitsOf(kernel("mov.u32 %r4,%nctaid.x; sub.s32 %r3,%r4,%r1;")) == unknown);
  CHECK(waitsOf("ld.param.u32 %r5,[n];" + kernel("sub.s32 %r3,%r1,%r5;")) == unknown);
  CHECK(waitsOf(kernel("ld.global.u32 %r3,[%rd1+400];")) == unknown);
}

TEST_CASE("wider reads and other places of the write") {
  std::string write = "mul.wide.u32 %rd2,%r1,8; add.s64 %rd3,%rd1,%rd2;";
  std::string read = "add.s32 %r3,%r1,-1; mul.wide.s32 %rd4,%r3,8; add.s64 %rd5,%rd1,%rd4;";
  std::string pair = "L: ld.relaxed.gpu.v2.u32 {%r8,%r9},[%rd5%OFF%]; setp.eq.u32 %p1,%r8,0;"
                     "@%p1 bra L; ret;";
  auto at = [&](const std::string &offset) {
    std::string text = pair;
    return text.replace(text.find("%OFF%"), 5, offset);
  };
  CHECK(waitsOf(write + "st.relaxed.gpu.v2.u32 [%rd3+256],{%r1,%r2};" + read + at("+256")) ==
        lower);
  CHECK(waitsOf(write + "st.relaxed.gpu.v2.u32 [%rd3+256],{%r1,%r2};" + read + at("+268")) ==
        unknown);
  // The word 8 bytes behind is the block's own word. Higher blocks do not write it, but neither
  // does any lower block.
  CHECK(waitsOf(write + "st.relaxed.gpu.v2.u32 [%rd3+256],{%r1,%r2};" + read + at("+264")) ==
        unknown);
}

TEST_CASE("a window that moves") {
  auto window = [](const std::string &step, const std::string &start = "-1") {
    return "mul.wide.u32 %rd2,%r1,4; add.s64 %rd3,%rd1,%rd2; st.volatile.global.u32 [%rd3],1;"
           "sub.s32 %r3,%r1,%r2; add.s32 %r3,%r3," +
           start +
           ";"
           "O: mul.wide.s32 %rd4,%r3,4; add.s64 %rd5,%rd1,%rd4;" +
           spin + "add.s32 %r3,%r3," + step + "; setp.gt.s32 %p2,%r9,5; @%p2 bra O; ret;";
  };
  CHECK(waitsOf(window("-32")) == lower);
  CHECK(waitsOf(window("0")) == lower);
  CHECK(waitsOf(window("1")) == unknown);
  CHECK(waitsOf(window("-32", "1")) == unknown);
  // Back and forth.
  CHECK(waitsOf("mul.wide.u32 %rd2,%r1,4; add.s64 %rd3,%rd1,%rd2; st.volatile.global.u32 [%rd3],1;"
                "add.s32 %r3,%r1,-1; O: mul.wide.s32 %rd4,%r3,4; add.s64 %rd5,%rd1,%rd4;" +
                spin +
                "add.s32 %r4,%r3,-3; setp.gt.s32 %p2,%r9,5; @%p2 bra M; add.s32 %r4,%r3,2;"
                "M: mov.u32 %r3,%r4; setp.gt.s32 %p3,%r9,9; @%p3 bra O; ret;") == unknown);
  // A value of the index from before the loop's change is another value.
  CHECK(waitsOf("mov.u32 %r3,%r1; mul.wide.u32 %rd2,%r3,4; add.s64 %rd3,%rd1,%rd2;"
                "st.volatile.global.u32 [%rd3],1;"
                "O: add.s32 %r3,%r3,-1; mul.wide.s32 %rd4,%r3,4; add.s64 %rd5,%rd1,%rd4;" +
                spin + "setp.gt.s32 %p2,%r9,5; @%p2 bra O; ret;") == lower);
}

TEST_CASE("a write under a condition on the block") {
  auto first = [](const std::string &test) {
    return "mul.wide.u32 %rd2,%r1,4; add.s64 %rd3,%rd1,%rd2; st.volatile.global.u32 [%rd3],1;" +
           test +
           " st.volatile.global.u32 [%rd1],2;"
           "N: add.s32 %r3,%r1,-1; mul.wide.s32 %rd4,%r3,4; add.s64 %rd5,%rd1,%rd4;" +
           spin + "ret;";
  };
  CHECK(waitsOf(first("setp.ne.s32 %p2,%r1,0; @%p2 bra N;")) == lower);
  CHECK(waitsOf(first("setp.eq.s32 %p2,%r1,0; @!%p2 bra N;")) == lower);
  CHECK(waitsOf(first("setp.eq.s32 %p2,%r1,0; @%p2 bra N;")) == unknown);
  CHECK(waitsOf(first("setp.ne.s32 %p2,%r1,5; @%p2 bra N;")) == unknown);
  CHECK(waitsOf(first("setp.gt.s32 %p2,%r1,0; @%p2 bra N;")) == unknown);
  CHECK(waitsOf(first("setp.ne.s32 %p2,%r2,0; @%p2 bra N;")) == unknown);
}

TEST_CASE("other writes") {
  std::string back = "add.s32 %r3,%r1,-1;";
  CHECK(waitsOf("red.global.add.u32 [%rd1],1;" + kernel(back)) == unknown);
  CHECK(waitsOf("st.global.u32 [%rd1+40],1;" + kernel(back)) == unknown);
  const char *output = ".global .b32 output;";
  CHECK(waitsOf("st.global.u32 [output],1;" + kernel(back), output) == lower);
  CHECK(waitsOf("st.volatile.global.u32 [output],1;" + kernel(back), output) == unknown);
  CHECK(waitsOf("call.uni f, (%rd1);" + kernel(back),
                ".func f(.reg .u64 %a) { st.volatile.u32 [%a],7; ret; }") == unknown);
  // No block writes the word.
  CHECK(waitsOf(back + "mul.wide.s32 %rd4,%r3,4; add.s64 %rd5,%rd1,%rd4;" + spin + "ret;") ==
        unknown);
}

TEST_CASE("tickets") {
  const char *counter = ".global .b32 counter;";
  std::string take = "atom.global.add.u32 %r6,[counter],1;";
  std::string use = kernel("add.s32 %r3,%r6,-1;", "%r6");
  CHECK(waitsOf(take + use, counter) == tickets);
  CHECK(waitsOf("atom.global.add.u32 %r6,[counter],-1;" + use, counter) == unknown);
  CHECK(waitsOf("atom.global.exch.b32 %r6,[counter],1;" + use, counter) == unknown);
  CHECK(waitsOf("atom.global.add.u32 %r6,[counter],%r2;" + use, counter) == unknown);
  CHECK(waitsOf(take + "st.global.u32 [counter],0;" + use, counter) == unknown);
  CHECK(waitsOf("atom.global.add.u32 %r6,[%rd1],1;" + use, counter) == unknown);
  CHECK(waitsOf(take + take + use, counter) == unknown);
  // A counter for each column, and a ticket that is taken again and again.
  CHECK(waitsOf("mov.u64 %rd7,counter; mul.wide.u32 %rd8,%r1,4; add.s64 %rd7,%rd7,%rd8;"
                "atom.global.add.u32 %r6,[%rd7],1;" +
                    use,
                counter) == unknown);
  CHECK(waitsOf("Q: " + take + "setp.lt.u32 %p5,%r2,0; @%p5 bra Q;" + use, counter) == unknown);
  // Blocks take their order from ids or from tickets, never from both.
  CHECK(waitsOf(take + kernel("add.s32 %r3,%r6,-1;", "%r1"), counter) == unknown);
}

TEST_CASE("tickets by way of shared memory") {
  const char *variables = ".global .b32 counter; .shared .b32 s[4];";
  std::string use = kernel("add.s32 %r3,%r7,-1;", "%r7");
  auto through = [&](const std::string &before, const std::string &after) {
    return waitsOf("setp.ne.s32 %p3,%r2,0; " + before +
                       "@%p3 bra N; atom.global.add.u32 %r6,[counter],1;"
                       "st.shared.u32 [s+4],%r6; N: bar.sync 0;" +
                       after + use,
                   variables);
  };
  CHECK(through("", "ld.shared.u32 %r7,[s+4];") == tickets);
  CHECK(through("", "ld.shared.u32 %r7,[s+8];") == unknown);
  CHECK(through("st.shared.u32 [s+4],%r2;", "ld.shared.u32 %r7,[s+4];") == unknown);
  CHECK(through("cp.async.ca.shared.global [s+4],[%rd6],4;", "ld.shared.u32 %r7,[s+4];") ==
        unknown);
  CHECK(through("cp.async.bulk.global.shared::cta.bulk_group [%rd6],[s],16;",
                "ld.shared.u32 %r7,[s+4];") == tickets);
  CHECK(through("", "st.shared.u32 [s],%r2; ld.shared.u32 %r7,[s+4];") == unknown);
  CHECK(through("", "st.u32 [%rd6],%r2; ld.shared.u32 %r7,[s+4];") == unknown);
  CHECK(through("", "ld.shared.u32 %r7,[s+4]; st.shared.u32 [s+4],%r2;") == tickets);
}
