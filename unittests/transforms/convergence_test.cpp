// Barriers that the analysis shows all threads to reach, and barriers that only look so.
#include "kernels.h"

#include "tally/ptx/analysis/barriers.h"

using namespace tally::ptx;

namespace {

/// Returns the reason codes, and how the loop treats threads that do not converge: "parks",
/// "spends", "rows".
Codes convergenceOf(std::string_view body, std::string_view before = "",
                    std::string_view target = "8.0\n.target sm_90") {
  std::string text = moduleWith(body, before);
  text.replace(0, text.find("\n.address_size"), ".version " + std::string(target));
  Module module = parsed(std::move(text));
  ModuleFacts facts(module);
  KernelAnalysis analysis = analyzeKernel(facts, *module.function("k"), everyKind);
  Codes codes = reasonsIn(module);
  if (analysis.loop.parks)
    codes.insert("parks");
  if (analysis.loop.spends)
    codes.insert("spends");
  if (analysis.loop.needsWholeWarpRows)
    codes.insert("rows");
  return codes;
}

const Codes none;
const Codes divergent = {"parks", "spends"}; // warps park, and some of their lanes exit
const Codes spends = {"spends"};

} // namespace

TEST_CASE("warps that may come apart ahead of a barrier") {
  auto parts = [](std::string_view body, std::string_view before = "") {
    Module module = parsed(moduleWith(body, before));
    ModuleFacts facts(module);
    return analyzeKernel(facts, *module.function("k"), everyKind).loop.partsWarps;
  };
  constexpr const char *turns = "mov.u32 %r1,%tid.x; L: add.u32 %r1,%r1,9;"
                                "setp.lt.u32 %p1,%r1,100; @%p1 bra L;";
  CHECK(!parts("bar.sync 0; ret;"));
  CHECK(parts(std::string(turns) + "bar.sync 0; ret;"));
  CHECK(!parts("bar.sync 0;" + std::string(turns) + "ret;"));
  CHECK(!parts(std::string(turns) + "ret;"));
  CHECK(!parts("mov.u32 %r1,%tid.x; setp.lt.u32 %p1,%r1,9; @%p1 bra L; add.u32 %r1,%r1,1; L:"
               "bar.sync 0; ret;"));
  SUBCASE("by turns of a loop that all go round together, and what stands in it") {
    constexpr const char *together = "add.u32 %r2,%r2,1; setp.lt.u32 %p2,%r2,8; @%p2 bra H; ret;";
    CHECK(!parts("mov.u32 %r2,0; H: bar.sync 0;" + std::string(together)));
    CHECK(parts("mov.u32 %r2,0; H: bar.sync 0;" + std::string(turns) + together));
  }
  SUBCASE("by the loop that ptxas makes of an atomic") {
    CHECK(parts("mov.u32 %r1,%tid.x; atom.shared.add.u32 %r2,[%r1],%r1; bar.sync 0; ret;"));
    CHECK(parts("mov.u32 %r1,%tid.x; red.add.u32 [%rd1],%r1; bar.sync 0; ret;"));
    CHECK(!parts("mov.u32 %r1,%tid.x; red.global.add.u32 [%rd1],%r1; bar.sync 0; ret;"));
    CHECK(!parts("bar.sync 0; mov.u32 %r1,%tid.x; red.shared.add.u32 [%r1],%r1; ret;"));
  }
  SUBCASE("in what is called") { CHECK(parts("call f; ret;", ".func f() { bar.sync 0; ret; }\n")); }
}

TEST_CASE("a barrier on the straight way is reached by all") {
  CHECK(convergenceOf("bar.sync 0; barrier.sync 0; ret;") == none);
}

TEST_CASE("a barrier under a block-uniform decision is reached by all or none") {
  CHECK(convergenceOf("ld.param.u32 %r1,[n]; mov.u32 %r2,%ctaid.x; setp.lt.u32 %p1,%r2,%r1;\n"
                      "@%p1 bra L; bar.sync 0; L: ret;") == none);
}

TEST_CASE("a register that holds another value elsewhere") {
  // %p1 is the same for the block where the branch reads it, and differs between threads later.
  std::string first = "ld.param.u32 %r1,[n]; setp.lt.u32 %p1,%r1,9; @%p1 bra L; bar.sync 0;";
  std::string second = "mov.u32 %r2,%tid.x; setp.lt.u32 %p1,%r2,9;";
  CHECK(convergenceOf(first + second + "@%p1 st.global.u32 [%rd1],%r2; L: ret;") == none);
  CHECK(convergenceOf(second + "@%p1 st.global.u32 [%rd1],%r2;" + first + "L: ret;") == none);
  // A value that is the same for all lanes of a warp makes its predicate the same for them.
  CHECK(convergenceOf("mov.u32 %r1,%tid.x; shr.u32 %r1,%r1,5; setp.eq.u32 %p1,%r1,1; @%p1 bra L;"
                      "bar.warp.sync -1; L: ret;") == Codes{"rows"});
  SUBCASE("comes there by some way") {
    CHECK(convergenceOf(second + "ld.param.u32 %r1,[n]; setp.eq.u32 %p2,%r1,0; @%p2 bra M;"
                                 "setp.lt.u32 %p1,%r1,9; M: @%p1 bra L; bar.sync 0; L: ret;") ==
          divergent);
    CHECK(convergenceOf(second + "ld.param.u32 %r1,[n]; setp.eq.u32 %p2,%r1,0;"
                                 "@%p2 setp.lt.u32 %p1,%r1,9; @%p1 bra L; bar.sync 0; L: ret;") ==
          divergent);
  }
  SUBCASE("comes there in the next turn of a loop") {
    std::string loop = "ld.param.u32 %r1,[n]; setp.lt.u32 %p1,%r1,9; H: @%p1 bra E; bar.sync 0;" +
                       second + "add.u32 %r3,%r3,1; setp.lt.u32 %p2,%r3,4;";
    CHECK(convergenceOf(loop + "@%p2 bra H; E: ret;") == divergent);
    CHECK(convergenceOf(loop + "setp.lt.u32 %p1,%r1,8; @%p2 bra H; E: ret;") == none);
  }
  SUBCASE("is left there by the block before") {
    // A worker's next block finds in %p1 the values of this block's threads.
    CHECK(convergenceOf("@%p1 bra L; bar.sync 0; L:" + second + "setp.lt.u32 %p1,%r2,3; ret;") ==
          divergent);
  }
  SUBCASE("is assigned under a decision that differs") {
    CHECK(convergenceOf("mov.u32 %r2,%tid.x; setp.lt.u32 %p2,%r2,9; mov.u32 %r1,0; @%p2 bra M;"
                        "mov.u32 %r1,1; M: setp.eq.u32 %p1,%r1,0; @%p1 bra L; bar.sync 0; L:"
                        "mov.u32 %r1,5; ret;") == divergent);
    CHECK(convergenceOf("mov.u32 %r2,%tid.x; mov.u32 %r1,0; H: add.u32 %r1,%r1,1;"
                        "setp.lt.u32 %p2,%r1,%r2; @%p2 bra H; setp.eq.u32 %p1,%r1,3; @%p1 bra L;"
                        "bar.sync 0; L: mov.u32 %r1,5; ret;") == divergent);
  }
}

TEST_CASE("a uniform decision inside a divergent one is taken by some threads only") {
  CHECK(convergenceOf("mov.u32 %r1,%tid.x; setp.eq.u32 %p1,%r1,0; mov.u32 %r2,%ctaid.x;\n"
                      "setp.eq.u32 %p2,%r2,0; @%p1 bra E; @%p2 bra E; bar.sync 0; E: ret;") ==
        divergent);
}

TEST_CASE("an early return as a branch to the common end skips the barrier") {
  CHECK(convergenceOf("ld.param.u32 %r1,[n]; mov.u32 %r2,%tid.x; setp.ge.u32 %p1,%r2,%r1;\n"
                      "@%p1 bra L; bar.sync 0; L: ret;") == divergent);
}

TEST_CASE("a predicated ret and a predicated exit before a barrier") {
  for (const char *leave : {"ret", "exit"})
    CHECK(convergenceOf(std::string("mov.u32 %r2,%tid.x; setp.ge.u32 %p1,%r2,7; @%p1 ") + leave +
                        "; bar.sync 0; ret;") == divergent);
}

TEST_CASE("a divergent exit after the last barrier harms nobody") {
  CHECK(convergenceOf("bar.sync 0; mov.u32 %r2,%tid.x; setp.ge.u32 %p1,%r2,7; @%p1 ret; ret;") ==
        none);
}

TEST_CASE("a guarded barrier") {
  CHECK(convergenceOf("mov.u32 %r2,%tid.x; setp.ge.u32 %p1,%r2,7; @%p1 bar.sync 0; ret;") ==
        divergent);
  CHECK(convergenceOf("mov.u32 %r2,%ntid.x; setp.ge.u32 %p1,%r2,7; @%p1 bar.sync 0; ret;") == none);
}

TEST_CASE("a barrier in a uniform loop that may run zero times") {
  CHECK(convergenceOf("ld.param.u32 %r1,[n]; mov.u32 %r2,0; setp.lt.s32 %p1,%r1,1; @%p1 bra E;\n"
                      "L: bar.sync 0; add.u32 %r2,%r2,16; setp.lt.s32 %p2,%r2,%r1; @%p2 bra L;\n"
                      "E: ret;") == none);
}

TEST_CASE("a loop whose trip count differs between threads, before a barrier in it") {
  CHECK(convergenceOf("ld.param.u32 %r1,[n]; mov.u32 %r2,%tid.x;\n"
                      "L: bar.sync 0; add.u32 %r2,%r2,16; setp.lt.s32 %p2,%r2,%r1; @%p2 bra L;\n"
                      "ret;") == divergent);
}

TEST_CASE("a value that leaves a divergent loop is divergent though its assignments look uniform") {
  // %r3 counts the rounds: it is uniform inside the loop, and differs between threads after it.
  CHECK(convergenceOf(
            "ld.param.u32 %r1,[n]; mov.u32 %r2,%tid.x; mov.u32 %r3,0;\n"
            "L: add.u32 %r3,%r3,1; add.u32 %r2,%r2,16; setp.lt.s32 %p2,%r2,%r1; @%p2 bra L;\n"
            "setp.gt.u32 %p3,%r3,2; @%p3 bra E; bar.sync 0; E: ret;") == divergent);
}

TEST_CASE("a barrier after a divergent loop that all threads leave") {
  CHECK(convergenceOf("ld.param.u32 %r1,[n]; mov.u32 %r2,%tid.x;\n"
                      "L: add.u32 %r2,%r2,16; setp.lt.s32 %p2,%r2,%r1; @%p2 bra L;\n"
                      "bar.sync 0; ret;") == none);
}

TEST_CASE("constants assigned under a divergent branch make a divergent value") {
  CHECK(convergenceOf("mov.u32 %r1,%tid.x; setp.eq.u32 %p1,%r1,0; mov.u32 %r2,0; @%p1 bra L;\n"
                      "mov.u32 %r2,1; L: setp.eq.u32 %p2,%r2,0; @%p2 bra E; bar.sync 0; E: ret;") ==
        divergent);
  CHECK(convergenceOf(
            "mov.u32 %r1,%tid.x; setp.eq.u32 %p1,%r1,0; mov.u32 %r2,0; @%p1 mov.u32 %r2,1;\n"
            "setp.eq.u32 %p2,%r2,0; @%p2 bra E; bar.sync 0; E: ret;") == divergent);
}

TEST_CASE("a predicate declared again in a scope is another register") {
  const char *body = "mov.u32 %r1,%ntid.x; setp.eq.u32 %p1,%r1,0;\n"
                     "{ .reg .pred %p1; mov.u32 %r2,%tid.x; setp.eq.u32 %p1,%r2,0; }\n"
                     "@%p1 bra E; bar.sync 0; E: ret;";
  CHECK(convergenceOf(body) == none);
  const char *inside = "mov.u32 %r1,%ntid.x; setp.eq.u32 %p1,%r1,0;\n"
                       "{ .reg .pred %p1; mov.u32 %r2,%tid.x; setp.eq.u32 %p1,%r2,0;\n"
                       "@%p1 bra E; }\n bar.sync 0; E: ret;";
  CHECK(convergenceOf(inside) == divergent);
}

TEST_CASE("labels repeated in scopes are different labels") {
  // The branch's target is the inner L. Taking the outer L for the target would skip the barrier.
  CHECK(convergenceOf("mov.u32 %r1,%tid.x; setp.eq.u32 %p1,%r1,0;\n"
                      "{ @%p1 bra L; mov.u32 %r2,1; L: mov.u32 %r3,1; }\n"
                      "bar.sync 0; L: ret;") == none);
}

TEST_CASE("loads: parameters and read-only memory are uniform, other memory is not") {
  auto underLoadOf = [](const std::string &load) {
    return convergenceOf("ld.param.u64 %rd1,[p]; " + load +
                         " setp.eq.u32 %p1,%r1,0; @%p1 bra E; bar.sync 0; E: ret;");
  };
  CHECK(underLoadOf("ld.param.u32 %r1,[n];") == none);
  CHECK(underLoadOf("ld.global.nc.u32 %r1,[%rd1];") == none);
  CHECK(underLoadOf("ld.global.u32 %r1,[%rd1];") == divergent);
  CHECK(underLoadOf("ld.u32 %r1,[%rd1];") == divergent);
  CHECK(underLoadOf("{ .shared .b32 s; ld.shared.u32 %r1,[s]; }") == divergent);
  CHECK(underLoadOf("mov.u32 %r2,%tid.x; mul.wide.u32 %rd2,%r2,4; add.u64 %rd1,%rd1,%rd2;"
                    "ld.global.nc.u32 %r1,[%rd1];") == divergent);
  CHECK(underLoadOf("atom.global.add.u32 %r1,[%rd1],1;") == divergent);
}

TEST_CASE("a call's result comes back in the parameter space and is no kernel parameter") {
  CHECK(convergenceOf("{ .param .b32 r; call.uni (r), f; ld.param.b32 %r1,[r]; }\n"
                      "setp.eq.u32 %p1,%r1,0; @%p1 bra E; bar.sync 0; E: ret;",
                      ".func (.param .b32 v) f() { .reg .b32 %r<2>; mov.u32 %r1,%tid.x;"
                      " st.param.b32 [v],%r1; ret; }") == divergent);
}

TEST_CASE("the carry of an addition carries its divergence") {
  CHECK(convergenceOf("mov.u32 %r1,%tid.x; add.cc.u32 %r2,%r1,-3; addc.u32 %r3,0,0;\n"
                      "setp.eq.u32 %p1,%r3,0; @%p1 bra E; bar.sync 0; E: ret;") == divergent);
}

TEST_CASE("bar.red gives the block one value") {
  CHECK(convergenceOf("mov.u32 %r1,%tid.x; setp.eq.u32 %p1,%r1,0;\n"
                      "bar.red.or.pred %p2,0,%p1; @%p2 bra E; bar.sync 0; E: ret;") == none);
  CHECK(convergenceOf("mov.u32 %r1,%tid.x; setp.eq.u32 %p1,%r1,0;\n"
                      "vote.sync.any.pred %p2,%p1,-1; @%p2 bra E; bar.sync 0; E: ret;") ==
        divergent);
}

TEST_CASE("a path that ends in trap binds nobody") {
  CHECK(convergenceOf("mov.u32 %r1,%tid.x; setp.gt.u32 %p1,%r1,512; @%p1 bra T; bra G;\n"
                      "T: trap; exit; G: bar.sync 0; ret;") == none);
}

TEST_CASE("an endless loop proves nothing about barriers") {
  CHECK(convergenceOf("bar.sync 0; L: bra L;") == divergent);
  CHECK(convergenceOf("bar.sync 0; mov.u32 %r1,%tid.x; setp.gt.u32 %p1,%r1,5; @%p1 bra E;\n"
                      "L: bar.sync 0; bra L; E: ret;") == divergent);
}

TEST_CASE("an indexed branch by a thread's index diverges") {
  CHECK(convergenceOf("mov.u32 %r1,%tid.x; t: .branchtargets A, B; brx.idx %r1, t;\n"
                      "A: bar.sync 0; B: ret;") == divergent);
  CHECK(convergenceOf("mov.u32 %r1,%ctaid.x; t: .branchtargets A, B; brx.idx %r1, t;\n"
                      "A: bar.sync 0; B: ret;") == none);
}

TEST_CASE("forms of barriers") {
  const Codes form = {"barrier-form"};
  CHECK(convergenceOf("bar.sync 3; ret;") == none);
  CHECK(convergenceOf("barrier.cta.sync.aligned 1; ret;") == none);
  CHECK(convergenceOf("ld.param.u32 %r1,[n]; bar.sync %r1; ret;") == none);
  CHECK(convergenceOf("bar.sync 1, 64; ret;") == none);
  CHECK(convergenceOf("mov.u32 %r1,1; bar.sync %r1, 64; mov.u32 %r1, 9; ret;") == none);
  CHECK(convergenceOf("ld.param.u32 %r1,[n]; bar.sync %r1, 64; ret;") == form);
  CHECK(convergenceOf("mov.u32 %r1,1; add.u32 %r1,%r1,1; bar.sync %r1, 64; ret;") == form);
  CHECK(convergenceOf("bar.arrive 1, 64; ret;") == form);
  CHECK(convergenceOf("bar.red.popc.u32 %r1, 0, %p1; ret;") == none);
  CHECK(convergenceOf("bar.red.popc.u32 %r1, 0, 64, %p1; ret;") == none);
}

TEST_CASE("the loop takes an id that the body names with no thread count") {
  auto idOf = [](const std::string &body) {
    Module module = parsed(moduleWith(body));
    ModuleFacts facts(module);
    return analyzeKernel(facts, *module.function("k"), everyKind).loop.barrier;
  };
  CHECK(idOf("bar.sync 0; ret;") == 0);
  CHECK(idOf("bar.sync 1, 64; ret;") == 0);
  CHECK(idOf("bar.sync 0, 64; bar.red.popc.u32 %r1, 1, 64, %p1; bar.sync 3, 32; ret;") == 2);
  CHECK(idOf("mov.u32 %r1,0; mov.u32 %r1,1; bar.sync %r1, 64; ret;") == 2);
  CHECK(idOf("bra E; bar.sync 0, 64; E: ret;") == 1);
  std::string all;
  for (int id = 0; id < 16; ++id)
    all += "bar.sync " + std::to_string(id) + ", 64; ";
  CHECK(convergenceOf(all + "ret;") == Codes{"barrier-form"});
}

TEST_CASE("a reduction with a thread count is one value of those who met, not of the block") {
  CHECK(convergenceOf("mov.u32 %r1,%tid.x; setp.eq.u32 %p1,%r1,0;\n"
                      "bar.red.or.pred %p2,1,64,%p1; @%p2 bra E; bar.sync 0; E: ret;") ==
        divergent);
}

TEST_CASE("a barrier with a thread count needs its warps whole") {
  std::string early = "mov.u32 %r1,%tid.x; setp.ge.u32 %p1,%r1,";
  CHECK(convergenceOf(early + "64; @%p1 bra E; bar.sync 1, 64; E: ret;") == Codes{"rows"});
  CHECK(convergenceOf(early + "65; @%p1 bra E; bar.sync 1, 64; E: ret;") == spends);
}

TEST_CASE("older modules cannot pay") {
  const char *barrier = "mov.u32 %r1,%tid.x; setp.ge.u32 %p1,%r1,7; @%p1 ret; bar.sync 0; ret;";
  CHECK(convergenceOf(barrier, "", "6.2\n.target sm_70") == divergent);
  const Codes refused = {"parks", "spends", "divergent-barrier"};
  CHECK(convergenceOf(barrier, "", "6.1\n.target sm_70") == refused);
  CHECK(convergenceOf(barrier, "", "6.2\n.target sm_61") == refused);
  const char *sync = "mov.u32 %r1,%tid.x; setp.ge.u32 %p1,%r1,7; @%p1 ret; bar.warp.sync -1; ret;";
  CHECK(convergenceOf(sync, "", "6.2\n.target sm_70") == spends);
  CHECK(convergenceOf(sync, "", "6.1\n.target sm_70") == Codes{"spends", "divergent-warp-sync"});
  CHECK(convergenceOf(sync, "", "6.2\n.target sm_61") == Codes{"spends", "divergent-warp-sync"});
  const char *callee = ".func f() { bar.warp.sync -1; ret; }";
  CHECK(convergenceOf("call.uni f; ret;", callee) == spends);
  CHECK(convergenceOf("call.uni f; ret;", callee, "6.2\n.target sm_61") ==
        Codes{"spends", "warp-sync-in-callee"});
}

TEST_CASE("warp operations whose mask may name exited threads") {
  std::string shuffle = "shfl.sync.bfly.b32 %r5|%p5, %r6, 16, 31, -1; ";
  std::string early = "mov.u32 %r1,%tid.x; ld.param.u32 %r2,[n]; setp.ge.u32 %p1,%r1,%r2;"
                      "@%p1 bra E; ";
  CHECK(convergenceOf(shuffle + "ret;") == none);
  CHECK(convergenceOf(early + shuffle + "E: ret;") == spends);
  CHECK(convergenceOf(early + "bar.warp.sync -1; E: ret;") == spends);
  CHECK(convergenceOf(early + "bar.sync 0; bar.warp.sync -1; E: ret;") == Codes{"parks", "spends"});
  // Matrix operations need the whole warp in the user's kernel too.
  CHECK(convergenceOf(early + "movmatrix.sync.aligned.m8n8.trans.b16 %r5, %r6; E: ret;") == none);
}

TEST_CASE("a mask of active threads, as long as they come to the operation") {
  std::string early = "mov.u32 %r1,%tid.x; ld.param.u32 %r2,[n]; setp.ge.u32 %p1,%r1,%r2;"
                      "@%p1 bra E; ";
  std::string ask = "activemask.b32 %r7; ", vote = "vote.sync.ballot.b32 %r5, %p5, %r7; ";
  std::string branch = "setp.eq.u32 %p2,%r1,3; @%p2 bra ",
              back = "setp.lt.u32 %p3,%r8,9; @%p3 bra ";
  CHECK(convergenceOf(early + ask + vote + "E: ret;") == none);
  CHECK(convergenceOf(early + ask + branch + "J; add.u32 %r8,%r8,1; J: " + vote + "E: ret;") ==
        none);
  CHECK(convergenceOf(early + "L: " + ask + vote + back + "L; E: ret;") == none);
  // Since the activemask some lanes have left, or some lanes never come.
  CHECK(convergenceOf(early + ask + branch + "E; " + vote + "E: ret;") == spends);
  CHECK(convergenceOf(early + ask + "setp.eq.u32 %p2,%r1,3; @%p2 " + vote + "E: ret;") == spends);
  CHECK(convergenceOf(early + ask + "L: " + vote + back + "L; E: ret;") == spends);
  CHECK(convergenceOf(early + "L: " + ask + branch + "L; " + vote + "E: ret;") == spends);
  CHECK(convergenceOf(early + ask + "not.b32 %r7,%r7; " + vote + "E: ret;") == spends);
  CHECK(convergenceOf(early + branch + "J; " + ask + "J: " + vote + "E: ret;") == spends);
}

TEST_CASE("a mask that a ballot gave of the condition that the operation stands under") {
  std::string ask = "mov.u32 %r1,%tid.x; setp.lt.u32 %p1,%r1,7; setp.ge.u32 %p2,%r1,7; ";
  std::string vote = "vote.sync.ballot.b32 %r7,%p1,-1; ";
  std::string sync = "bar.warp.sync %r7; ";
  CHECK(convergenceOf(ask + vote + "@%p2 bra E; " + sync + "E: ret;") == none);
  CHECK(convergenceOf(ask + vote + "@!%p1 bra E; " + sync + "E: ret;") == none);
  CHECK(convergenceOf(ask + vote + "@%p1 bra Y; ret; Y: " + sync + "ret;") == none);
  CHECK(convergenceOf("mov.u32 %r1,%tid.x; setp.lt.u32 %p1,%r1,32; setp.gt.u32 %p2,%r1,31; " +
                      vote + "@%p2 bra E; " + sync + "E: ret;") == none);
  // The branch goes the wrong way, reads another condition or another vote, or reads the value
  // after a change.
  CHECK(convergenceOf(ask + vote + "@%p1 bra E; " + sync + "E: ret;") == spends);
  CHECK(convergenceOf(ask + vote + "@!%p2 bra E; " + sync + "E: ret;") == spends);
  CHECK(convergenceOf("mov.u32 %r1,%tid.x; setp.lt.u32 %p1,%r1,7; setp.ge.u32 %p2,%r1,6; " + vote +
                      "@%p2 bra E; " + sync + "E: ret;") == spends);
  CHECK(convergenceOf("mov.u32 %r1,%tid.x; setp.lt.u32 %p1,%r1,7; setp.ge.s32 %p2,%r1,7; " + vote +
                      "@%p2 bra E; " + sync + "E: ret;") == spends);
  CHECK(convergenceOf("mov.u32 %r1,%tid.x; setp.lt.u32 %p1,%r1,7; add.u32 %r1,%r1,1;"
                      "setp.ge.u32 %p2,%r1,7; " +
                      vote + "@%p2 bra E; " + sync + "E: ret;") == spends);
  CHECK(convergenceOf(ask + vote + "setp.eq.u32 %p1,%r1,0; @!%p1 bra E; " + sync + "E: ret;") ==
        spends);
  CHECK(convergenceOf(ask + vote + "@%p2 bra E; not.b32 %r7,%r7; " + sync + "E: ret;") == spends);
  // Some of the lanes that voted for it leave before, or come more than once.
  CHECK(convergenceOf(ask + vote + "@%p2 bra E; setp.eq.u32 %p3,%r1,3; @%p3 bra E; " + sync +
                      "E: ret;") == spends);
  CHECK(convergenceOf(ask + vote + "@%p2 bra E; L: " + sync +
                      "add.u32 %r1,%r1,1; setp.lt.u32 %p3,%r1,9; @%p3 bra L; E: ret;") == spends);
  // A comparison of floats has no complement: for a NaN both comparisons are false.
  CHECK(convergenceOf("mov.u32 %r1,%tid.x; cvt.rn.f32.u32 %f1,%r1; setp.lt.f32 %p1,%f1,%f2;"
                      "setp.ge.f32 %p2,%f1,%f2; " +
                      vote + "@%p2 bra E; " + sync + "E: ret;") == spends);
}

TEST_CASE("decisions that are the warp's own, in rows of whole warps") {
  std::string shuffle = "shfl.sync.bfly.b32 %r5|%p5, %r6, 16, 31, -1; E: ret;";
  auto isWarps = [&](const std::string &decision) {
    Codes codes = convergenceOf(decision + " @%p1 bra E; " + shuffle);
    CHECK((codes == Codes{"rows"} || codes == spends));
    return codes == Codes{"rows"};
  };
  CHECK(isWarps("mov.u32 %r1,%tid.x; setp.gt.u32 %p1,%r1,31;"));
  CHECK(isWarps("mov.u32 %r1,%tid.x; setp.ge.s32 %p1,%r1,64;"));
  CHECK(isWarps("mov.u32 %r1,%tid.x; shr.u32 %r2,%r1,5; setp.ne.s32 %p1,%r2,0;"));
  CHECK(isWarps("mov.u32 %r1,%tid.x; and.b32 %r2,%r1,-32; setp.ne.s32 %p1,%r2,0;"));
  CHECK(isWarps("mov.u32 %r1,%ctaid.x; mov.u32 %r2,%ntid.x; mov.u32 %r3,%tid.x;"
                "mad.lo.s32 %r4,%r1,%r2,%r3; shr.u32 %r8,%r4,5; ld.param.u32 %r7,[n];"
                "setp.ge.u32 %p1,%r8,%r7;"));
  CHECK(isWarps("mov.u32 %r1,%tid.y; ld.param.u32 %r2,[n]; setp.ge.u32 %p1,%r1,%r2;"));
  // A signed division by 32, and a signed division by the warp size.
  const char *division = "shr.u32 %r3,%r2,27; add.s32 %r4,%r1,%r3; shr.s32 %r8,%r4,5;"
                         "ld.param.u32 %r7,[n]; setp.ge.s32 %p1,%r8,%r7;";
  CHECK(isWarps(std::string("mov.u32 %r1,%tid.x; shr.s32 %r2,%r1,31;") + division));
  CHECK_FALSE(isWarps(std::string("mov.u32 %r1,%tid.x; add.s32 %r1,%r1,-64; shr.s32 %r2,%r1,31;") +
                      division));
  CHECK_FALSE(isWarps(std::string("mov.u32 %r1,%tid.x; shr.s32 %r2,%r1,9;") + division));
  CHECK(isWarps("mov.u32 %r1,%tid.x; mov.u32 %r2,WARP_SZ; div.u32 %r3,%r1,%r2;"
                "setp.ne.s32 %p1,%r3,0;"));
  CHECK_FALSE(isWarps("mov.u32 %r1,%tid.x; mov.u32 %r2,WARP_SZ; div.s32 %r3,%r1,%r2;"
                      "setp.ne.s32 %p1,%r3,0;"));
  CHECK_FALSE(isWarps("mov.u32 %r1,%tid.x; mov.u32 %r2,96; div.u32 %r3,%r1,%r2;"
                      "setp.ne.s32 %p1,%r3,0;"));
  CHECK_FALSE(isWarps("mov.u32 %r1,%tid.x; setp.gt.u32 %p1,%r1,30;"));
  CHECK_FALSE(isWarps("mov.u32 %r1,%tid.x; setp.eq.u32 %p1,%r1,0;"));
  CHECK_FALSE(isWarps("mov.u32 %r1,%tid.x; shr.u32 %r2,%r1,4; setp.ne.s32 %p1,%r2,0;"));
  CHECK_FALSE(isWarps("mov.u32 %r1,%tid.x; add.u32 %r1,%r1,1; shr.u32 %r2,%r1,5;"
                      "setp.ne.s32 %p1,%r2,0;"));
  CHECK_FALSE(isWarps("mov.u32 %r1,%laneid; shr.u32 %r2,%r1,5; setp.ne.s32 %p1,%r2,0;"));
}

TEST_CASE("a lane value assigned under a divergent branch is no longer one") {
  CHECK(convergenceOf("mov.u32 %r1,%tid.x; setp.eq.u32 %p2,%r1,3; @%p2 add.u32 %r1,%r1,32;\n"
                      "setp.gt.u32 %p1,%r1,31; @%p1 bra E;\n"
                      "shfl.sync.bfly.b32 %r5|%p5, %r6, 16, 31, -1; E: ret;") == spends);
}
