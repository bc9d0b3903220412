// Which barriers all threads are shown to reach, and what only looks like it.
#include "kernels.h"

#include "tally/ptx/analysis/barriers.h"

using namespace tally::ptx;

namespace {

const Codes none;
const Codes divergent = {"divergent-barrier"};

bool needsWholeWarpRows(std::string_view body) {
  Module module = parsed(moduleWith(body));
  ModuleFacts facts(module);
  return analyzeKernel(facts, *module.function("k"), everyKind).needsWholeWarpRows;
}

} // namespace

TEST_CASE("a barrier on the straight way is reached by all") {
  CHECK(reasonsOf("bar.sync 0; barrier.sync 0; ret;") == none);
}

TEST_CASE("a barrier under a block-uniform decision is reached by all or none") {
  CHECK(reasonsOf("ld.param.u32 %r1,[n]; mov.u32 %r2,%ctaid.x; setp.lt.u32 %p1,%r2,%r1;\n"
                  "@%p1 bra L; bar.sync 0; L: ret;") == none);
}

TEST_CASE("a uniform decision inside a divergent one is taken by some threads only") {
  CHECK(reasonsOf("mov.u32 %r1,%tid.x; setp.eq.u32 %p1,%r1,0; mov.u32 %r2,%ctaid.x;\n"
                  "setp.eq.u32 %p2,%r2,0; @%p1 bra E; @%p2 bra E; bar.sync 0; E: ret;") ==
        divergent);
}

TEST_CASE("an early return as a branch to the common end skips the barrier") {
  CHECK(reasonsOf("ld.param.u32 %r1,[n]; mov.u32 %r2,%tid.x; setp.ge.u32 %p1,%r2,%r1;\n"
                  "@%p1 bra L; bar.sync 0; L: ret;") == divergent);
}

TEST_CASE("a predicated ret and a predicated exit before a barrier") {
  for (const char *leave : {"ret", "exit"})
    CHECK(reasonsOf(std::string("mov.u32 %r2,%tid.x; setp.ge.u32 %p1,%r2,7; @%p1 ") + leave +
                    "; bar.sync 0; ret;") == divergent);
}

TEST_CASE("a divergent exit after the last barrier harms nobody") {
  CHECK(reasonsOf("bar.sync 0; mov.u32 %r2,%tid.x; setp.ge.u32 %p1,%r2,7; @%p1 ret; ret;") == none);
}

TEST_CASE("a guarded barrier") {
  CHECK(reasonsOf("mov.u32 %r2,%tid.x; setp.ge.u32 %p1,%r2,7; @%p1 bar.sync 0; ret;") == divergent);
  CHECK(reasonsOf("mov.u32 %r2,%ntid.x; setp.ge.u32 %p1,%r2,7; @%p1 bar.sync 0; ret;") == none);
}

TEST_CASE("a barrier in a uniform loop that may run zero times") {
  CHECK(reasonsOf("ld.param.u32 %r1,[n]; mov.u32 %r2,0; setp.lt.s32 %p1,%r1,1; @%p1 bra E;\n"
                  "L: bar.sync 0; add.u32 %r2,%r2,16; setp.lt.s32 %p2,%r2,%r1; @%p2 bra L;\n"
                  "E: ret;") == none);
}

TEST_CASE("a loop whose trip count differs between threads, before a barrier in it") {
  CHECK(reasonsOf("ld.param.u32 %r1,[n]; mov.u32 %r2,%tid.x;\n"
                  "L: bar.sync 0; add.u32 %r2,%r2,16; setp.lt.s32 %p2,%r2,%r1; @%p2 bra L;\n"
                  "ret;") == divergent);
}

TEST_CASE("a value that leaves a divergent loop is divergent though its assignments look uniform") {
  // %r3 counts the rounds: uniform inside the loop, different per thread after it.
  CHECK(reasonsOf("ld.param.u32 %r1,[n]; mov.u32 %r2,%tid.x; mov.u32 %r3,0;\n"
                  "L: add.u32 %r3,%r3,1; add.u32 %r2,%r2,16; setp.lt.s32 %p2,%r2,%r1; @%p2 bra L;\n"
                  "setp.gt.u32 %p3,%r3,2; @%p3 bra E; bar.sync 0; E: ret;") == divergent);
}

TEST_CASE("a barrier after a divergent loop that all threads leave") {
  CHECK(reasonsOf("ld.param.u32 %r1,[n]; mov.u32 %r2,%tid.x;\n"
                  "L: add.u32 %r2,%r2,16; setp.lt.s32 %p2,%r2,%r1; @%p2 bra L;\n"
                  "bar.sync 0; ret;") == none);
}

TEST_CASE("constants assigned under a divergent branch make a divergent value") {
  CHECK(reasonsOf("mov.u32 %r1,%tid.x; setp.eq.u32 %p1,%r1,0; mov.u32 %r2,0; @%p1 bra L;\n"
                  "mov.u32 %r2,1; L: setp.eq.u32 %p2,%r2,0; @%p2 bra E; bar.sync 0; E: ret;") ==
        divergent);
  CHECK(reasonsOf("mov.u32 %r1,%tid.x; setp.eq.u32 %p1,%r1,0; mov.u32 %r2,0; @%p1 mov.u32 %r2,1;\n"
                  "setp.eq.u32 %p2,%r2,0; @%p2 bra E; bar.sync 0; E: ret;") == divergent);
}

TEST_CASE("a predicate declared again in a scope is another register") {
  const char *body = "mov.u32 %r1,%ntid.x; setp.eq.u32 %p1,%r1,0;\n"
                     "{ .reg .pred %p1; mov.u32 %r2,%tid.x; setp.eq.u32 %p1,%r2,0; }\n"
                     "@%p1 bra E; bar.sync 0; E: ret;";
  CHECK(reasonsOf(body) == none);
  const char *inside = "mov.u32 %r1,%ntid.x; setp.eq.u32 %p1,%r1,0;\n"
                       "{ .reg .pred %p1; mov.u32 %r2,%tid.x; setp.eq.u32 %p1,%r2,0;\n"
                       "@%p1 bra E; }\n bar.sync 0; E: ret;";
  CHECK(reasonsOf(inside) == divergent);
}

TEST_CASE("labels repeated in scopes are different labels") {
  // The inner L is the branch's target; taken for the outer one, the barrier would be skipped.
  CHECK(reasonsOf("mov.u32 %r1,%tid.x; setp.eq.u32 %p1,%r1,0;\n"
                  "{ @%p1 bra L; mov.u32 %r2,1; L: mov.u32 %r3,1; }\n"
                  "bar.sync 0; L: ret;") == none);
}

TEST_CASE("loads: parameters and read-only memory are uniform, other memory is not") {
  auto underLoadOf = [](const std::string &load) {
    return reasonsOf("ld.param.u64 %rd1,[p]; " + load +
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
  CHECK(reasonsOf("{ .param .b32 r; call.uni (r), f; ld.param.b32 %r1,[r]; }\n"
                  "setp.eq.u32 %p1,%r1,0; @%p1 bra E; bar.sync 0; E: ret;",
                  ".func (.param .b32 v) f() { .reg .b32 %r<2>; mov.u32 %r1,%tid.x;"
                  " st.param.b32 [v],%r1; ret; }") == divergent);
}

TEST_CASE("the carry of an addition carries its divergence") {
  CHECK(reasonsOf("mov.u32 %r1,%tid.x; add.cc.u32 %r2,%r1,-3; addc.u32 %r3,0,0;\n"
                  "setp.eq.u32 %p1,%r3,0; @%p1 bra E; bar.sync 0; E: ret;") == divergent);
}

TEST_CASE("bar.red gives the block one value") {
  CHECK(reasonsOf("mov.u32 %r1,%tid.x; setp.eq.u32 %p1,%r1,0;\n"
                  "bar.red.or.pred %p2,0,%p1; @%p2 bra E; bar.sync 0; E: ret;") == none);
  CHECK(reasonsOf("mov.u32 %r1,%tid.x; setp.eq.u32 %p1,%r1,0;\n"
                  "vote.sync.any.pred %p2,%p1,-1; @%p2 bra E; bar.sync 0; E: ret;") == divergent);
}

TEST_CASE("a path that ends in trap binds nobody") {
  CHECK(reasonsOf("mov.u32 %r1,%tid.x; setp.gt.u32 %p1,%r1,512; @%p1 bra T; bra G;\n"
                  "T: trap; exit; G: bar.sync 0; ret;") == none);
}

TEST_CASE("an endless loop proves nothing about barriers") {
  CHECK(reasonsOf("bar.sync 0; L: bra L;") == divergent);
  CHECK(reasonsOf("bar.sync 0; mov.u32 %r1,%tid.x; setp.gt.u32 %p1,%r1,5; @%p1 bra E;\n"
                  "L: bar.sync 0; bra L; E: ret;") == divergent);
}

TEST_CASE("an indexed branch by a thread's index diverges") {
  CHECK(reasonsOf("mov.u32 %r1,%tid.x; t: .branchtargets A, B; brx.idx %r1, t;\n"
                  "A: bar.sync 0; B: ret;") == divergent);
  CHECK(reasonsOf("mov.u32 %r1,%ctaid.x; t: .branchtargets A, B; brx.idx %r1, t;\n"
                  "A: bar.sync 0; B: ret;") == none);
}

TEST_CASE("forms of barriers") {
  const Codes form = {"barrier-form"};
  CHECK(reasonsOf("bar.sync 3; ret;") == none);
  CHECK(reasonsOf("barrier.cta.sync.aligned 1; ret;") == none);
  CHECK(reasonsOf("bar.sync 1, 64; ret;") == form);
  CHECK(reasonsOf("mov.u32 %r1,1; bar.sync %r1; ret;") == form);
  CHECK(reasonsOf("bar.arrive 1, 64; ret;") == form);
  CHECK(reasonsOf("bar.red.popc.u32 %r1, 0, %p1; ret;") == none);
  CHECK(reasonsOf("bar.red.popc.u32 %r1, 0, 64, %p1; ret;") == form);
}

TEST_CASE("warp operations whose mask may name exited threads") {
  const Codes warp = {"divergent-warp-sync"};
  std::string shuffle = "shfl.sync.bfly.b32 %r5|%p5, %r6, 16, 31, -1; ";
  std::string early = "mov.u32 %r1,%tid.x; ld.param.u32 %r2,[n]; setp.ge.u32 %p1,%r1,%r2;"
                      "@%p1 bra E; ";
  CHECK(reasonsOf(shuffle + "ret;") == none);
  CHECK(reasonsOf(early + shuffle + "E: ret;") == warp);
  CHECK(reasonsOf(early + "bar.warp.sync -1; E: ret;") == warp);
  CHECK(reasonsOf(early + "activemask.b32 %r7; vote.sync.ballot.b32 %r5, %p5, %r7; E: ret;") ==
        none);
  // Matrix operations need the whole warp in the user's kernel too.
  CHECK(reasonsOf(early + "movmatrix.sync.aligned.m8n8.trans.b16 %r5, %r6; E: ret;") == none);
}

TEST_CASE("decisions that are the warp's own, in rows of whole warps") {
  std::string shuffle = "shfl.sync.bfly.b32 %r5|%p5, %r6, 16, 31, -1; E: ret;";
  auto accepted = [&](const std::string &decision) {
    std::string body = decision + " @%p1 bra E; " + shuffle;
    bool isAccepted = reasonsOf(body) == none;
    CHECK(needsWholeWarpRows(body) == isAccepted);
    return isAccepted;
  };
  CHECK(accepted("mov.u32 %r1,%tid.x; setp.gt.u32 %p1,%r1,31;"));
  CHECK(accepted("mov.u32 %r1,%tid.x; setp.ge.s32 %p1,%r1,64;"));
  CHECK(accepted("mov.u32 %r1,%tid.x; shr.u32 %r2,%r1,5; setp.ne.s32 %p1,%r2,0;"));
  CHECK(accepted("mov.u32 %r1,%tid.x; and.b32 %r2,%r1,-32; setp.ne.s32 %p1,%r2,0;"));
  CHECK(accepted("mov.u32 %r1,%ctaid.x; mov.u32 %r2,%ntid.x; mov.u32 %r3,%tid.x;"
                 "mad.lo.s32 %r4,%r1,%r2,%r3; shr.u32 %r8,%r4,5; ld.param.u32 %r7,[n];"
                 "setp.ge.u32 %p1,%r8,%r7;"));
  CHECK(accepted("mov.u32 %r1,%tid.y; ld.param.u32 %r2,[n]; setp.ge.u32 %p1,%r1,%r2;"));
  CHECK_FALSE(accepted("mov.u32 %r1,%tid.x; setp.gt.u32 %p1,%r1,30;"));
  CHECK_FALSE(accepted("mov.u32 %r1,%tid.x; setp.eq.u32 %p1,%r1,0;"));
  CHECK_FALSE(accepted("mov.u32 %r1,%tid.x; shr.u32 %r2,%r1,4; setp.ne.s32 %p1,%r2,0;"));
  CHECK_FALSE(accepted("mov.u32 %r1,%tid.x; add.u32 %r1,%r1,1; shr.u32 %r2,%r1,5;"
                       "setp.ne.s32 %p1,%r2,0;"));
  CHECK_FALSE(accepted("mov.u32 %r1,%laneid; shr.u32 %r2,%r1,5; setp.ne.s32 %p1,%r2,0;"));
}

TEST_CASE("a lane value assigned under a divergent branch is no longer one") {
  CHECK(reasonsOf("mov.u32 %r1,%tid.x; setp.eq.u32 %p2,%r1,3; @%p2 add.u32 %r1,%r1,32;\n"
                  "setp.gt.u32 %p1,%r1,31; @%p1 bra E;\n"
                  "shfl.sync.bfly.b32 %r5|%p5, %r6, 16, 31, -1; E: ret;") ==
        Codes{"divergent-warp-sync"});
}
