// The parse of instructions and operands.
#include "parse_text.h"

#include <bit>

using namespace tally::ptx;
using namespace tally::ptx::test;

namespace {

/// Parses the operands of `op OPERANDS;` in a kernel with %r<8>, %rd<4>, %p<4> and the vector %v.
struct Parsed {
  explicit Parsed(const std::string &operands)
      : module(parseBody(".reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<4>; .reg .v4 .f32 %v;\n"
                         "op " +
                         operands + ";")),
        operands(instruction(*module.function("k"), "op").operands) {}
  const Operand &operator[](std::size_t index) const { return operands[index]; }

  Module module;
  std::span<const Operand> operands;
};

} // namespace

TEST_CASE("guard, opcode and modifiers") {
  const Module module = parseBody(".reg .pred %p<2>;\n"
                                  "@!%p1 cp.async.bulk.shared::cluster.L2::128B.2d;\n@%p0 ret;");
  const Function &kernel = *module.function("k");
  const Instruction &copy = instruction(kernel, "cp");
  REQUIRE(copy.guard);
  CHECK(copy.guard->predicate.negated);
  CHECK(copy.guard->predicate.text == "!%p1");
  CHECK(copy.guard->predicate.symbol == "%p1");
  CHECK(copy.guard->predicate.reg == 1);
  CHECK(copy.has("shared::cluster"));
  CHECK(copy.has("L2::128B"));
  CHECK(copy.has("2d"));
  CHECK(!copy.has("shared"));
  CHECK(copy.modifiers.size() == 5);
  CHECK(!instruction(kernel, "ret").guard->predicate.negated);
}

TEST_CASE("registers, special registers and symbols") {
  const Parsed op("%r3, -%r4, !%p1, %v.y, %tid.x, %laneid, name, name+12, name-4, %r2.h1, _");
  CHECK(op[0].kind == OperandKind::Register);
  CHECK(op[0].reg == 3);
  CHECK(op[1].negated);
  CHECK(op[1].reg == 4);
  CHECK(op[1].text == "-%r4");
  CHECK(op[2].negated);
  CHECK(op[2].kind == OperandKind::Register);
  CHECK(op[3].component == "y");
  CHECK(op[3].kind == OperandKind::Register);
  CHECK(op[4].kind == OperandKind::SpecialRegister);
  CHECK(op[4].symbol == "%tid");
  CHECK(op[4].component == "x");
  CHECK(op[4].text == "%tid.x");
  CHECK(op[5].symbol == "%laneid");
  CHECK(op[5].component.empty());
  CHECK(op[6].kind == OperandKind::Symbol);
  CHECK(op[6].reg == noRegister);
  CHECK(op[7].bits == 12);
  CHECK(op[7].symbol == "name");
  CHECK(op[7].text == "name+12");
  CHECK(op[8].bits == ~std::uint64_t{3});
  CHECK(op[9].component == "h1");
  CHECK(op[10].kind == OperandKind::Sink);
}

TEST_CASE("integers in every notation") {
  const Parsed op("5, -5, 0x1F, 0b101, 017, 5U, 0x10U, -9223372036854775808, 18446744073709551615, "
                  "WARP_SZ, (1 + 2) * 4 - -3, ~0, 0");
  const std::uint64_t expected[] = {
      5,  ~std::uint64_t{4}, 31, 5, 15, 5, 16, std::uint64_t{1} << 63, ~std::uint64_t{0}, 32,
      15, ~std::uint64_t{0}, 0};
  REQUIRE(op.operands.size() == std::size(expected));
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    CAPTURE(i);
    CHECK(op[i].kind == OperandKind::Integer);
    CHECK(op[i].bits == expected[i]);
    CHECK(!op[i].negated);
  }
}

TEST_CASE("floating-point constants keep their bits") {
  const Parsed op(
      "0f3F800000, 0F7fc00001, 0d3FF0000000000000, 1.5, -1.5, 2.5e-3, 1e3, -0f3F800000");
  CHECK(op[0].kind == OperandKind::Float32);
  CHECK(op[0].bits == 0x3F800000);
  CHECK(op[1].bits == 0x7fc00001);
  CHECK(op[2].kind == OperandKind::Float64);
  CHECK(op[2].bits == 0x3FF0000000000000);
  CHECK(op[3].kind == OperandKind::Float64);
  CHECK(std::bit_cast<double>(op[3].bits) == 1.5);
  CHECK(std::bit_cast<double>(op[4].bits) == -1.5);
  CHECK(std::bit_cast<double>(op[5].bits) == 2.5e-3);
  CHECK(std::bit_cast<double>(op[6].bits) == 1000.0);
  CHECK(op[7].bits == 0xBF800000);
}

TEST_CASE("addresses") {
  const Parsed op("[%rd1], [%rd2+16], [%r1+-8], [name+4], [%rd3 - 4], [64], [name+4+2*8]");
  for (const Operand &operand : op.operands)
    CHECK(operand.kind == OperandKind::Address);
  CHECK(op[0].children[0].kind == OperandKind::Register);
  CHECK(op[0].bits == 0);
  CHECK(op[1].bits == 16);
  CHECK(op[1].text == "[%rd2+16]");
  CHECK(op[1].children[0].text == "%rd2");
  CHECK(op[2].bits == ~std::uint64_t{7});
  CHECK(op[3].children[0].kind == OperandKind::Symbol);
  CHECK(op[3].children[0].bits == 0);
  CHECK(op[3].children[0].text == "name");
  CHECK(op[3].bits == 4);
  CHECK(op[4].bits == ~std::uint64_t{3});
  CHECK(op[5].children[0].kind == OperandKind::Integer);
  CHECK(op[5].children[0].bits == 64);
  CHECK(op[5].bits == 0);
  CHECK(op[6].bits == 20);
}

TEST_CASE("addresses with coordinates, pairs and vectors") {
  const Parsed op(
      "[%rd1, {%r1, %r2, 7}], %r1|%p2, _|%p3, {%r1, _, {%r2}}, [%rd1, %rd2, {%r3}], {}");
  REQUIRE(op[0].children.size() == 2);
  CHECK(op[0].children[1].kind == OperandKind::Vector);
  CHECK(op[0].children[1].children.size() == 3);
  CHECK(op[0].children[1].children[1].reg == 2);
  CHECK(op[0].children[1].text == "{%r1, %r2, 7}");
  CHECK(op[1].kind == OperandKind::Pair);
  CHECK(op[1].children[0].text == "%r1");
  CHECK(op[1].children[1].text == "%p2");
  CHECK(op[1].children[1].kind == OperandKind::Register);
  CHECK(op[1].text == "%r1|%p2");
  CHECK(op[2].children[0].kind == OperandKind::Sink);
  CHECK(op[3].children[1].kind == OperandKind::Sink);
  CHECK(op[3].children[2].children[0].reg == 2);
  CHECK(op[4].children.size() == 3);
  CHECK(op[5].kind == OperandKind::Vector);
  CHECK(op[5].children.empty());
}

TEST_CASE("what is not understood is opaque, and still shows the registers in it") {
  const Parsed op("7 >> 1, [%rd1+%r2], \"text, with ; in it\", !name, (.s64) %r3");
  for (const Operand &operand : op.operands)
    CHECK(operand.kind == OperandKind::Opaque);
  CHECK(op[0].text == "7 >> 1");
  REQUIRE(op[1].children.size() == 2);
  CHECK(op[1].children[0].kind == OperandKind::Register);
  CHECK(op[1].children[1].reg == 2);
  CHECK(op[2].text == "\"text, with ; in it\"");
  CHECK(op[3].children[0].kind == OperandKind::Symbol);
  CHECK(op[4].children[0].reg == 3);
}

TEST_CASE("calls: results, callee, arguments, prototype") {
  const Module module = parseText(readInput("calls.ptx"));
  const Function &kernel = *module.function("dispatch");
  const Instruction &indirect = instruction(kernel, "call", 0);
  REQUIRE(indirect.operands.size() == 4);
  CHECK(indirect.operands[0].kind == OperandKind::List);
  CHECK(indirect.operands[0].children[0].symbol == "retval0");
  CHECK(indirect.operands[1].kind == OperandKind::Register);
  CHECK(indirect.operands[2].children.size() == 2);
  CHECK(indirect.operands[3].symbol == "prototype_0");
  const Instruction &direct = instruction(kernel, "call", 1);
  CHECK(direct.has("uni"));
  CHECK(direct.operands[0].children[0].kind == OperandKind::Register);
  CHECK(direct.operands[1].symbol == "add_pair");
  CHECK(direct.operands[2].children[1].bits == 4);
  CHECK(instruction(kernel, "call", 2).operands.size() == 1);

  CHECK(statementsOf(kernel, StatementKind::Prototype)[0]->label == "prototype_0");
  const auto targets = statementsOf(kernel, StatementKind::BranchTargets);
  REQUIRE(targets.size() == 2);
  CHECK(targets[0]->label == "targets");
  CHECK(targets[0]->names[0] == "triple");
  REQUIRE(targets[1]->names.size() == 2);
  CHECK(targets[1]->names[1] == "L1");
}

TEST_CASE("an array with an index is the address of that element") {
  const Module module = parseText(header + std::string(R"(.global .u16 pairs[8];
.global .v2 .f32 vectors[4];
.entry k(.param .u32 args[3])
{
	.reg .b32 %r<4>; .reg .b64 %rd<2>; .shared .b64 own[2];
	ld.global.u16 %r1, pairs[3];
	ld.global.f32 %r1, vectors[1+1];
	ld.param.u32 %r1, args [2];
	st.shared.u64 own[1], %rd1;
	mov.u64 %rd1, pairs[5];
	ld.global.u16 %r1, pairs[%r2];
	ret;
}
)"));
  const Function &kernel = *module.function("k");
  const auto check = [&](const Operand &operand, std::string_view name, std::uint64_t offset) {
    CHECK(operand.kind == OperandKind::Address);
    CHECK(operand.bits == offset);
    REQUIRE(operand.children.size() == 1);
    CHECK(operand.children[0].kind == OperandKind::Symbol);
    CHECK(operand.children[0].symbol == name);
    CHECK(operand.children[0].text == name);
    CHECK(operand.children[0].bits == 0);
  };
  check(instruction(kernel, "ld", 0).operands[1], "pairs", 6);
  CHECK(instruction(kernel, "ld", 0).operands[1].text == "pairs[3]");
  check(instruction(kernel, "ld", 1).operands[1], "vectors", 8); // two floats, as ptxas 13.0 counts
  check(instruction(kernel, "ld", 2).operands[1], "args", 8);
  check(instruction(kernel, "st").operands[0], "own", 8);
  const Operand &moved = instruction(kernel, "mov").operands[1];
  CHECK(moved.kind == OperandKind::Symbol);
  CHECK(moved.bits == 10);
  // An index by a register: the operand tells only the names in it.
  const Operand &indexed = instruction(kernel, "ld", 3).operands[1];
  CHECK(indexed.kind == OperandKind::Opaque);
  REQUIRE(indexed.children.size() == 2);
  CHECK(indexed.children[1].reg == 2);
}
