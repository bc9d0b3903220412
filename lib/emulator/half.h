// The 16-bit floating-point formats, computed through double: exact for every single operation on
// them that is then rounded once.
#ifndef TALLY_LIB_EMULATOR_HALF_H
#define TALLY_LIB_EMULATOR_HALF_H

#include "rounding.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace tally::emulator {

struct HalfFormat {
  int exponentBits, fractionBits;
};
inline constexpr HalfFormat halfFormat{5, 10}, bfloatFormat{8, 7};

/// Canonical NaN of both formats: PTX ISA 9.7.4, 9.7.5.
inline constexpr std::uint16_t halfNan = 0x7fff;

inline double fromHalf(std::uint16_t bits, HalfFormat format) {
  int bias = (1 << (format.exponentBits - 1)) - 1;
  int exponent = bits >> format.fractionBits & ((1 << format.exponentBits) - 1);
  int fraction = bits & ((1 << format.fractionBits) - 1);
  double magnitude;
  if (exponent == (1 << format.exponentBits) - 1)
    magnitude = fraction ? std::nan("") : HUGE_VAL;
  else if (exponent == 0)
    magnitude = std::ldexp(fraction, 1 - bias - format.fractionBits);
  else
    magnitude =
        std::ldexp(fraction + (1 << format.fractionBits), exponent - bias - format.fractionBits);
  return bits & 0x8000 ? -magnitude : magnitude;
}

/// The nearest in the mode's sense; beyond the largest finite value infinity or that value.
std::uint16_t toHalf(double value, HalfFormat format, Rounding rounding);

inline float bfloatToFloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

} // namespace tally::emulator

#endif
