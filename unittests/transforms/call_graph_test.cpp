// Who calls whom, and what a variant calls clones of.
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
  // The extents stand where the clone reads them.
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
