// cvt: the vectorised conversions where possible, else convert() lane by lane.
#include "convert.h"
#include "decoder.h"
#include "half.h"

#include "handlers.h"

#include <bit>
#include <cstring>

namespace tally::emulator {

namespace {

using ptx::Instruction;

Conversion unpack(const Op &op) {
  Conversion conversion;
  conversion.to = static_cast<Type>(op.extra & 0xff);
  conversion.from = static_cast<Type>(op.extra >> 8 & 0xff);
  conversion.rounding = static_cast<Rounding>(op.extra >> 16 & 3);
  conversion.toIntegral = op.flags & 1u;
  conversion.flush = op.flags & 2u;
  conversion.saturate = op.flags & 4u;
  conversion.relu = op.flags & 8u;
  conversion.satFinite = op.flags & 16u;
  return conversion;
}

void pack(const Conversion &conversion, Op &op) {
  op.extra = static_cast<std::uint32_t>(conversion.to) |
             static_cast<std::uint32_t>(conversion.from) << 8 |
             static_cast<std::uint32_t>(conversion.rounding) << 16;
  op.flags = static_cast<std::uint8_t>(conversion.toIntegral | conversion.flush << 1 |
                                       conversion.saturate << 2 | conversion.relu << 3 |
                                       conversion.satFinite << 4);
}

template <class D, class A> Status convertLanes(Warp &warp, const Op &op, std::uint32_t mask) {
  Conversion conversion = unpack(op);
  D *d = warp.row<D>(op.slot[0]);
  const A *a = warp.row<A>(op.slot[1]);
  for (; mask; mask &= mask - 1) {
    int i = std::countr_zero(mask);
    d[i] = static_cast<D>(convert(conversion, a[i]));
  }
  return Status::Next;
}

template <class D> Handler convertFrom(std::uint32_t bytes) {
  return bytes == 2   ? convertLanes<D, std::uint16_t>
         : bytes == 4 ? convertLanes<D, std::uint32_t>
                      : convertLanes<D, std::uint64_t>;
}

Handler convertBetween(std::uint32_t to, std::uint32_t from) {
  return to == 2   ? convertFrom<std::uint16_t>(from)
         : to == 4 ? convertFrom<std::uint32_t>(from)
                   : convertFrom<std::uint64_t>(from);
}

/// f32 to f16 or bf16, without the special cases of the general conversion.
template <bool Bfloat> Status narrowLanes(Warp &warp, const Op &op, std::uint32_t mask) {
  auto *d = warp.row<std::uint16_t>(op.slot[0]);
  const float *a = warp.row<float>(op.slot[1]);
  auto rounding = static_cast<Rounding>(op.extra >> 16 & 3);
  for (; mask; mask &= mask - 1) {
    int i = std::countr_zero(mask);
    d[i] = toHalf(double{a[i]}, Bfloat ? bfloatFormat : halfFormat, rounding);
  }
  return Status::Next;
}
template <bool Bfloat> Status narrowPair(Warp &warp, const Op &op, std::uint32_t mask) {
  auto *d = warp.row<std::uint32_t>(op.slot[0]);
  const float *a = warp.row<float>(op.slot[1]), *b = warp.row<float>(op.slot[2]);
  auto rounding = static_cast<Rounding>(op.extra >> 16 & 3);
  constexpr HalfFormat format = Bfloat ? bfloatFormat : halfFormat;
  for (; mask; mask &= mask - 1) {
    int i = std::countr_zero(mask);
    d[i] = static_cast<std::uint32_t>(toHalf(double{a[i]}, format, rounding)) << 16 |
           toHalf(double{b[i]}, format, rounding);
  }
  return Status::Next;
}

/// Returns the handler between f32 and a 16-bit format with rounding only; null for other
/// conversions.
Handler shortWay(const Conversion &c, bool isPair) {
  if (c.flush || c.saturate || c.relu || c.satFinite || c.toIntegral)
    return nullptr;
  bool toShort = c.to == Type::F16 || c.to == Type::BF16;
  if (c.from == Type::F32 && toShort && isPair)
    return c.to == Type::BF16 ? narrowPair<true> : narrowPair<false>;
  if (c.from == Type::F32 && toShort)
    return c.to == Type::BF16 ? narrowLanes<true> : narrowLanes<false>;
  if (c.to == Type::F32 && (c.from == Type::F16 || c.from == Type::BF16))
    return halfToFloatHandler(c.from);
  return nullptr;
}

/// cvt.rn.f16x2.f32 d, a, b: a goes to the upper half.
Status convertPair(Warp &warp, const Op &op, std::uint32_t mask) {
  Conversion conversion = unpack(op);
  auto *d = warp.row<std::uint32_t>(op.slot[0]);
  const auto *a = warp.row<std::uint32_t>(op.slot[1]), *b = warp.row<std::uint32_t>(op.slot[2]);
  for (; mask; mask &= mask - 1) {
    int i = std::countr_zero(mask);
    d[i] = static_cast<std::uint32_t>(convert(conversion, a[i]) << 16 | convert(conversion, b[i]));
  }
  return Status::Next;
}

bool readRounding(const Instruction &instruction, Conversion &conversion) {
  struct Mode {
    std::string_view name;
    Rounding rounding;
    bool integral;
  };
  static constexpr Mode modes[] = {{"rn", Rounding::Nearest, false}, {"rz", Rounding::Zero, false},
                                   {"rm", Rounding::Down, false},    {"rp", Rounding::Up, false},
                                   {"rni", Rounding::Nearest, true}, {"rzi", Rounding::Zero, true},
                                   {"rmi", Rounding::Down, true},    {"rpi", Rounding::Up, true}};
  for (const Mode &each : modes)
    if (instruction.has(each.name)) {
      conversion.rounding = each.rounding;
      conversion.toIntegral = each.integral;
    }
  return !instruction.has("rna") && !instruction.has("rs");
}

/// Whether the conversion is a plain C++ conversion of the vector folder.
bool isPlain(const Conversion &c) {
  if (isFloat(c.from) || c.saturate || sizeOf(c.to) == 1 || sizeOf(c.from) == 1)
    return false;
  if (!isFloat(c.to))
    return true;
  return (c.to == Type::F32 || c.to == Type::F64) && c.rounding == Rounding::Nearest;
}

} // namespace

bool decodeConvert(FunctionDecoder &decoder, const Instruction &instruction) {
  if (instruction.opcode != "cvt")
    return false;
  for (std::string_view each : instruction.modifiers)
    if (each.starts_with("e4m3") || each.starts_with("e5m2") || each == "tf32" || each == "pack")
      return decodePackedConvert(decoder, instruction);
  Conversion conversion;
  conversion.to = typeBeforeLast(instruction);
  conversion.from = lastType(instruction);
  if (conversion.to == Type::None || sizeOf(conversion.from) > 8 || conversion.from == Type::Pred ||
      !readRounding(instruction, conversion))
    return false;
  conversion.flush = instruction.has("ftz");
  conversion.saturate = instruction.has("sat");
  conversion.relu = instruction.has("relu");
  conversion.satFinite = instruction.has("satfinite");
  bool isPair = conversion.to == Type::F16x2 || conversion.to == Type::BF16x2;
  if (instruction.operands.size() != (isPair ? 3u : 2u) || conversion.from == Type::F16x2 ||
      conversion.from == Type::BF16x2)
    return false;
  Op op;
  op.slot[1] = decoder.source(instruction.operands[1], conversion.from);
  if (isPair) {
    op.slot[2] = decoder.source(instruction.operands[2], conversion.from);
    op.slot[0] = decoder.destination(instruction.operands[0], conversion.to);
    conversion.to = conversion.to == Type::F16x2 ? Type::F16 : Type::BF16;
    op.handler = convertPair;
  } else {
    op.slot[0] = decoder.destination(instruction.operands[0], conversion.to);
    op.handler = isPlain(conversion) ? vectorHandlers().convert(conversion.to, conversion.from)
                                     : convertBetween(registerSizeOf(conversion.to),
                                                      registerSizeOf(conversion.from));
  }
  pack(conversion, op);
  if (Handler handler = shortWay(conversion, isPair))
    op.handler = handler;
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

} // namespace tally::emulator
