// Helpers that parse a test's text and find parts of the module.
#ifndef TALLY_UNITTESTS_PTX_PARSE_TEXT_H
#define TALLY_UNITTESTS_PTX_PARSE_TEXT_H

#include "tally/ptx/syntax/parser.h"
#include "tally/ptx/syntax/render.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptx::test {

inline const char *const header = ".version 9.0\n.target sm_90\n.address_size 64\n";

/// Parses `text`; fails the test case with the diagnostic where it does not parse.
inline Module parseText(const std::string &text) {
  auto result = parse(text);
  if (const auto *diagnostic = std::get_if<Diagnostic>(&result))
    FAIL(render(*diagnostic, "test.ptx", text));
  return std::get<Module>(std::move(result));
}

/// Parses a kernel named `k` with this body.
inline Module parseBody(const std::string &body) {
  return parseText(header + (".entry k()\n{\n" + body) + "\n}\n");
}

inline std::string readInput(const std::string &name) {
  std::ifstream file(std::string(TALLY_PTX_INPUTS) + "/" + name, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::vector<const Statement *> statementsOf(const Function &function, StatementKind kind) {
  std::vector<const Statement *> found;
  for (const Statement &statement : function.body)
    if (statement.kind == kind)
      found.push_back(&statement);
  return found;
}

/// Returns the n-th instruction with this opcode in `function`.
inline const Instruction &instruction(const Function &function, std::string_view opcode,
                                      std::size_t n = 0) {
  for (const Statement *statement : statementsOf(function, StatementKind::Instruction))
    if (statement->instruction.opcode == opcode && n-- == 0)
      return statement->instruction;
  FAIL("no such instruction: " << std::string(opcode));
  static const Instruction none;
  return none;
}

inline const char *const inputs[] = {"early_exit.ptx", "llvm_dialect.ptx", "calls.ptx",
                                     "debug.ptx",      "hopper.ptx",       "declarations.ptx",
                                     "lenient.ptx"};

} // namespace tally::ptx::test

namespace doctest {
template <> struct StringMaker<std::string_view> {
  static String convert(std::string_view text) {
    return String(text.data(), static_cast<String::size_type>(text.size()));
  }
};
} // namespace doctest

#endif
