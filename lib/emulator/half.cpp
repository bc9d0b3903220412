#include "half.h"

#include <cmath>

namespace tally::emulator {

namespace {

/// Returns a magnitude's exponent and fraction fields as one number, so that a carry out of the
/// fraction moves into the exponent. The number may lie beyond the format's range. The value is
/// finite.
std::uint32_t roundedCode(double value, HalfFormat format, Rounding rounding) {
  auto bits = std::bit_cast<std::uint64_t>(value);
  bool negative = bits >> 63;
  int bias = (1 << (format.exponentBits - 1)) - 1, least = 1 - bias;
  int field = static_cast<int>(bits >> 52 & 0x7ff);
  std::uint64_t significand = bits & ((std::uint64_t{1} << 52) - 1);
  if (field)
    significand |= std::uint64_t{1} << 52;
  int exponent = (field ? field : 1) - 1023;
  int shift = 52 - format.fractionBits;
  if (exponent < least) {
    shift = shift + least - exponent < 62 ? shift + least - exponent : 62;
    exponent = least;
  }
  std::uint64_t whole = significand >> shift,
                rest = significand & ((std::uint64_t{1} << shift) - 1);
  std::uint64_t half = std::uint64_t{1} << (shift - 1);
  bool away = false;
  if (rounding == Rounding::Nearest)
    away = rest > half || (rest == half && (whole & 1));
  else if (rounding != Rounding::Zero)
    away = rest && (rounding == Rounding::Up) != negative;
  whole += away ? 1 : 0;
  auto code = static_cast<std::uint32_t>(whole);
  if (code >= 1u << format.fractionBits)
    code += static_cast<std::uint32_t>(exponent + bias - 1) << format.fractionBits;
  return code;
}

constexpr HalfFormat formatOf(ByteFormat format) {
  return format == ByteFormat::E4M3 ? HalfFormat{4, 3} : HalfFormat{5, 2};
}

} // namespace

std::uint16_t toHalf(double value, HalfFormat format, Rounding rounding) {
  if (std::isnan(value))
    return halfNan;
  std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  std::uint32_t infinity = ((1u << format.exponentBits) - 1) << format.fractionBits;
  if (std::isinf(value))
    return static_cast<std::uint16_t>(sign | infinity);
  std::uint32_t code = roundedCode(value, format, rounding);
  if (code >= infinity) {
    bool finite = rounding == Rounding::Zero || (rounding == Rounding::Up && sign) ||
                  (rounding == Rounding::Down && !sign);
    code = finite ? infinity - 1 : infinity;
  }
  return static_cast<std::uint16_t>(sign | code);
}

float fromByteFloat(std::uint8_t bits, ByteFormat format) {
  if (format == ByteFormat::E5M2) // the upper byte of a half
    return halfToFloat(static_cast<std::uint16_t>(bits << 8));
  std::uint32_t magnitude = bits & 0x7fu, exponent = magnitude >> 3, fraction = magnitude & 7u;
  float value = magnitude == 0x7f ? std::nanf("")
                : exponent
                    ? std::ldexp(static_cast<float>(fraction + 8), static_cast<int>(exponent) - 10)
                    : std::ldexp(static_cast<float>(fraction), -9);
  return bits & 0x80u ? -value : value;
}

std::uint8_t toByteFloat(double value, ByteFormat format) {
  if (std::isnan(value))
    return 0x7f;
  std::uint32_t most = format == ByteFormat::E4M3 ? 0x7e : 0x7b;
  std::uint32_t sign = std::signbit(value) ? 0x80 : 0;
  std::uint32_t code =
      std::isinf(value) ? most : roundedCode(value, formatOf(format), Rounding::Nearest);
  return static_cast<std::uint8_t>(sign | (code < most ? code : most));
}

} // namespace tally::emulator
