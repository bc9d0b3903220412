// print(parse(x)) == x, and the views of the IR tile the source.
#include "parse_text.h"

#include "tally/ptx/syntax/printer.h"

using namespace tally::ptx;
using namespace tally::ptx::test;

TEST_CASE("every input prints back byte for byte") {
  for (const char *name : inputs) {
    CAPTURE(name);
    const std::string text = readInput(name);
    CHECK(print(parseText(text)) == text);
  }
}

TEST_CASE("other line ends and no line ends print back") {
  std::string text = readInput("calls.ptx");
  std::string carriage;
  for (char c : text)
    carriage += c == '\n' ? std::string("\r\n") : std::string(1, c);
  CHECK(print(parseText(carriage)) == carriage);

  text = ".version 9.0 .target sm_90 .entry k(){ret;}";
  CHECK(print(parseText(text)) == text);
}

TEST_CASE("NUL bytes after the text, as a fatbin has them, are kept") {
  const std::string text = readInput("early_exit.ptx") + std::string(5, '\0');
  const Module module = parseText(text);
  CHECK(print(module) == text);
  CHECK(module.trailing().ends_with('\0'));
}

TEST_CASE("items and statements tile the source without gap or overlap") {
  for (const char *name : inputs) {
    CAPTURE(name);
    const Module module = parseText(readInput(name));
    const char *at = module.source().data();
    const auto follows = [&](std::string_view piece) {
      const bool good = piece.data() == at;
      at = piece.data() + piece.size();
      return good;
    };
    for (const Item &item : module.items()) {
      CHECK(follows(item.leading));
      if (!item.function) {
        CHECK(follows(item.text));
        continue;
      }
      CHECK(follows(item.function->header));
      for (const Statement &statement : item.function->body) {
        CHECK(follows(statement.leading));
        CHECK(follows(statement.text));
        CHECK(!statement.text.empty());
      }
      CHECK(at == item.text.data() + item.text.size());
    }
    CHECK(follows(module.trailing()));
    CHECK(at == module.source().data() + module.source().size());
  }
}

TEST_CASE("a module stays whole when it is moved") {
  Module first = parseText(readInput("hopper.ptx"));
  const std::string text(first.source());
  const Module second = std::move(first);
  CHECK(print(second) == text);
  CHECK(second.function("tma")->name == "tma");
}

TEST_CASE("version, target and address size") {
  const Module module = parseText(".version 8.7\n.target sm_90a, debug\n.address_size 32\n");
  CHECK(module.versionMajor() == 8);
  CHECK(module.versionMinor() == 7);
  CHECK(module.target() == "sm_90a");
  CHECK(module.targetArch() == 90);
  CHECK(module.addressSize() == 32);
  CHECK(module.items()[1].kind == ItemKind::Target);
}

TEST_CASE("lines are counted from one") {
  const Module module = parseBody("\tmov.u32 %r1, 1;\n\n\tret;");
  const Function &kernel = *module.function("k");
  CHECK(module.lineOf(module.source()) == 1);
  CHECK(module.lineOf(kernel.name) == 4);
  CHECK(module.lineOf(statementsOf(kernel, StatementKind::Instruction)[0]->text) == 6);
  CHECK(module.lineOf(statementsOf(kernel, StatementKind::Instruction)[1]->text) == 8);
  CHECK(module.lineOf(kernel.body.back().text) == 9);
}
