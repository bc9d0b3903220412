// setp, set, selp and slct. PTX ISA 9.7.6.
#include "decoder.h"

#include "handlers.h"

#include <bit>
#include <string_view>
#include <utility>

namespace tally::emulator {

namespace {

using ptx::Instruction;
using ptx::OperandKind;

constexpr std::pair<std::string_view, Comparison> comparisons[] = {
    {"eq", Comparison::Eq},   {"ne", Comparison::Ne},   {"lt", Comparison::Lt},
    {"le", Comparison::Le},   {"gt", Comparison::Gt},   {"ge", Comparison::Ge},
    {"lo", Comparison::Lt},   {"ls", Comparison::Le},   {"hi", Comparison::Gt},
    {"hs", Comparison::Ge},   {"equ", Comparison::Equ}, {"neu", Comparison::Neu},
    {"ltu", Comparison::Ltu}, {"leu", Comparison::Leu}, {"gtu", Comparison::Gtu},
    {"geu", Comparison::Geu}, {"num", Comparison::Num}, {"nan", Comparison::Nan}};

Combine combineOf(const Instruction &instruction) {
  return instruction.has("and")   ? Combine::And
         : instruction.has("or")  ? Combine::Or
         : instruction.has("xor") ? Combine::Xor
                                  : Combine::None;
}

bool isHalf(Type type) { return type == Type::F16 || type == Type::BF16; }

/// A 16-bit float operand as f32, which holds every value of both formats.
Slot widenedHalf(FunctionDecoder &decoder, const ptx::Operand &operand, Type type) {
  Slot narrow = decoder.source(operand, type);
  if (decoder.failed())
    return noSlot;
  Slot wide = decoder.temporary(4);
  decoder.emit(halfToFloatHandler(type), {wide, narrow});
  return wide;
}

/// Fills sources and handler of a comparison of `type`; the destination is the caller's.
bool comparisonOp(FunctionDecoder &decoder, const Instruction &instruction, Type type, Op &op) {
  bool found = false;
  Comparison comparison = Comparison::Eq;
  for (const auto &[name, each] : comparisons)
    if (instruction.has(name)) {
      comparison = each;
      found = true;
      break;
    }
  bool half = isHalf(type);
  op.handler = vectorHandlers().compare(comparison, half ? Type::F32 : type,
                                        instruction.has("ftz") && !half);
  if (!found || !op.handler || instruction.operands.size() < 3)
    return false;
  op.slot[1] = half ? widenedHalf(decoder, instruction.operands[1], type)
                    : decoder.source(instruction.operands[1], type);
  op.slot[2] = half ? widenedHalf(decoder, instruction.operands[2], type)
                    : decoder.source(instruction.operands[2], type);
  Combine combine = combineOf(instruction);
  if (combine != Combine::None) {
    if (instruction.operands.size() != 4)
      return false;
    bool negated = false;
    op.slot[4] = decoder.predicateSource(instruction.operands[3], negated);
    op.extra = static_cast<std::uint32_t>(combine) | (negated ? 4u : 0u);
  }
  return true;
}

bool decodeSetp(FunctionDecoder &decoder, const Instruction &instruction, Type type) {
  Op op;
  if (!comparisonOp(decoder, instruction, type, op))
    return decoder.failed();
  const ptx::Operand &to = instruction.operands[0];
  if (to.kind == OperandKind::Pair && to.children.size() == 2) {
    op.slot[0] = decoder.predicateDestination(to.children[0]);
    op.slot[3] = decoder.predicateDestination(to.children[1]);
  } else {
    op.slot[0] = decoder.predicateDestination(to);
  }
  if (op.slot[0] == noSlot)
    op.slot[0] = decoder.temporaryPredicate();
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

// set d is all ones, or 1.0f, where the comparison holds.
bool decodeSet(FunctionDecoder &decoder, const Instruction &instruction) {
  Type to = typeBeforeLast(instruction), from = lastType(instruction);
  if (to != Type::U32 && to != Type::S32 && to != Type::F32)
    return false;
  Op op;
  if (!comparisonOp(decoder, instruction, from, op))
    return decoder.failed();
  op.slot[0] = decoder.temporaryPredicate();
  Slot d = decoder.destination(instruction.operands[0], to);
  if (decoder.failed())
    return true;
  Slot outcome = op.slot[0];
  decoder.emit(op);
  Slot yes = decoder.constant(to == Type::F32 ? 0x3f800000u : fullMask, 4);
  decoder.emit(vectorHandlers().select(4), {d, yes, decoder.constant(0, 4), outcome});
  return true;
}

bool decodeSelp(FunctionDecoder &decoder, const Instruction &instruction, Type type) {
  if (instruction.operands.size() != 4)
    return false;
  bool negated = false;
  Op op;
  op.handler = vectorHandlers().select(registerSizeOf(type));
  op.slot[1] = decoder.source(instruction.operands[1], type);
  op.slot[2] = decoder.source(instruction.operands[2], type);
  op.slot[3] = decoder.predicateSource(instruction.operands[3], negated);
  op.slot[0] = decoder.destination(instruction.operands[0], type);
  op.flags = negated ? 1 : 0;
  if (!op.handler)
    return false;
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

/// slct selects a where c >= 0, else b; of a NaN, b.
bool decodeSlct(FunctionDecoder &decoder, const Instruction &instruction) {
  Type type = typeBeforeLast(instruction), by = lastType(instruction);
  if (instruction.operands.size() != 4 || (by != Type::S32 && by != Type::F32))
    return false;
  Op test;
  test.handler = vectorHandlers().compare(Comparison::Ge, by, instruction.has("ftz"));
  test.slot[1] = decoder.source(instruction.operands[3], by);
  test.slot[2] = decoder.constant(0, 4);
  test.slot[0] = decoder.temporaryPredicate();
  Slot a = decoder.source(instruction.operands[1], type);
  Slot b = decoder.source(instruction.operands[2], type);
  Slot d = decoder.destination(instruction.operands[0], type);
  Handler handler = vectorHandlers().select(registerSizeOf(type));
  if (!handler)
    return false;
  if (decoder.failed())
    return true;
  decoder.emit(test);
  decoder.emit(handler, {d, a, b, test.slot[0]});
  return true;
}

} // namespace

bool decodeCompare(FunctionDecoder &decoder, const Instruction &instruction) {
  Type type = lastType(instruction);
  if (instruction.opcode == "setp")
    return decodeSetp(decoder, instruction, type);
  if (instruction.opcode == "set")
    return decodeSet(decoder, instruction);
  if (instruction.opcode == "selp" && type != Type::None && type != Type::Pred)
    return decodeSelp(decoder, instruction, type);
  if (instruction.opcode == "slct")
    return decodeSlct(decoder, instruction);
  return false;
}

} // namespace tally::emulator
