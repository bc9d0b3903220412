// f16, bf16 and their pairs: computes every operation exactly enough in double and rounds once. PTX
// ISA 9.7.4 and 9.7.5.
#include "decoder.h"
#include "half.h"
#include "handlers.h"

#include <bit>
#include <cmath>

namespace tally::emulator {

namespace {

using ptx::Instruction;

enum class HalfOp : std::uint8_t { Add, Sub, Mul, Fma, Min, Max, Neg, Abs, Ex2, Tanh };
enum HalfFlags : std::uint8_t {
  IsBfloat = 1,
  FlushHalf = 2,
  SaturateHalf = 4,
  ReluHalf = 8,
  PropagateNan = 16,
  XorSign = 32 ///< min and max of magnitudes, with the product's sign
};

/// Returns a × b + c such that rounding it once more gives the rounded exact value: where the sum
/// is not exact its last bit is set ("round to odd"). The product is exact.
double fusedForRounding(double a, double b, double c) {
  double product = a * b, sum = product + c;
  double back = sum - product, error = (product - (sum - back)) + (c - back);
  if (error == 0 || !std::isfinite(sum))
    return sum;
  auto bits = std::bit_cast<std::uint64_t>(sum);
  if ((bits & 1) == 0) // to the neighbour on the side of the lost part
    bits += (error > 0) == (sum > 0) ? 1 : -1;
  return std::bit_cast<double>(bits);
}

double flushHalf(double value, const HalfFormat &format) {
  double least = std::ldexp(1.0, 2 - (1 << (format.exponentBits - 1)));
  return std::fabs(value) < least ? std::copysign(0.0, value) : value;
}

double choose(double a, double b, bool least, bool nan) {
  if (std::isnan(a) || std::isnan(b))
    return nan ? NAN : std::isnan(a) ? b : a;
  if (a == b)
    return std::signbit(a) == least ? a : b;
  return (a < b) == least ? a : b;
}

std::uint16_t compute(HalfOp operation, std::uint8_t flags, const std::uint16_t *bits) {
  HalfFormat format = flags & IsBfloat ? bfloatFormat : halfFormat;
  if (operation == HalfOp::Neg && !(flags & FlushHalf))
    return bits[0] ^ 0x8000;
  if (operation == HalfOp::Abs && !(flags & FlushHalf))
    return bits[0] & 0x7fff;
  double v[3];
  for (int i = 0; i < 3; ++i) {
    v[i] = fromHalf(bits[i], format);
    if (flags & FlushHalf)
      v[i] = flushHalf(v[i], format);
  }
  double result = 0;
  switch (operation) {
  case HalfOp::Add:
    result = v[0] + v[1];
    break;
  case HalfOp::Sub:
    result = v[0] - v[1];
    break;
  case HalfOp::Mul:
    result = v[0] * v[1];
    break;
  case HalfOp::Fma:
    result = fusedForRounding(v[0], v[1], v[2]);
    break;
  case HalfOp::Min:
  case HalfOp::Max:
    if (flags & XorSign) {
      bool negative = std::signbit(v[0]) != std::signbit(v[1]);
      result =
          choose(std::fabs(v[0]), std::fabs(v[1]), operation == HalfOp::Min, flags & PropagateNan);
      result = negative ? -result : result;
      break;
    }
    result = choose(v[0], v[1], operation == HalfOp::Min, flags & PropagateNan);
    break;
  case HalfOp::Neg:
    result = -v[0];
    break;
  case HalfOp::Abs:
    result = std::fabs(v[0]);
    break;
  case HalfOp::Ex2:
    result = std::exp2(v[0]);
    break;
  case HalfOp::Tanh:
    result = std::tanh(v[0]);
    break;
  }
  if (flags & FlushHalf)
    result = flushHalf(result, format);
  if (flags & SaturateHalf)
    result = result > 0 ? std::min(result, 1.0) : 0.0;
  if ((flags & ReluHalf) && !(result > 0) && !std::isnan(result))
    result = 0;
  return toHalf(result, format, Rounding::Nearest);
}

// Op::extra: the HalfOp; slots 1 to 3 the operands, noSlot where there is none.
template <class T> Status halves(Warp &warp, const Op &op, std::uint32_t mask) {
  T *d = warp.row<T>(op.slot[0]);
  const T *operand[3];
  for (int n = 0; n < 3; ++n)
    operand[n] = warp.row<T>(op.slot[n + 1] == noSlot ? op.slot[1] : op.slot[n + 1]);
  auto operation = static_cast<HalfOp>(op.extra);
  for (; mask; mask &= mask - 1) {
    int i = std::countr_zero(mask);
    T result = 0;
    for (unsigned half = 0; half < sizeof(T) / 2; ++half) {
      std::uint16_t bits[3];
      for (int n = 0; n < 3; ++n)
        bits[n] = static_cast<std::uint16_t>(operand[n][i] >> (16 * half));
      result = static_cast<T>(result | static_cast<T>(compute(operation, op.flags, bits))
                                           << (16 * half));
    }
    d[i] = result;
  }
  return Status::Next;
}

template <bool Bfloat> Status toFloat(Warp &warp, const Op &op, std::uint32_t mask) {
  float *d = warp.row<float>(op.slot[0]);
  const auto *a = warp.row<std::uint16_t>(op.slot[1]);
  for (; mask; mask &= mask - 1) {
    int i = std::countr_zero(mask);
    float value = Bfloat ? bfloatToFloat(a[i]) : halfToFloat(a[i]);
    d[i] = value == value ? value : std::bit_cast<float>(0x7fffffffu);
  }
  return Status::Next;
}

struct Known {
  std::string_view opcode;
  HalfOp operation;
  std::size_t sources;
};
constexpr Known known[] = {{"add", HalfOp::Add, 2}, {"sub", HalfOp::Sub, 2},
                           {"mul", HalfOp::Mul, 2}, {"fma", HalfOp::Fma, 3},
                           {"min", HalfOp::Min, 2}, {"max", HalfOp::Max, 2},
                           {"neg", HalfOp::Neg, 1}, {"abs", HalfOp::Abs, 1},
                           {"ex2", HalfOp::Ex2, 1}, {"tanh", HalfOp::Tanh, 1}};

} // namespace

Handler halfToFloatHandler(Type type) {
  return type == Type::BF16 ? toFloat<true> : toFloat<false>;
}

bool decodeHalf(FunctionDecoder &decoder, const Instruction &instruction) {
  Type type = lastType(instruction);
  bool pair = type == Type::F16x2 || type == Type::BF16x2;
  if (!pair && type != Type::F16 && type != Type::BF16)
    return false;
  const Known *found = nullptr;
  for (const Known &each : known)
    if (each.opcode == instruction.opcode)
      found = &each;
  if (!found || instruction.operands.size() != found->sources + 1 || instruction.has("oob"))
    return false;
  Op op;
  op.handler = pair ? halves<std::uint32_t> : halves<std::uint16_t>;
  op.extra = static_cast<std::uint32_t>(found->operation);
  bool bfloat = type == Type::BF16 || type == Type::BF16x2;
  op.flags = static_cast<std::uint8_t>(
      (bfloat ? IsBfloat : 0) | (instruction.has("ftz") ? FlushHalf : 0) |
      (instruction.has("sat") ? SaturateHalf : 0) | (instruction.has("relu") ? ReluHalf : 0) |
      (instruction.has("NaN") ? PropagateNan : 0) | (instruction.has("xorsign") ? XorSign : 0));
  Type row = pair ? Type::B32 : Type::B16;
  for (std::size_t i = 1; i <= found->sources; ++i)
    op.slot[i] = decoder.source(instruction.operands[i], row);
  op.slot[0] = decoder.destination(instruction.operands[0], row);
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

} // namespace tally::emulator
