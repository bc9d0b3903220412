// cvt between all scalar types, one value at a time.
#ifndef TALLY_LIB_EMULATOR_CONVERT_H
#define TALLY_LIB_EMULATOR_CONVERT_H

#include "rounding.h"
#include "types.h"

namespace tally::emulator {

/// Parts of a cvt besides the change of type.
struct Conversion {
  Type to = Type::None, from = Type::None;
  Rounding rounding = Rounding::Nearest;
  bool toIntegral = false; ///< .rni, .rzi, .rmi, .rpi between floats
  bool flush = false, saturate = false, relu = false, satFinite = false;
};

/// Converts the value in the low bits of `bits`. Returns the result's bits in the same way, an
/// 8-bit result extended to 16. PTX ISA 9.7.9.21.
std::uint64_t convert(const Conversion &conversion, std::uint64_t bits);

} // namespace tally::emulator

#endif
