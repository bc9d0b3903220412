// A module that is read one entry at a time equals the module that parse() gives.
#include "parse_text.h"

#include "tally/ptx/syntax/entry_reader.h"
#include "tally/ptx/syntax/printer.h"

using namespace tally::ptx;
using namespace tally::ptx::test;

namespace {

std::vector<std::string> textsOf(const Function &function) {
  std::vector<std::string> texts;
  for (const Statement &statement : function.body) {
    texts.emplace_back(statement.leading);
    texts.emplace_back(statement.text);
    for (const Operand &operand : statement.instruction.operands)
      texts.push_back(std::string(operand.text) + ' ' + std::to_string(operand.reg));
  }
  return texts;
}

/// Reads the bodies of `text` one after the other, last first; returns the first difference from
/// parse().
std::string readsOtherwise(const std::string &text, bool keepsAll) {
  const Module whole = parseText(text);
  EntryReader reader(text);
  if (!reader.isGood())
    return "the outline does not parse";
  if (print(reader.module()) != text)
    return "the outline does not print back";
  if (keepsAll && !reader.readAll())
    return "not all can be read";
  const auto &items = reader.module().items();
  for (std::size_t i = items.size(); i-- != 0;) {
    if (!items[i].isKernel())
      continue;
    if (items[i].function->body.empty() == keepsAll || !reader.read(i))
      return "a body is there too soon, or not at all";
    const Function &one = *items[i].function, &other = *whole.items()[i].function;
    if (textsOf(one) != textsOf(other) || one.registerCount != other.registerCount)
      return "a body differs";
    if (print(reader.module()) != text)
      return "with a body the module does not print back";
  }
  return {};
}

} // namespace

TEST_CASE("bodies are the same, read one by one or all") {
  for (const char *name : inputs)
    for (bool keepsAll : {false, true}) {
      CAPTURE(name);
      CHECK(readsOtherwise(readInput(name), keepsAll) == "");
    }
}

TEST_CASE("braces where they mean nothing do not end a body") {
  for (const char *body :
       {"// }\nret;", "/* } { */ ret;", ".pragma \"}\"; ret;", "{ .reg .b32 %r; { ret; } }",
        "mov.u32 a, 4/2; ret;", ".reg .f32 %f<4>; mov.b64 {%f1,%f2}, %f3; // \" \n ret;"}) {
    CAPTURE(body);
    CHECK(readsOtherwise(std::string(header) + ".entry a() {" + body + "}\n.entry b(){ret;}\n",
                         false) == "");
  }
}

TEST_CASE("only the entry that was read last has a body") {
  EntryReader reader(std::string(header) + ".func f() {ret;}\n.entry a(){.reg .b32 %r<4>; ret;}\n"
                                           ".entry b(.param .u32 n){exit;}\n");
  REQUIRE(reader.isGood());
  const Module &module = reader.module();
  CHECK(module.function("f")->body.size() == 3);
  const Function &a = *module.function("a"), &b = *module.function("b");
  REQUIRE(reader.read(4));
  CHECK(a.registerCount == 4);
  REQUIRE(reader.read(5));
  CHECK(a.body.empty());
  CHECK(a.registerCount == 0);
  CHECK(b.body.size() == 3);
  REQUIRE(reader.readAll());
  REQUIRE(reader.read(4));
  CHECK(a.body.size() == 4);
  CHECK(b.body.size() == 3);
  const Module kept = reader.takeModule();
  CHECK(kept.function("b")->body[1].text == "exit;");
}

TEST_CASE("an error is met where it is, and the text is given back") {
  const std::string inBody = std::string(header) + ".entry a(){ret;}\n.entry b(){mov %r1 %r2;}\n";
  EntryReader late(inBody);
  REQUIRE(late.isGood());
  CHECK(late.read(3));
  CHECK_FALSE(late.read(4));
  CHECK_FALSE(late.isGood());
  CHECK_FALSE(late.read(3));
  CHECK(late.takeSource() == inBody);

  for (const char *bad :
       {".entry a(){ret;", ".entry a(){ \"", ".entry a(){ /* ", ".nonsense", ""}) {
    CAPTURE(bad);
    CHECK_FALSE(EntryReader(*bad ? header + std::string(bad) : std::string()).isGood());
  }
}
