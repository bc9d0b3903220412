// Edits, and the texts that passes write.
#include "kernels.h"

#include "tally/ptx/transforms/editor.h"
#include "tally/ptx/transforms/pass.h"
#include "tally/ptx/transforms/rewriter.h"
#include "tally/ptx/transforms/verify.h"

using namespace tally;
using namespace tally::ptx;

namespace {

std::string variantOf(const Module &module, Kind kind, std::size_t entry = 0) {
  auto kernels = rewrite(module, {});
  REQUIRE(kernels.size() == 1);
  for (const Variant &variant : kernels[0].variants)
    if (variant.verdict.kind == kind) {
      REQUIRE(variant.verdict.status == Status::Emitted);
      return variant.entries.at(entry).str();
    }
  FAIL("no such kind");
  return {};
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

} // namespace

TEST_CASE("the table of passes is in the order of the kinds") {
  REQUIRE(allPasses().size() == allKinds.size());
  for (std::size_t i = 0; i != allKinds.size(); ++i) {
    CHECK(allPasses()[i].kind == allKinds[i]);
    CHECK(allPasses()[i].create()->kind() == allKinds[i]);
  }
}

TEST_CASE("an editor without edits gives the text back") {
  Module module = parsed(moduleWith("mov.u32 %r1,%tid.x; // why\n ret;"));
  const Function &kernel = *module.function("k");
  FunctionEditor editor(kernel);
  CHECK(contains(module.source(), editor.apply().str()));
}

TEST_CASE("parameters are appended, whatever the list was") {
  auto withList = [](const char *list) {
    Module module = parsed(std::string(".version 8.0\n.target sm_90\n.address_size 64\n.entry k") +
                           list + " { ret; }");
    FunctionEditor editor(*module.function("k"));
    editor.appendParameter(".param .u32 x");
    std::string edited = editor.apply().str();
    Module again = parsed(".version 8.0\n.target sm_90\n.address_size 64\n" + edited);
    return again.function("k")->parameters.size();
  };
  CHECK(withList("") == 1);
  CHECK(withList("()") == 1);
  CHECK(withList("( /* none */ )") == 1);
  CHECK(withList("(.param .u32 a)") == 2);
  CHECK(withList("(.param .u32 a // the first\n)") == 2);
  // A comma without a parameter would lead to two commas in the variant.
  CHECK(std::holds_alternative<Diagnostic>(
      parse(".version 8.0\n.target sm_90\n.entry k(.param .u32 a,) {}")));
}

TEST_CASE("nothing comes between a pragma and the load that it speaks of") {
  Module module = parsed(moduleWith(".pragma \"used_bytes_mask 3\";\n"
                                    "st.global.u32 [%rd1],%ctaid.x; ret;"));
  std::string text = variantOf(module, Kind::Slice);
  CHECK(contains(text, ".pragma \"used_bytes_mask 3\";\nst.global.u32 [%rd1],%tally_ctaid_x;"));
}

TEST_CASE("a pragma of the label before it stays with the label") {
  Module module = parsed(moduleWith("L: .pragma \"nounroll\";\nmov.u32 %r1,%ctaid.x; ret;"));
  std::string text = variantOf(module, Kind::Slice);
  CHECK(contains(text, "L: .pragma \"nounroll\";\nld.param.u32 %tally_offset_x"));
}

TEST_CASE("every way out of a persistent body leads to the loop's head") {
  Module module = parsed(moduleWith("@%p1 ret; @!%p2 exit; { ret; } bra E; ret; E:"));
  std::string text = variantOf(module, Kind::Persistent);
  CHECK(contains(text, "@%p1 bra $tally_next;"));
  CHECK(contains(text, "@!%p2 bra $tally_next;"));
  CHECK(contains(text, "{ bra $tally_next; }"));
  CHECK(contains(text, "E:\n\tbra $tally_next;\n\n$tally_asked:"));
  // The only remaining ret is the worker's own.
  CHECK(text.find("ret;") == text.rfind("ret;"));
  CHECK_FALSE(contains(text, "exit;"));
}

TEST_CASE("a body that ends in its ret gets nothing after it") {
  Module module = parsed(moduleWith("ret;"));
  std::string text = variantOf(module, Kind::Persistent);
  CHECK(text.find("bra $tally_next;") == text.rfind("bra $tally_next;"));
}

TEST_CASE("copies in flight are waited for before the next block") {
  Module with = parsed(moduleWith("cp.async.ca.shared.global [%r1],[%rd1],4; ret;"));
  CHECK(contains(variantOf(with, Kind::Persistent), "$tally_next:\n\tcp.async.wait_all;\n\t"));
  Module without = parsed(moduleWith("ret;"));
  CHECK_FALSE(contains(variantOf(without, Kind::Persistent), "cp.async"));
}

TEST_CASE("an old target polls with a volatile load") {
  std::string text = moduleWith("ret;");
  text.replace(text.find("sm_90"), 5, "sm_60");
  CHECK(contains(variantOf(parsed(text), Kind::Guard), "ld.volatile.global.u64"));
  CHECK(contains(variantOf(parsed(moduleWith("ret;")), Kind::Guard), "ld.relaxed.gpu.global.u64"));
}

TEST_CASE(
    "the guard's first entry reads the physical grid in its body, the resume entry does not") {
  Module module = parsed(moduleWith("mov.u32 %r1,%ctaid.x; mov.u32 %r2,%nctaid.y; ret;"));
  CHECK(contains(variantOf(module, Kind::Guard), "mov.u32 %r1,%ctaid.x; mov.u32 %r2,%nctaid.y;"));
  std::string resume = variantOf(module, Kind::Guard, 1);
  CHECK(contains(resume, "mov.u32 %r1,%tally_ctaid_x;"));
  CHECK(contains(resume, "mov.u32 %r2,%tally_nctaid_y;"));
}

TEST_CASE("names of tally's own in the input") {
  CHECK(reasonsOf(".reg .b32 %tally_r; ret;") == Codes{"reserved-name"});
  Module module =
      parsed(moduleWith("L: add.s32 %r1,%r1,1; setp.lt.s32 %p1,%r1,%r2; @%p1 bra L; ret;"));
  std::string once = textWithVariants(module, rewrite(module, {}));
  Module again = parsed(once);
  for (const RewrittenKernel &kernel : rewrite(again, {}))
    for (const Variant &variant : kernel.variants) {
      CHECK(variant.verdict.reason == "reserved-name");
      CHECK(variant.verdict.line > 0);
    }
}

TEST_CASE("kernels that are not asked for get no variant but are described") {
  Module module = parsed(moduleWith("ret;"));
  auto kernels = rewrite(module, {everyKind, [](std::string_view) { return false; }});
  REQUIRE(kernels.size() == 1);
  CHECK_FALSE(kernels[0].selected);
  CHECK(kernels[0].variants.empty());
  bundle::Kernel described = describe(kernels[0]);
  REQUIRE(described.verdicts.size() == allKinds.size());
  CHECK(described.verdicts[0].reason == "not-requested");
  CHECK(described.parameterBytes == 12);
  CHECK(described.tallyParameterOffset() == 16);
  CHECK(textWithVariants(module, kernels) == module.source());
}

namespace {

/// Returns the whole result of rewriteText() for `text`, or its diagnostic.
std::string rewrittenText(const std::string &text) {
  auto result = rewriteText(text, {});
  if (auto *diagnostic = std::get_if<Diagnostic>(&result))
    return diagnostic->message + " at " + std::to_string(diagnostic->offset);
  auto &[module, kernels] = std::get<RewrittenModule>(result);
  CHECK(verifyVariants(module, kernels).value_or("") == "");
  return textWithVariants(module, kernels);
}

/// Returns the same result through a module that holds all its bodies.
std::string rewrittenModule(const std::string &text) {
  auto result = parse(text);
  if (auto *diagnostic = std::get_if<Diagnostic>(&result))
    return diagnostic->message + " at " + std::to_string(diagnostic->offset);
  const Module &module = std::get<Module>(result);
  return textWithVariants(module, rewrite(module, {}));
}

} // namespace

TEST_CASE("whether bodies are read one by one makes no difference") {
  std::string loop = "mov.u32 %r1,%ctaid.x; L: add.s32 %r1,%r1,1; bar.sync 0; "
                     "setp.lt.s32 %p1,%r1,%r2; @%p1 bra L; ret;";
  std::string other = "\n.visible .entry m(.param .u64 p)\n{ .reg .b32 %r<3>; ";
  std::string callee = ".func f() { .reg .b32 %r; mov.u32 %r,%ctaid.x; ret; }\n";
  for (const std::string &text :
       {moduleWith(loop), moduleWith(loop) + other + "mov.u32 %r1,%nctaid.y; ret; }\n",
        moduleWith(loop, callee) + other + "call f; ret; }\n",         // keeps all from here on
        moduleWith("call f; ret;", callee) + other + "ret; }\n",       // from the first one on
        moduleWith(loop) + other + "mov.u32 %r1 %r2; }\n",             // no PTX
        moduleWith(loop) + other + "ret; }\n.entry m() {ret;}\n",      // a second m
        moduleWith("mov.u32 %r1 %r2;") + ".nonsense\n",                // two errors: the first
        moduleWith("mov.u32 %r1, (1 }; ret; {}") + other + "ret; }\n", // parses, but braces cross
        std::string(".version")}) {
    CAPTURE(text);
    CHECK(rewrittenText(text) == rewrittenModule(text));
  }
}

TEST_CASE("registers that are made of themselves, and long ways to make one") {
  auto checkpointOf = [](const std::string &made) {
    return variantOf(parsed(moduleWith("ld.param.u64 %rd1,[p]; " + made +
                                       "L: st.global.u32 [%rd1],%r1; st.global.u32 [%rd1+4],%r2; "
                                       "ld.global.u32 %r6,[%rd1]; add.s32 %r6,%r6,1; "
                                       "setp.lt.s32 %p1,%r6,1000; @%p1 bra L; ret;")),
                     Kind::Checkpoint);
  };
  // Undefined at first, but PTX.
  CHECK(contains(checkpointOf("mov.b32 %r1,%r2; mov.b32 %r2,%r1;"), ".entry"));
  CHECK(contains(checkpointOf("mov.u64 %rd2,%rd3; mov.u64 %rd3,%rd2; ld.param.u32 %r1,[%rd3]; "
                              "mov.u32 %r2,%r1;"),
                 ".entry"));
  std::string chain = ".reg .b32 %c<100001>; mov.u32 %c0,%tid.x; ";
  for (int i = 0; i != 100000; ++i)
    chain += "add.s32 %c" + std::to_string(i + 1) + ",%c" + std::to_string(i) + ",1; ";
  CHECK(contains(checkpointOf(chain + "mov.u32 %r1,%c100000; mov.u32 %r2,%r1;"), ".entry"));
}

TEST_CASE("a cap on registers stands in the header, of whatever version and with whatever body") {
  for (std::string prelude : {".version 9.2\n.target sm_120a\n.address_size 64\n",
                              "// no address size\n.version 8.0\n.target sm_90, debug\n"}) {
    prelude += ".reg .pred %all;\n.global .u32 table[4];\n";
    std::string header = ".visible .entry k(.param .u64 p, .param .align 8 .b8 s[16])\n"
                         ".reqntid 64, 1, 1 // of {64}\n.pragma \"{\";";
    std::string body = "\n{\n\t.reg .b32 %r;\n\t@%all bra out;\n\tmov.b32 %r, table;\n"
                       "\tcut.of.tomorrow.b8 {%r}, [%r];\nout:\n\tret;\n}";
    Module module = parsed(prelude + header + body);
    std::string capped = withRegisterCap(module, header + body, 40);
    CHECK(capped == header + "\n.maxnreg 40\n" + body);
    Module read = parsed(prelude + capped);
    CHECK(read.function("k")->directive("maxnreg"));
  }
}
