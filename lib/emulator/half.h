// The 16-bit and 8-bit floating-point formats, computed through double: exact for every single
// operation with one final rounding.
#ifndef TALLY_LIB_EMULATOR_HALF_H
#define TALLY_LIB_EMULATOR_HALF_H

#include "rounding.h"

#include <bit>
#include <cstdint>

namespace tally::emulator {

struct HalfFormat {
  int exponentBits, fractionBits;
};
inline constexpr HalfFormat halfFormat{5, 10}, bfloatFormat{8, 7};

/// Canonical NaN of both formats: PTX ISA 9.7.4, 9.7.5.
inline constexpr std::uint16_t halfNan = 0x7fff;

/// Exact conversion.
inline float halfToFloat(std::uint16_t bits) {
  // With its bits shifted into the f32 fields, every finite half is its value times 2^-112. There
  // are no branches, for loops that the compiler vectorises.
  std::uint32_t moved = static_cast<std::uint32_t>(bits & 0x7fff) << 13;
  auto finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(moved) * 0x1p112f);
  std::uint32_t magnitude = moved >= 0x0f800000u ? moved | 0x7f800000u : finite;
  return std::bit_cast<float>(magnitude | static_cast<std::uint32_t>(bits & 0x8000) << 16);
}
inline float bfloatToFloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
inline double fromHalf(std::uint16_t bits, HalfFormat format) {
  return double{format.exponentBits == 5 ? halfToFloat(bits) : bfloatToFloat(bits)};
}

/// Rounds in the given mode; beyond the largest finite value the result is infinity or that value.
std::uint16_t toHalf(double value, HalfFormat format, Rounding rounding);

/// The 8-bit formats. E4M3 has no infinity, and one NaN.
enum class ByteFormat : std::uint8_t { E4M3, E5M2 };
float fromByteFloat(std::uint8_t bits, ByteFormat format);
/// Rounds to nearest even; values beyond the largest finite value, infinities too, become that
/// value.
std::uint8_t toByteFloat(double value, ByteFormat format);

} // namespace tally::emulator

#endif
