// Any bytes give a module or a diagnostic: never a crash, and never a hang (ctest has a time
// limit).
#include "parse_text.h"

#include "support/mutate.h"
#include "tally/ptx/syntax/printer.h"

using namespace tally::ptx;
using namespace tally::ptx::test;

namespace {

/// A module must print back; a diagnostic must lie in the text and be renderable.
bool isModuleOrDiagnostic(const std::string &text) {
  const auto result = parse(text);
  if (const auto *module = std::get_if<Module>(&result))
    return print(*module) == text;
  const Diagnostic &diagnostic = std::get<Diagnostic>(result);
  return !diagnostic.message.empty() && diagnostic.offset <= text.size() &&
         diagnostic.length <= text.size() - diagnostic.offset &&
         !render(diagnostic, "f", text).empty();
}

std::string repeated(std::string_view piece, std::size_t count) {
  std::string text;
  text.reserve(piece.size() * count);
  for (std::size_t i = 0; i < count; ++i)
    text += piece;
  return text;
}

} // namespace

TEST_CASE("every prefix of every input") {
  for (const char *name : inputs) {
    const std::string text = readInput(name);
    for (std::size_t size = 0; size <= text.size(); size += 3) {
      CAPTURE(name);
      CAPTURE(size);
      REQUIRE(isModuleOrDiagnostic(text.substr(0, size)));
    }
  }
}

TEST_CASE("1,000 damaged modules") {
  std::size_t modules = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    CAPTURE(seed);
    const std::string text = readInput(inputs[seed % std::size(inputs)]);
    const std::string damaged =
        tally::test::mutate(text, seed, std::string_view("{}()[]<>;:,.@!|+-*%\"/\\_$09\0\x80", 28));
    REQUIRE(isModuleOrDiagnostic(damaged));
    modules += std::holds_alternative<Module>(parse(damaged));
  }
  // The damage is sometimes fatal and sometimes not.
  CHECK(modules > 50);
  CHECK(modules < 950);
}

TEST_CASE("inputs made to exhaust stack, memory or time") {
  const std::string start = std::string(header) + ".entry k() { .reg .b32 %r<4>; ";
  const std::size_t many = 200000;
  const std::string cases[] = {
      start + repeated("{", many),
      start + repeated("{ ", 200) + repeated("} ", 200) + "}",
      start + "op " + repeated("{", many),
      start + "op " + repeated("[", many),
      start + "op " + repeated("(", many),
      start + "call " + repeated("(", many),
      start + "op " + repeated("-", many) + "1; }",
      start + "op " + repeated("~", many),
      start + "op 1" + repeated("+1", many) + "; }",
      start + "op " + repeated("%r1|", many),
      start + "op " + repeated("{[", 30) + repeated("%r1 ", many),
      start + "op " + repeated("!", many),
      start + "op" + repeated(".m", many) + "; }",
      start + repeated("@%r1 ", many),
      start + repeated("L:", many),
      start + "mov %r" + repeated("0", many) + "1, %r" + repeated("1", many) + "; }",
      start + repeated("/*", many),
      start + repeated("/* */", many),
      start + repeated("\"", many),
      std::string(header) + ".global .b32 x = " + repeated("0xff(", many),
      std::string(header) + ".global .b32 x = " + repeated("generic(", many),
      std::string(header) + ".global .b32 x[1] = " + repeated("{", many),
      std::string(header) + ".global .b32 x" + repeated("[1]", many) + ";",
      std::string(header) + ".global .b32 x" + repeated("[4294967296]", many) + ";",
      std::string(header) + ".section .debug_x " + repeated("{", many),
      std::string(header) + ".entry k" + repeated("(", many),
      std::string(header) + repeated(".visible ", many),
      std::string(header) + ".entry k() " + repeated(".maxntid 1,", many),
      start + ".reg .b32 %q<4294967295>; }",
      start + repeated(".reg .b32 %q<4194304>;", 5),
      repeated(std::string("\0", 1), many),
      repeated("\n", many),
  };
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    CAPTURE(i);
    CHECK(isModuleOrDiagnostic(cases[i]));
  }
}

TEST_CASE("a hundred thousand names stay linear") {
  std::string text = std::string(header) + ".entry k() {\n";
  for (int i = 0; i < 100000; ++i)
    text += "{ .reg .b32 r" + std::to_string(i) + "; L" + std::to_string(i) + ": mov.b32 r" +
            std::to_string(i) + ", 1; }\n";
  CHECK(isModuleOrDiagnostic(text + "}"));
  std::string nested = std::string(header) + ".entry k() {\n";
  for (int i = 0; i < 240; ++i)
    nested += "{ .reg .b32 %r<8>; mov.b32 %r7, %r1;\n";
  nested += repeated("mov.b32 %r7, %r1;\n", 10000) + repeated("}", 241);
  const auto result = parse(nested);
  REQUIRE(std::holds_alternative<Module>(result));
  CHECK(std::get<Module>(result).function("k")->registerCount == 1920);
}
