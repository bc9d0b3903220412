// setp, set, selp and slct. PTX ISA 9.7.6.
#include "decoder.h"

#include "handlers.h"

#include <bit>
#include <optional>
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

/// Returns a 16-bit float operand as f32, which holds every value of both formats.
Slot widenedHalf(FunctionDecoder &decoder, const ptx::Operand &operand, Type type) {
  Slot narrow = decoder.source(operand, type);
  if (decoder.failed())
    return noSlot;
  Slot wide = decoder.temporary(4);
  decoder.emit(halfToFloatHandler(type), {wide, narrow});
  return wide;
}

bool isHalfPair(Type type) { return type == Type::F16x2 || type == Type::BF16x2; }

/// Returns the halves of a pair, the low half first, as f32.
std::pair<Slot, Slot> widenedPair(FunctionDecoder &decoder, const ptx::Operand &operand,
                                  Type type) {
  Slot both = decoder.source(operand, Type::B32);
  if (decoder.failed())
    return {noSlot, noSlot};
  const VectorHandlers &vector = vectorHandlers();
  Handler widen = halfToFloatHandler(type == Type::F16x2 ? Type::F16 : Type::BF16);
  Handler narrow = vector.convert(Type::U16, Type::U32);
  Slot half = decoder.temporary(2), shifted = decoder.temporary(4);
  Slot low = decoder.temporary(4), high = decoder.temporary(4);
  decoder.emit(narrow, {half, both});
  decoder.emit(widen, {low, half});
  decoder.emit(vector.integer(IntegerOp::Shr, Type::U32), {shifted, both, decoder.constant(16, 4)});
  decoder.emit(narrow, {half, shifted});
  decoder.emit(widen, {high, half});
  return {low, high};
}

std::optional<Comparison> comparisonOf(const Instruction &instruction) {
  for (const auto &[name, each] : comparisons)
    if (instruction.has(name))
      return each;
  return std::nullopt;
}

/// Emits the comparisons of a pair's low and high halves into predicates.
bool comparePairs(FunctionDecoder &decoder, const Instruction &instruction, Type type, Slot low,
                  Slot high) {
  auto comparison = comparisonOf(instruction);
  std::size_t count = instruction.operands.size();
  Combine combine = combineOf(instruction);
  if (!comparison || count != (combine == Combine::None ? 3u : 4u))
    return false;
  auto a = widenedPair(decoder, instruction.operands[1], type);
  auto b = widenedPair(decoder, instruction.operands[2], type);
  Op op;
  op.handler = vectorHandlers().compare(*comparison, Type::F32, false);
  if (combine != Combine::None) {
    bool negated = false;
    op.slot[4] = decoder.predicateSource(instruction.operands[3], negated);
    op.extra = static_cast<std::uint32_t>(combine) | (negated ? 4u : 0u);
  }
  if (decoder.failed())
    return true;
  op.slot[0] = low, op.slot[1] = a.first, op.slot[2] = b.first;
  decoder.emit(op);
  op.slot[0] = high, op.slot[1] = a.second, op.slot[2] = b.second;
  decoder.emit(op);
  return true;
}

/// setp.f16x2 p|q: p for the low halves, q for the high halves.
bool decodeSetpPair(FunctionDecoder &decoder, const Instruction &instruction, Type type) {
  const ptx::Operand &to = instruction.operands[0];
  if (to.kind != OperandKind::Pair || to.children.size() != 2)
    return false;
  Slot outcome[2];
  for (std::size_t n = 0; n < 2; ++n) {
    outcome[n] = decoder.predicateDestination(to.children[n]);
    if (outcome[n] == noSlot)
      outcome[n] = decoder.temporaryPredicate();
  }
  return comparePairs(decoder, instruction, type, outcome[0], outcome[1]);
}

/// Sets sources and handler of a comparison of `type`; the caller sets the destination.
bool comparisonOp(FunctionDecoder &decoder, const Instruction &instruction, Type type, Op &op) {
  auto comparison = comparisonOf(instruction);
  bool half = isHalf(type);
  if (!comparison || instruction.operands.size() < 3)
    return false;
  op.handler = vectorHandlers().compare(*comparison, half ? Type::F32 : type,
                                        instruction.has("ftz") && !half);
  if (!op.handler)
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
  if (isHalfPair(type))
    return decodeSetpPair(decoder, instruction, type);
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

/// Returns the value that set writes where the comparison holds: all ones, or 1.0 in the type.
std::optional<std::uint32_t> setValue(Type to) {
  switch (to) {
  case Type::U16:
  case Type::S16:
    return 0xffffu;
  case Type::U32:
  case Type::S32:
    return fullMask;
  case Type::F16:
  case Type::F16x2:
    return 0x3c00u;
  case Type::BF16:
  case Type::BF16x2:
    return 0x3f80u;
  case Type::F32:
    return 0x3f800000u;
  default:
    return std::nullopt;
  }
}

bool decodeSetPair(FunctionDecoder &decoder, const Instruction &instruction, Type to, Type from) {
  // An integer's halves are all ones, each separately.
  bool isInteger = !isHalfPair(to);
  if (isInteger && sizeOf(to) != 4)
    return false;
  std::uint32_t one = isInteger ? 0xffffu : *setValue(to);
  Slot low = decoder.temporaryPredicate(), high = decoder.temporaryPredicate();
  if (!comparePairs(decoder, instruction, from, low, high))
    return false;
  Slot d = decoder.destination(instruction.operands[0], Type::B32);
  if (decoder.failed())
    return true;
  Slot upper = decoder.temporary(4), lower = decoder.temporary(4), zero = decoder.constant(0, 4);
  Handler select = vectorHandlers().select(4);
  decoder.emit(select, {upper, decoder.constant(one << 16, 4), zero, high});
  decoder.emit(select, {lower, decoder.constant(one, 4), zero, low});
  decoder.emit(vectorHandlers().integer(IntegerOp::Or, Type::B32), {d, upper, lower});
  return true;
}

bool decodeSet(FunctionDecoder &decoder, const Instruction &instruction) {
  Type to = typeBeforeLast(instruction), from = lastType(instruction);
  auto one = setValue(to);
  if (!one)
    return false;
  if (isHalfPair(from))
    return decodeSetPair(decoder, instruction, to, from);
  Op op;
  if (isHalfPair(to) || !comparisonOp(decoder, instruction, from, op))
    return decoder.failed();
  op.slot[0] = decoder.temporaryPredicate();
  Slot d = decoder.destination(instruction.operands[0], to);
  if (decoder.failed())
    return true;
  Slot outcome = op.slot[0];
  decoder.emit(op);
  std::uint32_t bytes = sizeOf(to);
  decoder.emit(vectorHandlers().select(bytes),
               {d, decoder.constant(*one, bytes), decoder.constant(0, bytes), outcome});
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

/// slct selects a where c >= 0, else b; for a NaN, b.
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
