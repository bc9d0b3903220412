// Operations with directed rounding. Compiled with -frounding-math. The rest of the library assumes
// rounding to nearest, and every handler here restores that mode.
#ifndef TALLY_LIB_EMULATOR_ROUNDING_H
#define TALLY_LIB_EMULATOR_ROUNDING_H

#include "op.h"
#include "types.h"
#include "vector/select.h"

namespace tally::emulator {

enum class Rounding : std::uint8_t { Nearest, Zero, Down, Up };

/// Returns the handler for add, sub, mul, fma, div, rcp and sqrt of f32 and f64; null for others.
Handler roundedHandler(FloatOp op, Type type, Rounding rounding, std::uint8_t flags);

/// Conversions with the given rounding: f64 → f32, and integers → floats.
float narrowed(double value, Rounding rounding);
template <class To, class From> To fromInteger(From value, Rounding rounding);
extern template float fromInteger(std::int64_t, Rounding);
extern template float fromInteger(std::uint64_t, Rounding);
extern template double fromInteger(std::int64_t, Rounding);
extern template double fromInteger(std::uint64_t, Rounding);

} // namespace tally::emulator

#endif
