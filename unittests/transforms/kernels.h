// Makes small modules for the tests from a kernel's body.
#ifndef TALLY_UNITTESTS_TRANSFORMS_KERNELS_H
#define TALLY_UNITTESTS_TRANSFORMS_KERNELS_H

#include "tally/ptx/analysis/kernel_analysis.h"
#include "tally/ptx/syntax/parser.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <string_view>

namespace tally::ptx {

/// Returns a module with one kernel `k(p: u64 pointer, n: u32)`, some registers declared, and
/// `before` in front of it.
inline std::string moduleWith(std::string_view body, std::string_view before = "") {
  std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n";
  text += before;
  text += "\n.visible .entry k(.param .u64 p, .param .u32 n)\n{\n"
          "\t.reg .pred %p<8>;\n\t.reg .b32 %r<16>;\n\t.reg .b64 %rd<16>;\n\t.reg .f32 %f<8>;\n";
  text += body;
  text += "\n}\n";
  return text;
}

inline Module parsed(std::string text) {
  auto result = parse(std::move(text));
  if (auto *diagnostic = std::get_if<Diagnostic>(&result))
    FAIL("does not parse: " << diagnostic->message << " at " << diagnostic->offset);
  return std::move(std::get<Module>(result));
}

/// Kinds that yield between blocks. The other kinds poll in loops and need a loop, which most
/// kernels here lack.
inline constexpr KindSet betweenBlocks = onSlice | onGuard | onPersistent;

/// Returns the codes of all findings in kernel `k`.
inline std::set<std::string> reasonsIn(const Module &module) {
  ModuleFacts facts(module);
  const Function *kernel = module.function("k");
  REQUIRE(kernel);
  std::set<std::string> codes;
  for (const Finding &finding : analyzeKernel(facts, *kernel, betweenBlocks).findings)
    codes.emplace(factsOf(finding.reason).code);
  return codes;
}

inline std::set<std::string> reasonsOf(std::string_view body, std::string_view before = "") {
  Module module = parsed(moduleWith(body, before));
  return reasonsIn(module);
}

using Codes = std::set<std::string>;

} // namespace tally::ptx

#endif
