// Barriers in callees: the cases in which the analysis shows that all threads meet at them equally
// often.
#include "kernels.h"

using namespace tally::ptx;

namespace {

const Codes accepted, refused = {"barrier-in-callee"};

constexpr const char *meets = ".func f() { bar.sync 0; ret; }\n";

} // namespace

TEST_CASE("a call that all threads make equally often") {
  CHECK(reasonsOf("call.uni f; ret;", meets) == accepted);
  CHECK(reasonsOf("ld.param.u32 %r1,[n]; L: call.uni f; add.s32 %r1,%r1,-1; setp.ne.s32 %p1,%r1,0; "
                  "@%p1 bra L; ret;",
                  meets) == accepted);
  // Threads that leave after the call have met every barrier as often as the other threads will.
  CHECK(reasonsOf("call.uni f; mov.u32 %r1,%tid.x; setp.eq.u32 %p1,%r1,0; @%p1 ret; "
                  "st.global.u32 [%rd1],%r1; ret;",
                  meets) == accepted);
}

TEST_CASE("a call that only some threads make") {
  const std::string first = "mov.u32 %r1,%tid.x; setp.eq.u32 %p1,%r1,0; ";
  CHECK(reasonsOf(first + "@%p1 ret; call.uni f; ret;", meets) == refused);
  CHECK(reasonsOf(first + "@%p1 call f; ret;", meets) == refused);
  CHECK(reasonsOf(first + "L: call.uni f; @%p1 bra L; ret;", meets) == refused);
  CHECK(reasonsOf("L: call.uni f; bra L;", meets) == refused);
}

TEST_CASE("a barrier whose function decides on it") {
  auto callee = [](std::string_view parameters, std::string_view body) {
    return ".func f(" + std::string(parameters) + ") { .reg .pred %q; .reg .b32 %x; " +
           std::string(body) + " ret; }\n";
  };
  const std::string passing = "{ .param .b32 a; st.param.b32 [a],1; call.uni f,(a); } ret;";
  CHECK(reasonsOf(passing, callee(".param .b32 a", "ld.param.u32 %x,[a]; setp.eq.u32 %q,%x,0; "
                                                   "@%q ret; bar.sync 0;")) == refused);
  CHECK(reasonsOf("call.uni f,(%r1); ret;",
                  callee(".reg .b32 a", "setp.eq.u32 %q,a,0; @%q bar.sync 0;")) == refused);
  CHECK(reasonsOf("call.uni f; ret;", callee("", "mov.u32 %x,%tid.x; setp.eq.u32 %q,%x,0; @%q "
                                                 "bar.sync 0;")) == refused);
  CHECK(reasonsOf("call.uni f; ret;", callee("", "ld.global.u32 %x,[0]; setp.eq.u32 %q,%x,0; @%q "
                                                 "bar.sync 0;")) == refused);
  // The shape of the block is the same for all its threads.
  CHECK(reasonsOf("call.uni f; ret;", callee("", "mov.u32 %x,%ntid.x; setp.eq.u32 %q,%x,32; @%q "
                                                 "bar.sync 0;")) == accepted);
  CHECK(reasonsOf("call.uni f; ret;", callee("", "bar.sync 1,64;")) == refused);
  CHECK(reasonsOf("call.uni f; ret;", callee("", "bar.arrive 0,64;")) == refused);
}

TEST_CASE("calls on the way to the barrier") {
  const std::string between = std::string(meets) + ".func g() { call.uni f; ret; }\n";
  CHECK(reasonsOf("call.uni g; ret;", between) == accepted);
  CHECK(reasonsOf("call.uni g; ret;",
                  std::string(meets) +
                      ".func g() { .reg .pred %q; .reg .b32 %x; mov.u32 %x,%tid.x; "
                      "setp.eq.u32 %q,%x,0; @%q call f; ret; }\n") == refused);
  CHECK(reasonsOf("call.uni f; ret;",
                  ".func f(.reg .b32 n) { .reg .pred %q; .reg .b32 %x; bar.sync 0; "
                  "setp.eq.u32 %q,n,0; @%q ret; sub.u32 %x,n,1; call f,(%x); ret; }\n") == refused);
}

TEST_CASE("a call through a pointer needs one for all threads") {
  const std::string before = std::string(meets) + ".func h() { ret; }\n";
  const std::string call = "proto: .callprototype _ (); call %rd3,(),proto; ret;";
  const std::string take = "mov.u64 %rd1,f; mov.u64 %rd2,h; ";
  CHECK(reasonsOf(take +
                      "ld.param.u32 %r1,[n]; setp.eq.u32 %p1,%r1,0; selp.b64 %rd3,%rd1,%rd2,%p1; " +
                      call,
                  before) == accepted);
  CHECK(reasonsOf(take +
                      "mov.u32 %r1,%tid.x; setp.eq.u32 %p1,%r1,0; selp.b64 %rd3,%rd1,%rd2,%p1; " +
                      call,
                  before) == refused);
}
