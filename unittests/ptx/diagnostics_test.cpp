// Wrong input: the diagnostic's message, and the bytes that it points at.
#include "parse_text.h"

using namespace tally::ptx;
using namespace tally::ptx::test;

namespace {

/// Returns the diagnostic of `text`; its message is "" where the text parses.
Diagnostic diagnose(const std::string &text) {
  auto result = parse(text);
  const auto *diagnostic = std::get_if<Diagnostic>(&result);
  return diagnostic ? *diagnostic : Diagnostic{};
}

/// Checks the message and the underlined text for a kernel's body.
void checkBody(const std::string &body, const std::string &message, const std::string &where) {
  const std::string text = header + (".entry k()\n{\n.reg .b32 %r<4>;\n" + body) + "\n}\n";
  const Diagnostic diagnostic = diagnose(text);
  CAPTURE(body);
  CHECK(diagnostic.message == message);
  CHECK(text.substr(diagnostic.offset, diagnostic.length) == where);
}

void checkModule(const std::string &items, const std::string &message, const std::string &where) {
  const std::string text = header + items;
  const Diagnostic diagnostic = diagnose(text);
  CAPTURE(items);
  CHECK(diagnostic.message == message);
  CHECK(text.substr(diagnostic.offset, diagnostic.length) == where);
}

} // namespace

TEST_CASE("wrong statements") {
  checkBody("mov.u32 %r1, %r2\nadd.s32 %r1, %r2, %r3;", "expected ',' or ';' after this", "%r2");
  checkBody("ld.global.u32 %r1, [%r2]\nret;", "expected ',' or ';' after this", "]");
  checkBody("add.s32 %r1, , %r3;", "expected an operand", ",");
  checkBody("@%q bra L;", "no register of this name is declared here", "%q");
  // The parser reports the number even where no later step reads the operand.
  checkBody("build id: cl-72849red.global.add.u32428 trap;",
            "this is not a number, or one of more than 64 bits", "72849red.global");
  checkBody("@_ bra L;", "no register of this name is declared here", "_");
  checkBody("@P- bra L;", "no register of this name is declared here", "P");
  checkBody("mov.u32 %r1, 0x1g;", "this is not a number, or one of more than 64 bits", "0x1g");
  checkBody("mov.u32 %r1, 0f3F80;", "this is not a number, or one of more than 64 bits", "0f3F80");
  checkBody("mov.u32 %r1, 18446744073709551616;",
            "this is not a number, or one of more than 64 bits", "18446744073709551616");
  checkBody("mov.u32 %r1, 09;", "this is not a number, or one of more than 64 bits", "09");
  checkBody("%r1 = 5;", "expected an instruction", "%r1");
  checkBody("#pragma", "no token starts with this character", "#");
  checkBody("/* no end", "this comment has no end", "/*");
  checkBody(".pragma \"no end;", "this string has no closing quote on its line", "\"");
  checkBody("L: L: ret;", "this name is already declared in this scope", "L");
  checkBody(".reg .b32 x, x;", "this name is already declared in this scope", "x");
  checkBody(".reg .b32 %q<4000000000>;",
            "a number of registers of at most 4194304 is expected here", "4000000000");
  checkBody(".reg .b32 %a<4000000>; .reg .b32 %b<4000000>;",
            "a function with more than 4194304 registers", "%b");
  checkBody(".reg .b33 %q;", "no type, vector size or attribute has this name", ".b33");
  checkBody(".reg .b32 %q[3];", "expected ';' after the declaration", "[");
  checkBody(std::string(255, '{'), "scopes are nested too deeply", "{");
  checkBody("op " + std::string(66, '[') + ";", "operands are nested too deeply", "[");
  checkBody(".loc 1 2;", "expected file, line and column", ";");
}

TEST_CASE("wrong modules") {
  checkModule(".entry k() { ret;", "this function's '{' is never closed", "{");
  checkModule(".entry k( { ret; }", "expected a parameter that begins with .param or .reg", "{");
  checkModule(".entry k(.param .b8 x[]) { ret; }", "a kernel's parameter has a size", "x");
  checkModule(".entry k() { ret; } .entry k() { ret; }",
              "a second body for the function of this name", "k");
  checkModule(".global .align 3 .b8 x;", "an alignment is a power of two", "3");
  checkModule(".global .b32 x[2] = {1, 2, 3};", "more initialisers than the variable has elements",
              "3");
  checkModule(".global .b32 x[4611686018427387904][16];", "this array is larger than any memory",
              "x");
  checkModule(".global .b32 x[0][4611686018427387904][16];", "this array is larger than any memory",
              "x");
  checkModule(".global .b8 x[3][2305843009213693952];", "this array is larger than any memory",
              "x");
  checkModule(".global .shared .b32 x;", "a second state space in one declaration", ".shared");
  checkModule(".global .b32 .f32 x;", "a second type in one declaration", ".f32");
  checkModule(".entry k(.param .b8 a[2147483648], .param .b8 b) { ret; }",
              "the parameters are larger than any kernel's", "b");
  checkModule("garbage", "expected a directive at module level", "garbage");
  checkModule(".section .debug_info { .b8 1", "this '{' is never closed", "{");
}

TEST_CASE("what is no module at all") {
  CHECK(diagnose("").message == "a PTX module begins with .version");
  CHECK(diagnose(std::string(3, '\0')).message == "a PTX module begins with .version");
  CHECK(diagnose(".target sm_90").message == "a PTX module begins with .version");
  CHECK(diagnose(".version nine").message == "expected a version such as 9.0");
  CHECK(diagnose("\x7f"
                 "ELF")
            .message == "no token starts with this character");
  const Diagnostic cut = diagnose(".version");
  CHECK(cut.message == "expected a version such as 9.0, but the text ends here");
  CHECK(cut.offset == 8);
}

TEST_CASE("a diagnostic is shown with its line and a caret") {
  const std::string text = ".version 9.0\n.target sm_90\n\t.global .align 12 .b8 x;\n";
  const Diagnostic diagnostic = diagnose(text);
  CHECK(render(diagnostic, "a.ptx", text) == "a.ptx:3:17: error: an alignment is a power of two\n"
                                             "\t.global .align 12 .b8 x;\n"
                                             "\t               ^~\n");
  const Diagnostic atEnd{"ends here", text.size(), 0};
  CHECK(render(atEnd, "a.ptx", text) == "a.ptx:4:1: error: ends here\n\n^\n");
  const std::string longLine = std::string(100000, 'x') + "?" + std::string(100000, 'y');
  CHECK(render({"here", 100000, 1}, "a", longLine).size() < 600);
  CHECK(render({"bell", 0, 1}, "a", "\x07").find('\x07') == std::string::npos);
}
