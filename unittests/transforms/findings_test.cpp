// The refusals that one analysis of a kernel finds, and the kinds that they concern.
#include "kernels.h"

#include "tally/bundle/bundle.h"

using namespace tally;
using namespace tally::ptx;

namespace {

bool stable(std::string_view body) {
  Module module = parsed(moduleWith(body));
  ModuleFacts facts(module);
  return analyzeKernel(facts, *module.function("k"), everyKind).bitwiseStable;
}

const std::string pointer = "ld.param.u64 %rd1,[p]; ";

} // namespace

TEST_CASE("every reason has a code of its own and refuses somebody") {
  std::set<std::string_view> codes;
  for (const ReasonFacts &facts : allReasons()) {
    CHECK(codes.insert(facts.code).second);
    CHECK(facts.kinds != 0);
    CHECK_FALSE(facts.sentence.empty());
  }
}

TEST_CASE("who asks how much dynamic shared memory there is") {
  auto asks = [](const std::string &module) {
    Module parsedModule = parsed(module);
    ModuleFacts facts(parsedModule);
    return analyzeKernel(facts, *parsedModule.function("k"), everyKind).readsSharedSize;
  };
  CHECK(asks(moduleWith("mov.u32 %r1,%dynamic_smem_size; ret;")));
  CHECK_FALSE(asks(moduleWith("mov.u32 %r1,%tid.x; ret;")));
  CHECK(asks(".version 8.0\n.target sm_80\n.address_size 64\n"
             ".func f() { .reg .u32 %r; mov.u32 %r, %dynamic_smem_size; ret; }\n"
             ".visible .entry k() { call f; ret; }\n"));
}

TEST_CASE("whose copy beside it would compute with other values") {
  auto changes = [](std::string_view body, std::string_view declarations = "") {
    Module module = parsed(moduleWith(
        body, std::string(".global .u32 g; .const .u32 c[4]; .global .b8 text[3]={37,100,0};\n"
                          ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
                          ".extern .func (.param .b32 r) other(.param .b64 a, .param .b64 b);\n") +
                  std::string(declarations)));
    ModuleFacts facts(module);
    return analyzeKernel(facts, *module.function("k"), everyKind).changesVariables;
  };
  auto call = [](std::string_view callee) {
    return "{ .param .b64 a; .param .b64 b; .param .b32 r; mov.u64 %rd1,text; "
           "cvta.global.u64 %rd2,%rd1; st.param.b64 [a],%rd2; st.param.b64 [b],0; call (r), " +
           std::string(callee) + ", (a, b); } ret;";
  };
  // Variables that no instruction names, or that instructions only read.
  CHECK_FALSE(changes("ret;"));
  CHECK_FALSE(changes("ret;", ".global .texref t; .extern .global .u32 e;"));
  CHECK_FALSE(changes("ld.global.u32 %r1,[g]; ret;"));
  CHECK_FALSE(changes("mov.u64 %rd1,g; add.s64 %rd2,%rd1,4; ld.global.u32 %r1,[%rd2]; ret;"));
  CHECK_FALSE(changes("ld.const.u32 %r1,[c+4]; ld.param.u64 %rd1,[p]; st.global.u32 [%rd1],%r1; "
                      "ret;"));
  CHECK_FALSE(changes(call("vprintf")));
  // The kernel writes the variable or passes its address on: directly, through registers, and
  // against the order of the text.
  CHECK(changes("st.global.u32 [g],1; ret;"));
  CHECK(changes("atom.global.add.u32 %r1,[g],1; ret;"));
  CHECK(changes("red.global.add.u32 [g+0],1; ret;"));
  CHECK(changes("mov.u64 %rd1,g; add.s64 %rd2,%rd1,4; st.global.u32 [%rd2],1; ret;"));
  CHECK(changes("mov.u64 %rd2,0; A: setp.ne.u64 %p1,%rd2,0; @%p1 st.global.u32 [%rd2],1; "
                "mov.u64 %rd2,g; bra A; ret;"));
  CHECK(changes("mov.u64 %rd1,g; ld.param.u64 %rd2,[p]; st.global.u64 [%rd2],%rd1; ret;"));
  CHECK(changes("mov.u64 %rd1,c; cvta.const.u64 %rd1,%rd1; ld.param.u64 %rd2,[p]; "
                "st.global.u64 [%rd2],%rd1; ret;"));
  CHECK(changes("mov.u64 %rd1,g; mov.b64 {%r1,%r2},%rd1; mov.b64 %rd2,{%r1,%r2}; "
                "st.global.u32 [%rd2],1; ret;"));
  CHECK(changes("mov.u64 %rd1,g; shfl.sync.idx.b32 %r1,%rd1,0,31,-1; ret;"));
  CHECK(changes(call("other")));
  // A function that the kernel calls writes the variable.
  CHECK(changes("call f; ret;", ".func f() { st.global.u32 [g],1; ret; }"));
  CHECK_FALSE(changes("call f; ret;", ".func f() { ret; }"));
  CHECK(
      changes("{ .param .b64 r; call (r), f; ld.param.b64 %rd1,[r]; } st.global.u32 [%rd1],1; ret;",
              ".func (.param .b64 result) f() { .reg .b64 %rd; mov.u64 %rd,g; "
              "st.param.b64 [result],%rd; ret; }"));
  CHECK(changes("call (%rd1), f; st.global.u32 [%rd1],1; ret;",
                ".func (.reg .b64 %result) f() { mov.u64 %result,g; ret; }"));
  // Variables of the function's body; variables that only the program fills; and an address that
  // another variable holds.
  CHECK(changes(".global .u32 own; ld.global.u32 %r1,[own]; ret;"));
  CHECK(changes("tex.1d.v4.f32.s32 {%f1,%f2,%f3,%f4},[t,{%r1}]; ret;", ".global .texref t;"));
  CHECK(changes("ld.global.u32 %r1,[e]; ret;", ".extern .global .u32 e;"));
  CHECK(changes("ld.global.u32 %r1,[m]; ret;", ".global .attribute(.managed) .u32 m;"));
  CHECK(changes("ld.global.u64 %rd1,[h]; st.global.u32 [%rd1],1; ret;", ".global .u64 h = g;"));
  CHECK(changes("ld.global.u64 %rd1,[h]; st.u32 [%rd1],1; ret;", ".global .u64 h = generic(g);"));
}

TEST_CASE("forms of grid registers") {
  const Codes form = {"grid-register-form"}, none;
  CHECK(reasonsOf("mov.u32 %r1,%ctaid.x; ret;") == none);
  CHECK(reasonsOf("cvt.u64.u32 %rd1,%ctaid.y; ret;") == none);
  CHECK(reasonsOf("mad.lo.s32 %r1,%ctaid.x,%nctaid.x,%tid.x; ret;") == none);
  CHECK(reasonsOf("cvt.rn.f32.u32 %f1,%nctaid.z; ret;") == none);
  CHECK(reasonsOf(".reg .v4 .u32 %v; mov.v4.u32 %v,%ctaid; ret;") == none);
  CHECK(reasonsOf("mov.b64 %rd1,{%ctaid.x,%ctaid.y}; ret;") == none);
  CHECK(reasonsOf("cvt.u32.u16 %r1,%ctaid.x; ret;") == none);
  CHECK(reasonsOf(".reg .u16 %h; mov.u16 %h,%ctaid.x; ret;") == none);
  CHECK(reasonsOf("tex.1d.v4.f32.s32 {%f1,%f2,%f3,%f4},[t,{%ctaid.x}]; ret;",
                  ".global .texref t;") == none);
  // Forms that ptxas never accepts are refused as unknown forms.
  CHECK(reasonsOf("mov.u32 %r1,%ctaid; ret;") == form);
  CHECK(reasonsOf("mov.u64 %rd1,%ctaid.x; ret;") == form);
  CHECK(reasonsOf("mov.b128 %rd1,{%ctaid.x,%ctaid.y}; ret;") == form);
  CHECK(reasonsOf("ld.global.u32 %r1,[%ctaid.x]; ret;") == form);
  CHECK(reasonsOf("mov.u32 %r1,%ctaid.q; ret;") == form);
}

TEST_CASE("an unknown opcode leaves slicing, unless it names a grid register") {
  Module module = parsed(moduleWith("frob.u32 %r1,%r2; ret;"));
  ModuleFacts facts(module);
  KernelAnalysis analysis = analyzeKernel(facts, *module.function("k"), everyKind);
  CHECK_FALSE(analysis.refusal(Kind::Slice));
  CHECK(analysis.refusal(Kind::Guard));
  CHECK(analysis.refusal(Kind::Persistent));
  CHECK(reasonsOf("frob.u32 %r1,%ctaid.x; ret;").contains("grid-register-form"));
}

TEST_CASE("what the whole grid or other blocks are part of") {
  CHECK(reasonsOf("mov.u32 %r1,%cluster_ctarank; ret;") == Codes{"cluster"});
  CHECK(reasonsOf("barrier.cluster.arrive; ret;") == Codes{"cluster"});
  CHECK(reasonsOf("mov.u64 %rd1,%gridid; ret;") == Codes{"grid-id"});
  CHECK(reasonsOf("mov.u32 %r1,%envreg2; ret;") == Codes{"grid-barrier"});
  CHECK(reasonsOf("ld.shared::cluster.u32 %r1,[%r2]; ret;") == Codes{"cluster"});
}

TEST_CASE("what outlives a block refuses persistent alone") {
  auto persistentOnly = [](std::string_view body) {
    Module module = parsed(moduleWith(body));
    ModuleFacts facts(module);
    KernelAnalysis analysis = analyzeKernel(facts, *module.function("k"), everyKind);
    CHECK_FALSE(analysis.refusal(Kind::Slice));
    CHECK_FALSE(analysis.refusal(Kind::Guard));
    const Finding *finding = analysis.refusal(Kind::Persistent);
    return finding ? std::string(factsOf(finding->reason).code) : "";
  };
  CHECK(persistentOnly(".shared .b64 s; mbarrier.init.shared.b64 [s],1; ret;") == "mbarrier");
  CHECK(persistentOnly("cp.async.mbarrier.arrive.shared.b64 [%r1]; ret;") == "mbarrier");
  CHECK(persistentOnly("cp.async.bulk.commit_group; ret;") == "async-copy");
  CHECK(persistentOnly("setmaxnreg.inc.sync.aligned.u32 64; ret;") == "setmaxnreg");
  CHECK(persistentOnly("wgmma.fence.sync.aligned; ret;") == "async-mma");
  CHECK(persistentOnly("alloca.u64 %rd1,8; ret;") == "stack-allocation");
}

TEST_CASE("what refuses a worker's loop refuses each kind that has one") {
  Module module = parsed(moduleWith("L: alloca.u64 %rd1,8; @%p1 bra L; ret;"));
  ModuleFacts facts(module);
  KernelAnalysis analysis = analyzeKernel(facts, *module.function("k"), everyKind);
  for (Kind kind : {Kind::Persistent, Kind::Pause}) {
    REQUIRE(analysis.refusal(kind));
    CHECK(analysis.refusal(kind)->reason == Reason::StackAllocation);
  }
}

TEST_CASE("pause wants a long loop and a nap") {
  auto refusal = [](const std::string &version, const char *body) -> std::string {
    std::string text = moduleWith(body);
    text.replace(0, text.find("\n.address_size"), version);
    Module module = parsed(std::move(text));
    ModuleFacts facts(module);
    KernelAnalysis analysis = analyzeKernel(facts, *module.function("k"), everyKind);
    const Finding *finding = analysis.refusal(Kind::Pause);
    return finding ? std::string(factsOf(finding->reason).code) : "";
  };
  const char *loop = "L: add.s32 %r1,%r1,1; setp.lt.s32 %p1,%r1,%r2; @%p1 bra L; ret;";
  CHECK(refusal(".version 8.0\n.target sm_90", loop) == "");
  CHECK(refusal(".version 6.3\n.target sm_70", loop) == "");
  CHECK(refusal(".version 6.2\n.target sm_70", loop) == "no-nap");
  CHECK(refusal(".version 8.0\n.target sm_60", loop) == "no-nap");
  CHECK(refusal(".version 8.0\n.target sm_90", "ret;") == "no-long-loop");
}

TEST_CASE("callees") {
  auto calling = [](std::string_view callee) { return reasonsOf("call.uni f; ret;", callee); };
  CHECK(calling(".func f() { ret; }") == Codes{});
  CHECK(calling(".func f() { exit; }") == Codes{"exit-in-callee"});
  CHECK(calling(".func f() { bar.warp.sync -1; ret; }") == Codes{});
  CHECK(calling(".func f() { .reg .b32 %x; mov.u32 %x,%ctaid.x; ret; }") == Codes{});
  CHECK(
      calling(".func .attribute(.unified(1, 2)) f() { .reg .b32 %x; mov.u32 %x,%ctaid.x; ret; }") ==
      Codes{"grid-register-in-callee"});
  CHECK(calling(".extern .func f;") == Codes{"unknown-callee"});
  CHECK(reasonsOf("call.uni vprintf; ret;", ".extern .func vprintf;") == Codes{});
  CHECK(reasonsOf("call.uni cudaLaunchDevice; ret;", ".extern .func cudaLaunchDevice;") ==
        Codes{"dynamic-parallelism"});
  CHECK(reasonsOf("call.uni cudaCGSynchronize; ret;", ".extern .func cudaCGSynchronize;") ==
        Codes{"grid-barrier"});
}

TEST_CASE("shared memory at the limit, module-level variables included") {
  CHECK(reasonsOf(".shared .b8 s[49136]; ret;") == Codes{});
  CHECK(reasonsOf(".shared .b8 s[49137]; ret;") == Codes{"shared-memory-limit"});
  CHECK(reasonsOf("mov.u32 %r1,s; ret;", ".shared .b8 s[49152];") == Codes{"shared-memory-limit"});
  CHECK(reasonsOf("ret;", ".shared .b8 s[49152];") == Codes{});
}

TEST_CASE("what says how much shared memory the kernel has, and what does not") {
  for (const char *size : {"total_smem_size", "aggr_smem_size", "reserved_smem_offset_begin",
                           "reserved_smem_offset_end", "reserved_smem_offset_cap"})
    CHECK(reasonsOf(std::string("mov.u32 %r1,%") + size + "; ret;") == Codes{"shared-size"});
  for (const char *other :
       {"dynamic_smem_size", "reserved_smem_offset_0", "reserved_smem_offset_1"})
    CHECK(reasonsOf(std::string("mov.u32 %r1,%") + other + "; ret;") == Codes{});
}

TEST_CASE("clones take twice the shared memory, in a slice too") {
  auto refusals = [](const char *bytes, Kind kind) -> std::string {
    Module module = parsed(moduleWith(std::string("call.uni f; .shared .b8 s[") + bytes + "]; ret;",
                                      ".func f() { .reg .b32 %x; mov.u32 %x,%ctaid.x; ret; }"));
    ModuleFacts facts(module);
    KernelAnalysis analysis = analyzeKernel(facts, *module.function("k"), everyKind);
    const Finding *finding = analysis.refusal(kind);
    return finding ? std::string(factsOf(finding->reason).code) : "";
  };
  for (Kind kind : {Kind::Slice, Kind::Guard, Kind::Persistent}) {
    CHECK(refusals("49120", kind) == "");
    CHECK(refusals("49121", kind) == "shared-memory-limit");
  }
}

TEST_CASE("parameters at the limit") {
  auto kernelWith = [](const char *version, unsigned bytes) {
    return reasonsIn(parsed(std::string(".version ") + version +
                            "\n.target sm_90\n.address_size 64\n.visible .entry k(.param .b8 b[" +
                            std::to_string(bytes) + "]) { ret; }"));
  };
  CHECK(kernelWith("8.0", 4248) == Codes{});
  CHECK(kernelWith("8.0", 4249) == Codes{"parameter-limit"});
  CHECK(kernelWith("8.1", 4249) == Codes{});
  CHECK(kernelWith("8.1", 32669) == Codes{"parameter-limit"});
}

TEST_CASE("the result is bitwise stable unless order shows") {
  CHECK(stable(pointer + "red.global.add.u32 [%rd1],1; ret;"));
  CHECK(stable(pointer + "atom.global.add.u32 %r1,[%rd1],1; ret;"));
  CHECK_FALSE(
      stable(pointer + "atom.global.add.u32 %r1,[%rd1],1; st.global.u32 [%rd1+4],%r1; ret;"));
  CHECK_FALSE(stable(pointer + "red.global.add.f32 [%rd1],%f1; ret;"));
  CHECK_FALSE(stable(pointer + "atom.global.exch.b32 %r1,[%rd1],1; ret;"));
  CHECK_FALSE(stable(pointer + "red.global.add.u32 [%rd1],1; red.global.max.u32 [%rd1],1; ret;"));
  CHECK_FALSE(stable("mov.u64 %rd1,%clock64; ret;"));
  CHECK_FALSE(stable("mov.u32 %r1,%smid; ret;"));
}

TEST_CASE("the mbarrier of tcgen05.commit is the own block's, unless it is for several") {
  std::string commit = "tcgen05.commit.cta_group::";
  CHECK_FALSE(reasonsOf(commit + "1.mbarrier::arrive::one.shared::cluster.b64 [%r1]; ret;")
                  .contains("cluster"));
  CHECK(reasonsOf(commit + "2.mbarrier::arrive::one.shared::cluster.b64 [%r1]; ret;")
            .contains("cluster"));
  CHECK(reasonsOf(commit + "1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r1],"
                           "%r2; ret;")
            .contains("cluster"));
  CHECK(reasonsOf("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1],32; ret;")
            .contains("cluster"));
}

TEST_CASE("polls are refused where ptxas rounds otherwise in a loop than in an unrolled one") {
  /// A loop of `turns` turns: `before` stands ahead of it, and each turn executes `turn`.
  auto refused = [](const std::string &before, const std::string &turn, const std::string &turns,
                    const std::string &behind = "") {
    Module module = parsed(moduleWith(
        "ld.param.u64 %rd1,[p]; ld.param.u32 %r7,[n]; ld.global.f32 %f7,[%rd1]; mov.u32 %r1,0; " +
        before + " again: ld.global.f32 %f1,[%rd1]; " + turn +
        " add.u64 %rd1,%rd1,4; add.u32 %r1,%r1,1; setp.lt.u32 %p1,%r1," + turns +
        "; @%p1 bra again; " + behind + " st.global.f32 [%rd1],%f2; ret;"));
    ModuleFacts facts(module);
    KernelAnalysis analysis = analyzeKernel(facts, *module.function("k"), everyKind);
    for (Kind each : {Kind::Slice, Kind::Guard, Kind::Persistent})
      CHECK(analysis.refusal(each) == nullptr);
    const Finding *pause = analysis.refusal(Kind::Pause);
    const Finding *checkpoint = analysis.refusal(Kind::Checkpoint);
    REQUIRE((pause == nullptr) == (checkpoint == nullptr));
    CHECK((!pause || pause->reason == Reason::Rounding));
    CHECK((!checkpoint || checkpoint->reason == Reason::Rounding));
    return pause != nullptr;
  };
  const std::string begin = "mov.f32 %f3,0f00000000; mov.f32 %f2,%f3;",
                    count = "add.f32 %f3,%f3,0f3f800000; ", many = "100000";
  auto divided = [&](const char *how, const char *by) {
    return count + how + " %f4,%f1," + by + "; add.f32 %f2,%f2,%f4;";
  };
  CHECK(refused(begin, divided("div.full.f32", "%f3"), many));
  CHECK(refused(begin, divided("div.approx.f32", "%f3"), many));
  CHECK(refused(begin, count + "rcp.approx.f32 %f4,%f3; fma.rn.f32 %f2,%f4,%f1,%f2;", many));
  // An operand from an integer; an operand through another register; a counter divided by an
  // immediate.
  CHECK(refused(begin, "cvt.rn.f32.u32 %f5,%r1; ex2.approx.f32 %f2,%f5;", many));
  CHECK(refused(begin, count + "mul.f32 %f5,%f3,0f40000000; div.full.f32 %f2,%f1,%f5;", many));
  CHECK(refused(begin, count + "div.full.f32 %f2,%f3,0f40400000;", many));
  // A value of the turns that is used after the loop.
  CHECK(refused(begin, count, many, "div.full.f32 %f2,%f1,%f3;"));
  // An exact operation; an immediate divisor; a divisor or a counter whose value comes from memory.
  CHECK_FALSE(refused(begin, divided("div.rn.f32", "%f3"), many));
  CHECK_FALSE(refused(begin, divided("div.full.f32", "0f40400000"), many));
  CHECK_FALSE(refused(begin, divided("div.full.f32", "%f7"), many));
  CHECK_FALSE(refused(begin, count + "div.full.f32 %f2,%f3,%f7;", many));
  CHECK_FALSE(refused("mov.f32 %f3,%f7; mov.f32 %f2,%f3;", divided("div.full.f32", "%f3"), many));
  CHECK_FALSE(refused(begin, count + "@%p2 mov.f32 %f3,%f7; div.full.f32 %f2,%f1,%f3;", many));
  // A sum whose product is from another turn, also through a copy.
  CHECK(refused("mov.f32 %f3,%f7;", "add.f32 %f2,%f3,%f1; mul.f32 %f3,%f1,%f1;", "%r7"));
  CHECK(refused("mov.f32 %f3,%f7;",
                "sub.ftz.f32 %f2,%f1,%f3; mul.ftz.f32 %f4,%f1,%f1; "
                "mov.f32 %f3,%f4;",
                "%r7"));
  // A value from before the loop reaches the loop's sum where all turns are unrolled.
  CHECK(refused("mul.f32 %f3,%f7,%f7;", "add.f32 %f2,%f3,%f1;", many));
  CHECK_FALSE(refused("mul.f32 %f3,%f7,%f7;", "add.f32 %f2,%f3,%f1;", "%r7"));
  // Product and sum are in one turn; the operation names its rounding; or there is no sum or
  // product of floats.
  CHECK_FALSE(refused("", "mul.f32 %f3,%f1,%f1; add.f32 %f2,%f3,%f1;", "%r7"));
  CHECK_FALSE(refused("",
                      "mul.f32 %f3,%f1,%f1; @%p2 bra on; mov.f32 %f5,%f1; on: "
                      "add.f32 %f2,%f3,%f1;",
                      "%r7"));
  CHECK_FALSE(refused("mov.f32 %f3,%f7;", "add.f32 %f2,%f3,%f1; mul.rn.f32 %f3,%f1,%f1;", "%r7"));
  CHECK_FALSE(refused("mov.f32 %f3,%f7;", "add.rn.f32 %f2,%f3,%f1; mul.f32 %f3,%f1,%f1;", "%r7"));
  CHECK_FALSE(
      refused("mov.f32 %f3,%f7;", "fma.rn.f32 %f2,%f3,%f1,%f1; mul.f32 %f3,%f1,%f1;", "%r7"));
  CHECK_FALSE(refused("mov.u32 %r3,%r7;",
                      "add.u32 %r2,%r3,%r1; mul.lo.u32 %r3,%r2,%r2; mov.f32 %f2,%f1;", "%r7"));
  CHECK_FALSE(refused("mov.f32 %f3,%f7;",
                      "mul.f32 %f3,%f1,%f1; add.f32 %f2,%f3,%f1; mov.f32 %f3,%f1;", "%r7"));
  // No compiler unrolls a loop completely if a parameter gives the number of turns.
  CHECK_FALSE(refused(begin, divided("div.full.f32", "%f3"), "%r7"));
}
