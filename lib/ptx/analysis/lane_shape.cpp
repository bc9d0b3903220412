// The part of Uniformity that follows integers modulo the warp size: see the header of Uniformity.
#include "string_ref.h"
#include "tally/ptx/analysis/opcodes.h"
#include "tally/ptx/analysis/uniformity.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

namespace tally::ptx {
namespace {

bool isInteger(std::string_view type) {
  return llvm::StringSwitch<bool>(ref(type))
      .Case("u32", true)
      .Case("s32", true)
      .Case("b32", true)
      .Case("u64", true)
      .Case("s64", true)
      .Case("b64", true)
      .Default(false);
}

bool hasIntegerTypes(const Instruction &instruction) {
  bool any = false;
  for (std::string_view modifier : instruction.modifiers) {
    any |= isInteger(modifier);
    if (modifier.starts_with("f") || modifier.starts_with("bf") || modifier == "sat" ||
        modifier == "u16" || modifier == "s16" || modifier == "b16" || modifier == "u8" ||
        modifier == "s8" || modifier == "hi" || modifier.ends_with("x2"))
      return false;
  }
  return any;
}

} // namespace

Uniformity::Shape Uniformity::meet(Shape a, Shape b) {
  if (a == Shape::Unset || b == Shape::Unset)
    return a == Shape::Unset ? b : a;
  if (a == b)
    return a;
  if (isAligned(a) && isAligned(b))
    return Shape::Aligned;
  return isLane(a) && isLane(b) ? Shape::Lane : Shape::Other;
}

Uniformity::Shape Uniformity::sum(Shape a, Shape b) {
  if (a == Shape::Other || b == Shape::Other || (isLane(a) && isLane(b)))
    return Shape::Other;
  if (a == Shape::Unset || b == Shape::Unset)
    return Shape::Unset;
  if (a == Shape::Zero || b == Shape::Zero)
    return a == Shape::Zero ? b : a;
  return isLane(a) || isLane(b) ? Shape::Lane : Shape::Aligned;
}

Uniformity::Shape Uniformity::shapeOfOperand(const Operand &operand) const {
  switch (operand.kind) {
  case OperandKind::Integer:
    if (operand.bits == 0 || operand.bits == 32)
      return operand.bits == 0 ? Shape::Zero : Shape::WarpSize;
    return operand.bits % 32 == 0 ? Shape::Aligned : Shape::Other;
  case OperandKind::SpecialRegister:
    if (operand.component != "x")
      return Shape::Other;
    if (specialRegisterName(operand) == "tid")
      return Shape::Thread;
    return specialRegisterName(operand) == "ntid" ? Shape::Aligned : Shape::Other;
  case OperandKind::Register:
    if (operand.negated || !operand.component.empty() ||
        (isAligned(shapes[values.of(operand)]) && ofValue(operand) == Variation::Threads))
      return Shape::Other;
    return shapes[values.of(operand)];
  default:
    return Shape::Other;
  }
}

Uniformity::Shape Uniformity::shapeOfProduct(const Operand &a, const Operand &b) const {
  if (ofOperand(a) == Variation::Threads || ofOperand(b) == Variation::Threads)
    return Shape::Other;
  Shape left = shapeOfOperand(a), right = shapeOfOperand(b);
  if (isAligned(left) || isAligned(right))
    return Shape::Aligned;
  return left == Shape::Unset || right == Shape::Unset ? Shape::Unset : Shape::Other;
}

Uniformity::Shape Uniformity::shapeOfResult(const Instruction &instruction) const {
  const auto &operands = instruction.operands;
  if (operands.size() < 2 || operands[0].kind != OperandKind::Register ||
      !hasIntegerTypes(instruction))
    return Shape::Other;
  std::string_view opcode = instruction.opcode;
  if ((opcode == "mov" || opcode == "cvt") && operands.size() == 2)
    return shapeOfOperand(operands[1]);
  if (opcode == "add" && operands.size() == 3)
    return sum(shapeOfOperand(operands[1]), shapeOfOperand(operands[2]));
  if (opcode == "sub" && operands.size() == 3)
    return isLane(shapeOfOperand(operands[2]))
               ? Shape::Other
               : sum(shapeOfOperand(operands[1]), shapeOfOperand(operands[2]));
  if (opcode == "mul" && operands.size() == 3)
    return shapeOfProduct(operands[1], operands[2]);
  if (opcode == "mad" && operands.size() == 4)
    return sum(shapeOfProduct(operands[1], operands[2]), shapeOfOperand(operands[3]));
  if (opcode == "shl" && operands.size() == 3 && operands[2].kind == OperandKind::Integer &&
      operands[2].bits >= 5 && ofOperand(operands[1]) != Variation::Threads)
    return Shape::Aligned;
  if (opcode == "and" && operands.size() == 3 && operands[2].kind == OperandKind::Integer &&
      operands[2].bits % 32 == 0)
    return isLane(shapeOfOperand(operands[1])) ? Shape::Aligned : shapeOfOperand(operands[1]);
  if (opcode == "shr" && operands.size() == 3)
    return shapeOfShift(shapeOfOperand(operands[1]), operands[2]);
  return Shape::Other;
}

/// Handles a signed division by 32 (%tid.x >> 31 is 0): a thread's index is below 1,024.
Uniformity::Shape Uniformity::shapeOfShift(Shape left, const Operand &by) {
  bool clears = by.kind == OperandKind::Integer && by.bits >= 10;
  if (left == Shape::Zero || (left == Shape::Thread && clears))
    return Shape::Zero;
  return left == Shape::Unset ? Shape::Unset : Shape::Other;
}

bool Uniformity::dropsLane(const Instruction &instruction) const {
  const auto &operands = instruction.operands;
  if (operands.size() != 3 || !hasIntegerTypes(instruction))
    return false;
  Shape left = shapeOfOperand(operands[1]);
  if (!isLane(left) && left != Shape::Unset)
    return false;
  const Operand &right = operands[2];
  bool constant = right.kind == OperandKind::Integer;
  if (instruction.opcode == "shr")
    return constant && right.bits >= 5 && right.bits < 64;
  if (instruction.opcode == "and")
    return constant && right.bits % 32 == 0;
  if (instruction.opcode == "div") {
    Shape by = shapeOfOperand(right);
    return (by == Shape::WarpSize || by == Shape::Unset) && !instruction.has("s32") &&
           !instruction.has("s64");
  }
  if (instruction.opcode != "setp" || ofOperand(right) == Variation::Threads)
    return false;
  // The warp's values lie in [b, b + 31], b a multiple of 32, so they are on one side of these
  // bounds.
  bool below = instruction.has("lt") || instruction.has("ge") || instruction.has("lo") ||
               instruction.has("hs");
  bool upTo = instruction.has("le") || instruction.has("gt") || instruction.has("ls") ||
              instruction.has("hi");
  Shape bound = shapeOfOperand(right);
  return (below && (isAligned(bound) || bound == Shape::Unset)) ||
         (upTo && constant && right.bits % 32 == 31);
}

} // namespace tally::ptx
