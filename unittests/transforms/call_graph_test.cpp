// Callers and callees, and the functions of which a variant calls clones.
#include "kernels.h"

#include "tally/ptx/transforms/rewriter.h"
#include "tally/ptx/transforms/verify.h"

using namespace tally;
using namespace tally::ptx;

namespace {

constexpr const char *readsIds =
    "{ .reg .b32 %x; mov.u32 %x,%ctaid.x; mov.u32 %x,%nctaid.z; ret; }";

std::set<std::string> clonedIn(std::string_view body, std::string_view before) {
  Module module = parsed(moduleWith(body, before));
  ModuleFacts facts(module);
  std::set<std::string> names;
  for (const Function *callee : analyzeKernel(facts, *module.function("k"), everyKind).cloned)
    names.emplace(callee->name);
  return names;
}

std::string rewritten(std::string_view body, std::string_view before) {
  Module module = parsed(moduleWith(body, before));
  auto kernels = rewrite(module, {});
  CHECK(verifyVariants(module, kernels).value_or("") == "");
  return textWithVariants(module, kernels).substr(module.source().size());
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t times = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1))
    ++times;
  return times;
}

std::string func(const char *name, std::string_view body) {
  return std::string(".func ") + name + "() " + std::string(body) + "\n";
}

} // namespace

TEST_CASE("callees that read no id, at any depth, are called as they are") {
  CHECK(clonedIn("call.uni f; ret;", func("f", "{ ret; }")).empty());
  CHECK(clonedIn("ret;", func("f", readsIds)).empty());
  CHECK(rewritten("call.uni f; ret;", func("f", "{ ret; }")).find("$tally_virtual") ==
        std::string::npos);
}

TEST_CASE("whoever calls a reader of ids is cloned with it") {
  std::string before = func("f", readsIds) + func("g", "{ call.uni f; ret; }") +
                       func("h", "{ ret; }") + func("i", "{ call.uni h; call.uni g; ret; }");
  CHECK(clonedIn("call.uni i; ret;", before) == Codes{"f", "g", "i"});
  CHECK(clonedIn("call.uni h; ret;", before).empty());
}

TEST_CASE("recursion") {
  CHECK(clonedIn("call.uni f; ret;", func("f", "{ .reg .b32 %x; mov.u32 %x,%ctaid.x; call.uni f; "
                                               "ret; }")) == Codes{"f"});
  std::string mutual = ".func g(); " + func("f", "{ call.uni g; ret; }") +
                       func("g", "{ .reg .b32 %x; mov.u32 %x,%ctaid.y; call.uni f; ret; }");
  CHECK(clonedIn("call.uni f; ret;", mutual) == Codes{"f", "g"});
  std::string text = rewritten("call.uni f; ret;", mutual);
  CHECK(count(text, ".func f$tally_virtual();") == 1);
  CHECK(count(text, ".func g$tally_virtual();") == 1);
}

TEST_CASE("a clone is made once for all variants, and the first guard entry calls the user's") {
  std::string text = rewritten("call.uni f; ret;", func("f", readsIds));
  CHECK(count(text, ".shared .align 16 .b32 $tally_block[8];") == 1);
  CHECK(count(text, ".func f$tally_virtual() {") == 1);
  CHECK(count(text, "call.uni f$tally_virtual;") == 3);
  CHECK(count(text, "call.uni f;") == 1);
  // The clone reads the extents from where the variant has stored them.
  CHECK(count(text, "ld.shared.u32 %tally_nctaid_z, [$tally_block+24];") == 1);
}

TEST_CASE("clones have no linkage of their own") {
  std::string text = rewritten("call.uni f; ret;", ".weak .func f() " + std::string(readsIds));
  CHECK(count(text, ".weak") == 0);
}

TEST_CASE("names that clones need") {
  std::string reader = func("f", readsIds);
  CHECK(reasonsOf("call.uni f; ret;", ".shared .b32 $tally_block[4]; " + reader) ==
        Codes{"reserved-name"});
  CHECK(reasonsOf("call.uni f; ret;", reader + func("f$tally_virtual", "{ ret; }")) ==
        Codes{"reserved-name"});
  CHECK(reasonsOf("call.uni f; ret;", func("f", "{ .reg .b32 %tally_r0; mov.u32 "
                                                "%tally_r0,%ctaid.x; ret; }")) ==
        Codes{"reserved-name"});
}

namespace {

const std::string reader = func("f", readsIds);
const std::string proto = "proto: .callprototype _ (); ";

} // namespace

TEST_CASE("a call through a pointer reaches what has its address taken") {
  const std::string call = "{ " + proto + "call %rd1,(),proto; } ret;";
  CHECK(clonedIn("mov.u64 %rd1,f; " + call, reader) == Codes{"f"});
  CHECK(clonedIn(call, reader + ".global .u64 table[2] = {0, f};\n") == Codes{"f"});
  CHECK(clonedIn(call, reader + ".global .u64 table[2] = {0, generic(f)};\n") == Codes{"f"});
  CHECK(clonedIn(call, reader + func("g", "{ .reg .b64 %x; mov.u64 %x,f; ret; }")) == Codes{"f"});
  // A function that is called by name only is not an address taken.
  CHECK(clonedIn(call, reader + func("g", "{ call.uni f; ret; }") + func("h", "{ ret; }") +
                           ".global .u64 table[1] = {h};\n")
            .empty());
  CHECK(clonedIn("{ list: .calltargets h; call %rd1,(),list; } ret;",
                 reader + func("h", "{ ret; }") + ".global .u64 table[1] = {f};\n")
            .empty());
}

TEST_CASE("a call through a pointer reaches nothing that takes other arguments") {
  const std::string before = ".func f(.param .b32 a) " + std::string(readsIds) +
                             "\n.func g(.param .b64 a) { ret; }\n.global .u64 table[2] = {f, g};\n";
  auto passing = [](const char *type) {
    return std::string("{ .param .") + type + " x; st.param." + type +
           " [x],0; P: .callprototype _ (.param ." + type + " _); call %rd1,(x),P; } ret;";
  };
  CHECK(clonedIn(passing("b32"), before) == Codes{"f"});
  CHECK(clonedIn(passing("b64"), before).empty());
  CHECK(clonedIn("{ " + proto + "call %rd1,(),proto; } ret;",
                 before + func("h", "{ ret; }") + ".global .u64 more[1] = {h};\n")
            .empty());
}

TEST_CASE("calls through pointers that are refused") {
  const Codes refused = {"indirect-call"};
  const std::string taken = reader + ".global .u64 table[1] = {f};\n";
  const std::string call = proto + "call %rd1,(),proto; ";
  CHECK(reasonsOf("{ " + call + "} ret;", taken) == Codes{});
  CHECK(reasonsOf("{ " + call + "} ret;", "") == refused);
  CHECK(reasonsOf("{ " + call + "} ret;", taken + ".extern .func elsewhere();\n") == refused);
  CHECK(reasonsOf("{ " + call + "} ret;", taken + ".extern .global .u32 elsewhere;\n") == refused);
  CHECK(reasonsOf("{ " + call + "} ret;", taken + ".extern .func free(.param .b64 p);\n"
                                                  ".extern .shared .b32 dynamic[];\n") == Codes{});
  // The call has no scope of its own, the scope holds more than the call, or the pointer differs
  // from the one outside.
  CHECK(reasonsOf(call + "ret;", taken) == refused);
  CHECK(reasonsOf("{ " + call + "L: } ret;", taken) == refused);
  CHECK(reasonsOf("{ @%p1 bra E; " + call + "} E: ret;", taken) == refused);
  CHECK(reasonsOf("{ mov.u32 %r1,%ctaid.x; " + call + "} ret;", taken) == refused);
  CHECK(reasonsOf("{ mov.u64 %rd1,%rd2; " + call + "} ret;", taken) == refused);
  CHECK(reasonsOf("{ .reg .b64 %rd<2>; " + call + "} ret;", taken) == refused);
}

TEST_CASE("a call through a pointer is copied for each function with a clone") {
  std::string text = rewritten("{ " + proto + "@!%p1 call %rd1,(),proto; } ret;",
                               reader + func("h", "{ ret; }") + ".global .u64 t[2] = {f, h};\n");
  // Slice, the resume entry and persistent compare the callee; the guard's first entry is
  // unchanged.
  CHECK(count(text, "mov.u64 %tally_callee, f;") == 3);
  CHECK(count(text, "setp.eq.u64 %tally_same, %rd1, %tally_callee;") == 3);
  CHECK(count(text, "@!%p1 call f$tally_virtual,();") == 3);
  CHECK(count(text, "@!%p1 call %rd1,(),proto;") == 4);
  CHECK(count(text, "mov.u64 %tally_callee, h;") == 0);
}

TEST_CASE("variables that a copy of the body would have for itself") {
  CHECK(reasonsOf(".global .u32 counter; ret;", "") == Codes{"variable-in-body"});
  CHECK(reasonsOf("ret;", func("f", "{ .global .u32 counter; ret; }")) == Codes{});
  CHECK(reasonsOf("call.uni f; ret;", func("f", "{ .const .u32 one = 1; ret; }")) == Codes{});
  CHECK(reasonsOf("call.uni f; ret;",
                  func("f", "{ .global .u32 counter; .reg .b32 %x; mov.u32 %x,%ctaid.x; ret; }")) ==
        Codes{"variable-in-body"});
  CHECK(reasonsOf(".shared .u32 word; ret;", "") == Codes{});
}
