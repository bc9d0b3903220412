// Variables, parameters, registers, header directives and the resolution of names.
#include "parse_text.h"
#include "tally/ptx/syntax/printer.h"

#include <map>

using namespace tally::ptx;
using namespace tally::ptx::test;

namespace {

std::map<std::string_view, const Variable *> moduleVariables(const Module &module) {
  std::map<std::string_view, const Variable *> found;
  for (const Item &item : module.items())
    for (const Variable &variable : item.variables)
      found[variable.name] = &variable;
  return found;
}

} // namespace

TEST_CASE("parameters stand at their natural or written alignment") {
  const Module module = parseText(readInput("early_exit.ptx"));
  const Function &halve = *module.function("halve");
  REQUIRE(halve.parameters.size() == 5);
  const std::uint32_t offsets[] = {0, 8, 16, 48, 56};
  const std::uint64_t sizes[] = {8, 4, 32, 1, 8};
  for (std::size_t i = 0; i < 5; ++i) {
    CAPTURE(i);
    CHECK(halve.parameters[i].paramOffset == offsets[i]);
    CHECK(halve.parameters[i].sizeInBytes == sizes[i]);
  }
  CHECK(halve.parameters[2].alignment == 16);
  CHECK(halve.parameters[2].isArray);
  CHECK(halve.parameterBytes() == 64);
  CHECK(halve.parameterList.front() == '(');
  CHECK(halve.parameterList.back() == ')');
  CHECK(halve.linkage == "visible");
  CHECK(module.function("barriers")->parameterBytes() == 0);
  CHECK(module.function("barriers")->parameterList == "()");
}

TEST_CASE("the alignment after .ptr is the pointee's") {
  const Module module = parseText(readInput("llvm_dialect.ptx"));
  const Function &scale = *module.function("scale");
  CHECK(scale.linkage.empty());
  CHECK(scale.parameters[0].isPointer);
  CHECK(scale.parameters[0].alignment == 8);
  CHECK(scale.parameters[1].alignment == 8);
  CHECK(scale.parameters[1].paramOffset == 8);
  CHECK(!scale.parameters[2].isPointer);
  CHECK(scale.parameters[3].paramOffset == 24);
  CHECK(scale.parameterBytes() == 48);
}

TEST_CASE("header directives and their values") {
  const Module module = parseText(readInput("early_exit.ptx"));
  const Function &halve = *module.function("halve");
  REQUIRE(halve.directive("maxntid"));
  CHECK(halve.directive("maxntid")->text == ".maxntid 256, 1, 1");
  REQUIRE(halve.directive("maxntid")->values.size() == 3);
  CHECK(halve.directive("maxntid")->values[0] == 256);
  CHECK(halve.directive("minnctapersm")->values[0] == 2);
  CHECK(!halve.directive("reqntid"));
  const Module calls = parseText(readInput("calls.ptx"));
  CHECK(calls.function("quiet")->directive("noreturn"));
  const Module loose = parseText(readInput("lenient.ptx"));
  CHECK(loose.function("loose")->directive("blocksareclusters"));
  CHECK(loose.function("loose")->directive("pragma")->text == ".pragma \"x; y\";");
}

TEST_CASE("a definition is preferred to its declaration") {
  const Module module = parseText(readInput("calls.ptx"));
  CHECK(module.function("triple")->hasBody);
  CHECK(!module.function("triple")->isEntry);
  CHECK(module.function("triple")->results.size() == 1);
  CHECK(module.function("nothing") == nullptr);
  const Module llvm = parseText(readInput("llvm_dialect.ptx"));
  CHECK(!llvm.function("vprintf")->hasBody);
  CHECK(llvm.function("vprintf")->linkage == "extern");
}

TEST_CASE("an alias is the function that it is of") {
  const Module module = parseText(std::string(header) + ".func f() { ret; } .func g(); .alias g, f;"
                                                        ".func h(); .alias h, nothing;");
  REQUIRE(module.aliases().size() == 2);
  CHECK(module.aliases()[0].name == "g");
  CHECK(module.aliases()[0].of == "f");
  CHECK(module.function("g") == module.function("f"));
  CHECK(module.function("g")->hasBody);
  CHECK_FALSE(module.function("h")->hasBody);
}

TEST_CASE("variables of a module") {
  const Module module = parseText(readInput("declarations.ptx"));
  const auto variables = moduleVariables(module);
  CHECK(variables.at("counter")->initializers[0].value().bits == 5);
  CHECK(variables.at("shared_with_host")->alignment == 8);
  CHECK(variables.at("elsewhere")->isExtern);
  CHECK(variables.at("halves")->space == StateSpace::Const);
  CHECK(variables.at("halves")->sizeInBytes == 16);
  CHECK(variables.at("halves")->initializers[0].value().kind == OperandKind::Float64);
  CHECK(variables.at("corner")->sizeInBytes == 16);
  CHECK(variables.at("corner")->alignment == 16);
  CHECK(variables.at("counted")->elementCount == 3);
  CHECK(variables.at("counted")->sizeInBytes == 24);
  CHECK(variables.at("second")->elementCount == 4);
  CHECK(variables.at("third")->initializers.size() == 1);
  CHECK(variables.at("first")->initializers.empty());
  CHECK(variables.at("image")->type == "texref");
  CHECK(variables.at("tile")->space == StateSpace::Shared);
  const Module nvcc = parseText(readInput("early_exit.ptx"));
  const Variable &dynamic = *moduleVariables(nvcc).at("dynamic");
  CHECK(dynamic.isArray);
  CHECK(dynamic.isExtern);
  CHECK(dynamic.elementCount == 0);
  CHECK(dynamic.sizeInBytes == 0);
  CHECK(dynamic.alignment == 16);
}

TEST_CASE("an initialiser knows which element it fills") {
  const Module module =
      parseText(std::string(header) + ".global .b32 full[2][3] = {{1, -2}, {3, 4, 5}};\n"
                                      ".global .v2 .b16 pairs[2] = {{1}, {2, 3}};\n"
                                      ".global .b32 rows[][2] = {{1}, {2}};\n");
  const auto variables = moduleVariables(module);
  const auto elementsOf = [&](const char *name) {
    std::vector<std::uint64_t> elements;
    for (const Initializer &initializer : variables.at(name)->initializers)
      elements.push_back(initializer.element);
    return elements;
  };
  CHECK(elementsOf("full") == std::vector<std::uint64_t>{0, 1, 3, 4, 5});
  CHECK(elementsOf("pairs") == std::vector<std::uint64_t>{0, 2, 3});
  CHECK(elementsOf("rows") == std::vector<std::uint64_t>{0, 2});
  CHECK(variables.at("rows")->elementCount == 4);
  CHECK(variables.at("rows")->sizeInBytes == 16);
  CHECK(variables.at("full")->initializers[1].value().bits == ~std::uint64_t{1});
}

TEST_CASE("addresses in initialisers") {
  const Module module = parseText(readInput("calls.ptx"));
  const auto variables = moduleVariables(module);
  const auto table = variables.at("table")->initializers;
  CHECK(table[2].value().kind == OperandKind::Symbol);
  CHECK(table[2].value().symbol == "triple");
  CHECK(!table[2].generic);
  const auto texts = variables.at("texts")->initializers;
  CHECK(texts[1].generic);
  CHECK(texts[1].value().symbol == "message");
  CHECK(texts[1].value().bits == 8);
  CHECK(texts[1].value().text == "generic(message)+8");
  CHECK(variables.at("one")->initializers[0].value().symbol == "triple");
  const auto pieces = variables.at("pieces")->initializers;
  CHECK(pieces[1].value().kind == OperandKind::Opaque);
  CHECK(pieces[1].value().bits == 0xff00);
  CHECK(pieces[1].value().children[0].symbol == "message");
  CHECK(pieces[2].generic);
  CHECK(pieces[3].value().children[0].bits == 4);
}

TEST_CASE("a shadowing declaration has an id of its own until its scope closes") {
  const Module module = parseText(readInput("declarations.ptx"));
  const Function &kernel = *module.function("shadow");
  const auto typeOf = [&](std::size_t nthMove, std::size_t operand) -> std::string_view {
    const Operand &op = instruction(kernel, "mov", nthMove).operands[operand];
    return op.reg == noRegister ? "none" : kernel.declarationOf(op.reg).type;
  };
  CHECK(typeOf(0, 0) == "b32");
  CHECK(typeOf(0, 1) == "b32");
  CHECK(typeOf(2, 0) == "b64");  // %r<2> in the scope hides the outer %r1 …
  CHECK(typeOf(3, 0) == "b32");  // … but not %r2
  CHECK(typeOf(3, 1) == "none"); // a variable hides the register `plain`
  CHECK(typeOf(4, 0) == "b16");
  CHECK(typeOf(5, 0) == "b64");
  CHECK(typeOf(6, 0) == "b32");
  CHECK(typeOf(6, 1) == "b32");
  CHECK(instruction(kernel, "mov", 6).operands[0].reg == kernel.registers[0].first + 1);
  const Instruction &zero = instruction(kernel, "mov", 11);
  CHECK(zero.operands[0].text == "%r01");
  CHECK(zero.operands[0].reg == 1);
}

TEST_CASE("register ids are dense and lead back to their declaration") {
  const Module module = parseBody(".reg .b32 %r<4>, single;\n.reg .pred %p<0>;\n"
                                  "{ .reg .v2 .f32 %v; }\n.reg .b64 %rd<2>;\nret;");
  const Function &kernel = *module.function("k");
  CHECK(kernel.registerCount == 8);
  CHECK(kernel.registers.size() == 4);
  CHECK(kernel.declarationOf(0).name == "%r");
  CHECK(kernel.declarationOf(0).isRange);
  CHECK(kernel.declarationOf(3).count == 4);
  CHECK(kernel.declarationOf(4).name == "single");
  CHECK(!kernel.declarationOf(4).isRange);
  CHECK(kernel.declarationOf(5).vectorWidth == 2);
  CHECK(kernel.declarationOf(7).type == "b64");
}

TEST_CASE("registers as parameters belong to the function") {
  const Module module = parseText(readInput("calls.ptx"));
  const Function &function = *module.function("add_pair");
  CHECK(function.registerCount == 3);
  CHECK(function.parameters[1].space == StateSpace::Register);
  const Instruction &add = instruction(function, "add");
  CHECK(add.operands[0].reg == 0);
  CHECK(add.operands[1].reg == 1);
  CHECK(add.operands[2].reg == 2);
}

TEST_CASE("statements keep their kinds") {
  const Module module = parseText(readInput("debug.ptx"));
  const Function &kernel = *module.function("traced");
  const auto locations = statementsOf(kernel, StatementKind::Location);
  REQUIRE(locations.size() == 8);
  CHECK(locations[5]->text == ".loc\t1 16 3, function_name $L__info_string0, inlined_at 1 166 19");
  CHECK(locations[6]->text == ".loc 1 17 1");
  CHECK(statementsOf(kernel, StatementKind::Label).size() == 4);
  const Module nvcc = parseText(readInput("early_exit.ptx"));
  const Function &halve = *nvcc.function("halve");
  const auto pragmas = statementsOf(halve, StatementKind::Pragma);
  REQUIRE(pragmas.size() == 3);
  CHECK(pragmas[0]->text == ".pragma \"used_bytes_mask 3855\";");
  CHECK(halve.body.front().kind == StatementKind::ScopeBegin);
  CHECK(halve.body.back().kind == StatementKind::ScopeEnd);
  CHECK(statementsOf(halve, StatementKind::Variable)[0]->variables[0].name == "halve_tile");
  CHECK(statementsOf(*nvcc.function("barriers"), StatementKind::Label).size() == 2);
}

TEST_CASE("a prototype may end where the next item begins") {
  for (const char *next : {".entry k() { ret; }", ".visible .func g() { ret; }", "",
                           ".global .b32 v;", ".file 1 \"a.cu\""}) {
    CAPTURE(next);
    const std::string text =
        header + std::string(".func (.param .u32 r) f (.param .u32 a)\n") + next;
    const Module module = parseText(text);
    REQUIRE(module.function("f"));
    CHECK_FALSE(module.function("f")->hasBody);
    CHECK(print(module) == text);
  }
  // A kernel has a body.
  CHECK(std::holds_alternative<Diagnostic>(
      parse(header + std::string(".entry k()\n.entry l(){ret;}"))));
}

TEST_CASE("what a preprocessor leaves of a line's place is no text") {
  const std::string text =
      "# 1 \"kernel.ptx\"\n" + std::string(header) +
      "#line 7\n.entry k()\n{ # 3 \"a{b.c\" 2\n\tret;\n#line 9 \"it's\"\n}\n# 5";
  const Module module = parseText(text);
  CHECK(statementsOf(*module.function("k"), StatementKind::Instruction).size() == 1);
  CHECK(print(module) == text);
  for (const char *line : {"#define X 3\n", "#pragma once\n", "#\n", "#if 0\n", "#line\n"})
    CHECK(std::holds_alternative<Diagnostic>(parse(std::string(line) + header)));
}

TEST_CASE("registers of the module are every function's") {
  const Module module = parseText(header + std::string(R"(.reg .u32 %a<3>, x;
.reg .v2 .f32 v;
.entry k() { .reg .b32 own; mov.u32 %a2, own; mov.f32 x, v.y; ret; }
.entry l() { .reg .b32 x; mov.u32 x, %a0; ret; }
)"));
  const Function &k = *module.function("k"), &l = *module.function("l");
  CHECK(k.registerCount == 6);
  REQUIRE(k.registers.size() == 4);
  CHECK(k.registers[2].vectorWidth == 2);
  CHECK(instruction(k, "mov", 0).operands[0].reg == 2);
  CHECK(instruction(k, "mov", 0).operands[1].reg == 5);
  CHECK(instruction(k, "mov", 1).operands[0].reg == 3);
  CHECK(instruction(k, "mov", 1).operands[1].reg == 4);
  CHECK(instruction(l, "mov").operands[0].reg == 5);
  CHECK(instruction(l, "mov").operands[1].reg == 0);
  const auto isRefused = [](const std::string &text) {
    return std::holds_alternative<Diagnostic>(parse(header + text));
  };
  CHECK(isRefused(".reg .u32 x; .func f() { ret; } .entry k() { call f; ret; }"));
  CHECK(isRefused(".entry k() { ret; } .reg .u32 x; .entry l() { mov.u32 x, 1; ret; }"));
  CHECK(isRefused(".reg .u32 x, x; .entry k() { ret; }"));
}
