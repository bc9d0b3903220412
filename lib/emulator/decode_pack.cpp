// The forms of cvt between formats that no register type has: pairs of 8-bit floats, tf32, and
// cvt.pack. PTX ISA 9.7.9.21, 9.7.9.22.
#include "decoder.h"
#include "half.h"
#include "handlers.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tally::emulator {

namespace {

using ptx::Instruction;

enum PackFlags : std::uint8_t { ReluPack = 1, FiniteOnly = 2, AwayFromZero = 4, TowardsZero = 8 };

double rectified(double value, const Op &op) {
  return (op.flags & ReluPack) && !(value > 0) && !std::isnan(value) ? 0.0 : value;
}

// Op::extra: the ByteFormat. A pair's first operand goes to its upper half.
Status floatsToBytes(Warp &warp, const Op &op, std::uint32_t mask) {
  auto *d = warp.row<std::uint16_t>(op.slot[0]);
  const float *a = warp.row<float>(op.slot[1]), *b = warp.row<float>(op.slot[2]);
  auto format = static_cast<ByteFormat>(op.extra);
  for (; mask; mask &= mask - 1) {
    int i = std::countr_zero(mask);
    d[i] = static_cast<std::uint16_t>(toByteFloat(rectified(double{a[i]}, op), format) << 8 |
                                      toByteFloat(rectified(double{b[i]}, op), format));
  }
  return Status::Next;
}

Status halvesToBytes(Warp &warp, const Op &op, std::uint32_t mask) {
  auto *d = warp.row<std::uint16_t>(op.slot[0]);
  const auto *a = warp.row<std::uint32_t>(op.slot[1]);
  auto format = static_cast<ByteFormat>(op.extra);
  for (; mask; mask &= mask - 1) {
    int i = std::countr_zero(mask);
    double low = double{halfToFloat(static_cast<std::uint16_t>(a[i]))};
    double high = double{halfToFloat(static_cast<std::uint16_t>(a[i] >> 16))};
    d[i] = static_cast<std::uint16_t>(toByteFloat(rectified(high, op), format) << 8 |
                                      toByteFloat(rectified(low, op), format));
  }
  return Status::Next;
}

Status bytesToHalves(Warp &warp, const Op &op, std::uint32_t mask) {
  auto *d = warp.row<std::uint32_t>(op.slot[0]);
  const auto *a = warp.row<std::uint16_t>(op.slot[1]);
  auto format = static_cast<ByteFormat>(op.extra);
  for (; mask; mask &= mask - 1) {
    int i = std::countr_zero(mask);
    std::uint32_t halves[2];
    for (int n = 0; n < 2; ++n) {
      auto value = double{fromByteFloat(static_cast<std::uint8_t>(a[i] >> (8 * n)), format)};
      halves[n] = toHalf(rectified(value, op), halfFormat, Rounding::Nearest);
    }
    d[i] = halves[1] << 16 | halves[0];
  }
  return Status::Next;
}

/// tf32 has the range of f32 and 10 bits of fraction; the 13 bits below are zero.
Status toTensorFloat(Warp &warp, const Op &op, std::uint32_t mask) {
  auto *d = warp.row<std::uint32_t>(op.slot[0]);
  const auto *a = warp.row<std::uint32_t>(op.slot[1]);
  for (; mask; mask &= mask - 1) {
    int i = std::countr_zero(mask);
    std::uint32_t bits = a[i], magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
      d[i] = 0x7fffffffu;
      continue;
    }
    if ((op.flags & ReluPack) && bits >> 31)
      bits = magnitude = 0;
    if (magnitude < 0x7f800000u && !(op.flags & TowardsZero)) {
      std::uint32_t half = op.flags & AwayFromZero ? 0x1000u : 0xfffu + (magnitude >> 13 & 1u);
      magnitude += half;
    }
    magnitude &= 0xffffe000u;
    if ((op.flags & FiniteOnly) && magnitude >= 0x7f800000u)
      magnitude = 0x7f7fe000u;
    d[i] = (bits & 0x80000000u) | magnitude;
  }
  return Status::Next;
}

/// cvt.pack: Op::extra is the width, flags bit 0 its signedness; slot 3 gives the bits above.
Status packIntegers(Warp &warp, const Op &op, std::uint32_t mask) {
  auto *d = warp.row<std::uint32_t>(op.slot[0]);
  const auto *a = warp.row<std::int32_t>(op.slot[1]), *b = warp.row<std::int32_t>(op.slot[2]);
  const auto *c = warp.row<std::uint32_t>(op.slot[3]);
  bool isSignedType = op.flags & 1u;
  std::int32_t most = (1 << (isSignedType ? op.extra - 1 : op.extra)) - 1;
  std::int32_t least = isSignedType ? -most - 1 : 0;
  std::uint32_t field = (1u << op.extra) - 1;
  for (; mask; mask &= mask - 1) {
    int i = std::countr_zero(mask);
    std::uint32_t high = static_cast<std::uint32_t>(std::clamp(a[i], least, most)) & field;
    std::uint32_t low = static_cast<std::uint32_t>(std::clamp(b[i], least, most)) & field;
    std::uint32_t above = op.extra == 16 ? 0 : c[i] << (2 * op.extra);
    d[i] = above | high << op.extra | low;
  }
  return Status::Next;
}

bool decodePackIntegers(FunctionDecoder &decoder, const Instruction &instruction) {
  struct Target {
    std::string_view name;
    std::uint32_t bits;
    bool isSigned;
  };
  static constexpr Target targets[] = {{"s16", 16, true}, {"u16", 16, false}, {"s8", 8, true},
                                       {"u8", 8, false},  {"s4", 4, true},    {"u4", 4, false},
                                       {"s2", 2, true},   {"u2", 2, false}};
  // cvt.pack.sat.<target>.s32 d, a, b, or with another .b32 and an operand c.
  auto modifiers = instruction.modifiers;
  auto operands = instruction.operands;
  if (modifiers.size() < 4 || modifiers[1] != "sat" || modifiers[3] != "s32")
    return false;
  const Target *target = std::find_if(std::begin(targets), std::end(targets),
                                      [&](const Target &t) { return t.name == modifiers[2]; });
  if (target == std::end(targets) || operands.size() != (target->bits == 16 ? 3u : 4u))
    return false;
  Op op;
  op.handler = packIntegers;
  op.extra = target->bits;
  op.flags = target->isSigned;
  op.slot[1] = decoder.source(operands[1], Type::S32);
  op.slot[2] = decoder.source(operands[2], Type::S32);
  op.slot[3] =
      operands.size() == 4 ? decoder.source(operands[3], Type::B32) : decoder.constant(0, 4);
  op.slot[0] = decoder.destination(operands[0], Type::B32);
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

bool decodeTensorFloat(FunctionDecoder &decoder, const Instruction &instruction, Op op) {
  if (instruction.operands.size() != 2 || lastType(instruction) != Type::F32)
    return false;
  op.handler = toTensorFloat;
  op.flags |= static_cast<std::uint8_t>((instruction.has("rna") ? AwayFromZero : 0) |
                                        (instruction.has("rz") ? TowardsZero : 0));
  op.slot[1] = decoder.source(instruction.operands[1], Type::B32);
  op.slot[0] = decoder.destination(instruction.operands[0], Type::B32);
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

bool decodeByteFloats(FunctionDecoder &decoder, const Instruction &instruction, Op op) {
  auto operands = instruction.operands;
  auto modifiers = instruction.modifiers;
  std::string_view from = modifiers.back(), to = modifiers[modifiers.size() - 2];
  auto isBytes = [](std::string_view name) { return name == "e4m3x2" || name == "e5m2x2"; };
  auto formatNamed = [](std::string_view name) {
    return static_cast<std::uint32_t>(name == "e4m3x2" ? ByteFormat::E4M3 : ByteFormat::E5M2);
  };
  if (isBytes(to) && from == "f32" && operands.size() == 3) {
    op.handler = floatsToBytes;
    op.slot[1] = decoder.source(operands[1], Type::F32);
    op.slot[2] = decoder.source(operands[2], Type::F32);
  } else if (isBytes(to) && from == "f16x2" && operands.size() == 2) {
    op.handler = halvesToBytes;
    op.slot[1] = decoder.source(operands[1], Type::B32);
  } else if (isBytes(from) && to == "f16x2" && operands.size() == 2) {
    op.handler = bytesToHalves;
    op.slot[1] = decoder.source(operands[1], Type::B16);
  } else {
    return false;
  }
  op.extra = formatNamed(isBytes(to) ? to : from);
  op.slot[0] = decoder.destination(operands[0], isBytes(to) ? Type::B16 : Type::B32);
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

} // namespace

bool decodePackedConvert(FunctionDecoder &decoder, const Instruction &instruction) {
  if (instruction.has("pack"))
    return instruction.modifiers[0] == "pack" && decodePackIntegers(decoder, instruction);
  if (instruction.modifiers.size() < 2 || instruction.has("rs"))
    return false;
  Op op;
  op.flags = static_cast<std::uint8_t>((instruction.has("relu") ? ReluPack : 0) |
                                       (instruction.has("satfinite") ? FiniteOnly : 0));
  if (instruction.has("tf32"))
    return decodeTensorFloat(decoder, instruction, op);
  return decodeByteFloats(decoder, instruction, op);
}

} // namespace tally::emulator
