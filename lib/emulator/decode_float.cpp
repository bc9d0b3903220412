// f32 and f64 arithmetic: selects the handler by opcode, rounding and flags. PTX ISA 9.7.3.
#include "decoder.h"

#include "handlers.h"
#include "rounding.h"

#include <bit>
#include <span>
#include <string_view>

namespace tally::emulator {

namespace {

using ptx::Instruction;

struct Known {
  std::string_view opcode;
  FloatOp operation;
  std::size_t sources;
};
constexpr Known known[] = {
    {"add", FloatOp::Add, 2},          {"sub", FloatOp::Sub, 2},   {"mul", FloatOp::Mul, 2},
    {"fma", FloatOp::Fma, 3},          {"mad", FloatOp::Fma, 3},   {"div", FloatOp::Div, 2},
    {"rcp", FloatOp::Rcp, 1},          {"sqrt", FloatOp::Sqrt, 1}, {"rsqrt", FloatOp::Rsqrt, 1},
    {"sin", FloatOp::Sin, 1},          {"cos", FloatOp::Cos, 1},   {"lg2", FloatOp::Lg2, 1},
    {"ex2", FloatOp::Ex2, 1},          {"tanh", FloatOp::Tanh, 1}, {"min", FloatOp::Min, 2},
    {"max", FloatOp::Max, 2},          {"abs", FloatOp::Abs, 1},   {"neg", FloatOp::Neg, 1},
    {"copysign", FloatOp::CopySign, 2}};

Rounding roundingOf(const Instruction &instruction) {
  if (instruction.has("rz"))
    return Rounding::Zero;
  if (instruction.has("rm"))
    return Rounding::Down;
  if (instruction.has("rp"))
    return Rounding::Up;
  return Rounding::Nearest;
}

// testp: the class of a value. Op::extra is an index into these names.
constexpr std::string_view tests[] = {"finite",     "infinite", "number",
                                      "notanumber", "normal",   "subnormal"};
template <class T> Status testProperty(Warp &warp, const Op &op, std::uint32_t mask) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits exponentMask =
      sizeof(T) == 4 ? Bits{0x7f800000u} : static_cast<Bits>(0x7ff0000000000000u);
  constexpr Bits signMask = Bits{1} << (sizeof(T) * 8 - 1);
  const Bits *a = warp.row<Bits>(op.slot[1]);
  std::uint32_t &d = warp.predicate(op.slot[0]);
  for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
    auto i = static_cast<std::uint32_t>(std::countr_zero(rest));
    Bits exponent = a[i] & exponentMask, fraction = a[i] & ~exponentMask & ~signMask;
    bool special = exponent == exponentMask;
    const bool outcome[] = {!special,
                            special && fraction == 0,
                            !(special && fraction),
                            special && fraction != 0,
                            !special && exponent != 0,
                            exponent == 0 && fraction != 0};
    d = (d & ~(1u << i)) | static_cast<std::uint32_t>(outcome[op.extra]) << i;
  }
  return Status::Next;
}

bool decodeTestp(FunctionDecoder &decoder, const Instruction &instruction, Type type) {
  if (instruction.operands.size() != 2)
    return false;
  Op op;
  op.handler = type == Type::F32 ? testProperty<float> : testProperty<double>;
  for (std::uint32_t i = 0; i < std::size(tests); ++i)
    if (instruction.has(tests[i]))
      op.extra = i;
  op.slot[1] = decoder.source(instruction.operands[1], type);
  op.slot[0] = decoder.predicateDestination(instruction.operands[0]);
  if (!decoder.failed() && op.slot[0] != noSlot)
    decoder.emit(op);
  return true;
}

FloatOp withNan(FloatOp operation, const Instruction &instruction) {
  if (!instruction.has("NaN"))
    return operation;
  return operation == FloatOp::Min   ? FloatOp::MinNan
         : operation == FloatOp::Max ? FloatOp::MaxNan
                                     : operation;
}

/// min and max of three operands are two steps; the first step's result needs its own row.
bool decodeThreeWay(FunctionDecoder &decoder, const Instruction &instruction, Handler handler,
                    Type type) {
  Slot a = decoder.source(instruction.operands[1], type);
  Slot b = decoder.source(instruction.operands[2], type);
  Slot c = decoder.source(instruction.operands[3], type);
  Slot d = decoder.destination(instruction.operands[0], type);
  if (decoder.failed())
    return true;
  Slot first = decoder.temporary(sizeOf(type));
  decoder.emit(handler, {first, a, b});
  decoder.emit(handler, {d, first, c});
  return true;
}

/// min.xorsign.abs: the minimum of the magnitudes, with the sign of the product.
bool decodeXorSign(FunctionDecoder &decoder, const Instruction &instruction, Handler handler) {
  if (instruction.operands.size() != 3 || !instruction.has("abs"))
    return false;
  Slot a = decoder.source(instruction.operands[1], Type::F32);
  Slot b = decoder.source(instruction.operands[2], Type::F32);
  Slot d = decoder.destination(instruction.operands[0], Type::F32);
  if (decoder.failed())
    return true;
  const VectorHandlers &vector = vectorHandlers();
  Handler absolute = vector.floating(FloatOp::Abs, Type::F32, 0);
  Handler both = vector.integer(IntegerOp::And, Type::B32);
  Slot first = decoder.temporary(4), second = decoder.temporary(4), sign = decoder.temporary(4);
  decoder.emit(absolute, {first, a});
  decoder.emit(absolute, {second, b});
  decoder.emit(vector.integer(IntegerOp::Xor, Type::B32), {sign, a, b});
  decoder.emit(both, {sign, sign, decoder.constant(0x80000000u, 4)});
  decoder.emit(handler, {first, first, second});
  decoder.emit(vector.integer(IntegerOp::Or, Type::B32), {d, first, sign});
  return true;
}

// Splits a 64-bit register into its two floats; joinPair makes a register of two.
Status splitPair(Warp &warp, const Op &op, std::uint32_t mask) {
  auto *low = warp.row<std::uint32_t>(op.slot[0]), *high = warp.row<std::uint32_t>(op.slot[1]);
  const auto *pair = warp.row<std::uint64_t>(op.slot[2]);
  for (; mask; mask &= mask - 1) {
    int i = std::countr_zero(mask);
    low[i] = static_cast<std::uint32_t>(pair[i]);
    high[i] = static_cast<std::uint32_t>(pair[i] >> 32);
  }
  return Status::Next;
}
Status joinPair(Warp &warp, const Op &op, std::uint32_t mask) {
  auto *pair = warp.row<std::uint64_t>(op.slot[0]);
  const auto *low = warp.row<std::uint32_t>(op.slot[1]);
  const auto *high = warp.row<std::uint32_t>(op.slot[2]);
  for (; mask; mask &= mask - 1) {
    int i = std::countr_zero(mask);
    pair[i] = std::uint64_t{high[i]} << 32 | low[i];
  }
  return Status::Next;
}

/// add, sub, mul and fma of .f32x2: the operation on the low halves and on the high halves. ptxas
/// 13.0 allows no .sat and no immediate operand.
bool decodePairOfFloats(FunctionDecoder &decoder, const Instruction &instruction) {
  constexpr std::size_t pairOperations = 4; // the first of `known`
  const Known *found = nullptr;
  for (const Known &each : std::span(known).first(pairOperations))
    if (each.opcode == instruction.opcode)
      found = &each;
  if (!found || instruction.has("sat") || instruction.operands.size() != found->sources + 1)
    return false;
  Rounding rounding = roundingOf(instruction);
  std::uint8_t flags = instruction.has("ftz") ? FlushSubnormal : 0;
  Handler handler = rounding == Rounding::Nearest
                        ? vectorHandlers().floating(found->operation, Type::F32, flags)
                        : roundedHandler(found->operation, Type::F32, rounding, flags);
  if (!handler)
    return false;
  Op low, high;
  low.handler = high.handler = handler;
  for (std::size_t i = 1; i <= found->sources; ++i) {
    low.slot[i] = decoder.temporary(4);
    high.slot[i] = decoder.temporary(4);
    Slot pair = decoder.source(instruction.operands[i], Type::B64);
    if (decoder.failed())
      return true;
    decoder.emit(splitPair, {low.slot[i], high.slot[i], pair});
  }
  low.slot[0] = decoder.temporary(4);
  high.slot[0] = decoder.temporary(4);
  Slot result = decoder.destination(instruction.operands[0], Type::B64);
  if (decoder.failed())
    return true;
  decoder.emit(low);
  decoder.emit(high);
  decoder.emit(joinPair, {result, low.slot[0], high.slot[0]});
  return true;
}

} // namespace

bool decodeFloat(FunctionDecoder &decoder, const Instruction &instruction) {
  if (!instruction.modifiers.empty() && instruction.modifiers.back() == "f32x2")
    return decodePairOfFloats(decoder, instruction);
  Type type = lastType(instruction);
  if (type != Type::F32 && type != Type::F64)
    return false;
  if (instruction.opcode == "testp")
    return decodeTestp(decoder, instruction, type);
  const Known *found = nullptr;
  for (const Known &each : known)
    if (each.opcode == instruction.opcode)
      found = &each;
  if (!found)
    return false;
  auto flags = static_cast<std::uint8_t>((instruction.has("ftz") ? FlushSubnormal : 0) |
                                         (instruction.has("sat") ? Saturate : 0));
  Rounding rounding = roundingOf(instruction);
  FloatOp operation = withNan(found->operation, instruction);
  Handler handler = rounding == Rounding::Nearest
                        ? vectorHandlers().floating(operation, type, flags)
                        : roundedHandler(operation, type, rounding, flags);
  if (!handler)
    return false;
  if (instruction.has("xorsign"))
    return type == Type::F32 && decodeXorSign(decoder, instruction, handler);
  if (found->sources == 2 && instruction.operands.size() == 4)
    return decodeThreeWay(decoder, instruction, handler, type);
  if (instruction.operands.size() != found->sources + 1)
    return false;
  Op op;
  op.handler = handler;
  for (std::size_t i = 1; i <= found->sources; ++i)
    op.slot[i] = decoder.source(instruction.operands[i], type);
  op.slot[0] = decoder.destination(instruction.operands[0], type);
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

} // namespace tally::emulator
