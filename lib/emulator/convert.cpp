#include "convert.h"

#include "half.h"

#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>

namespace tally::emulator {

namespace {

double toIntegral(double value, Rounding rounding) {
  switch (rounding) {
  case Rounding::Nearest:
    return std::nearbyint(value); // the mode is to nearest even everywhere else
  case Rounding::Zero:
    return std::trunc(value);
  case Rounding::Down:
    return std::floor(value);
  case Rounding::Up:
    return std::ceil(value);
  }
  return value;
}

/// Returns an integer as a double that rounds like the integer: bits that do not fit are sticky.
double stickyDouble(std::uint64_t magnitude) {
  if (magnitude < (std::uint64_t{1} << 53))
    return static_cast<double>(magnitude);
  bool lost = magnitude & 0x7ff;
  return std::ldexp(static_cast<double>(magnitude >> 11 | (lost ? 1 : 0)), 11);
}

double readFloat(Type type, std::uint64_t bits, bool flush) {
  switch (type) {
  case Type::F16:
    return fromHalf(static_cast<std::uint16_t>(bits), halfFormat);
  case Type::BF16:
    return double{bfloatToFloat(static_cast<std::uint16_t>(bits))};
  case Type::F32: {
    auto value = static_cast<std::uint32_t>(bits);
    if (flush && (value & 0x7f800000u) == 0)
      value &= 0x80000000u;
    return double{std::bit_cast<float>(value)};
  }
  default:
    return std::bit_cast<double>(bits);
  }
}

std::uint64_t writeSingle(double value, const Conversion &conversion) {
  if (std::isnan(value))
    return 0x7fffffffu;
  auto bits = std::bit_cast<std::uint32_t>(narrowed(value, conversion.rounding));
  if (conversion.flush && (bits & 0x7f800000u) == 0)
    bits &= 0x80000000u;
  return bits;
}

std::uint64_t writeFloat(double value, const Conversion &conversion) {
  if (conversion.saturate)
    value = value > 0 ? (value < 1 ? value : 1.0) : 0.0; // NaN becomes 0
  if (conversion.relu && !std::isnan(value) && !(value > 0))
    value = 0;
  switch (conversion.to) {
  case Type::F16:
  case Type::BF16: {
    HalfFormat format = conversion.to == Type::F16 ? halfFormat : bfloatFormat;
    std::uint16_t bits = toHalf(value, format, conversion.rounding);
    std::uint16_t infinity = conversion.to == Type::F16 ? 0x7c00 : 0x7f80;
    if (conversion.satFinite && (bits & 0x7fff) == infinity)
      bits -= 1;
    return bits;
  }
  case Type::F32:
    return writeSingle(value, conversion);
  default:
    return std::bit_cast<std::uint64_t>(value);
  }
}

std::uint32_t bitsOf(Type type) { return sizeOf(type) * 8; }

std::uint64_t extended(std::uint64_t bits, Type type) {
  if (sizeOf(type) == 8)
    return bits;
  std::uint32_t unused = 64 - bitsOf(type);
  return isSigned(type)
             ? static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << unused) >> unused)
             : bits << unused >> unused;
}

std::uint64_t floatToInteger(double value, const Conversion &conversion) {
  Type to = conversion.to;
  std::uint32_t width = bitsOf(to);
  if (std::isnan(value)) {
    bool wide = conversion.from == Type::F64 || width == 64;
    return wide ? std::uint64_t{1} << (width - 1) : 0;
  }
  value = toIntegral(value, conversion.rounding);
  double limit = std::ldexp(1.0, static_cast<int>(isSigned(to) ? width - 1 : width));
  if (isSigned(to)) {
    std::uint64_t most = (std::uint64_t{1} << (width - 1)) - 1;
    if (value >= limit)
      return most;
    if (value < -limit)
      return ~most;
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  }
  if (value >= limit)
    return width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
  return value <= 0 ? 0 : static_cast<std::uint64_t>(value);
}

std::uint64_t integerToFloat(std::uint64_t value, bool negative, const Conversion &conversion) {
  std::uint64_t magnitude = negative ? 0 - value : value;
  if (conversion.saturate)
    return writeFloat(negative ? -1.0 : magnitude ? 1.0 : 0.0, conversion);
  if (conversion.to == Type::F64) {
    double result = negative
                        ? fromInteger<double>(static_cast<std::int64_t>(value), conversion.rounding)
                        : fromInteger<double>(value, conversion.rounding);
    return std::bit_cast<std::uint64_t>(result);
  }
  double exact = stickyDouble(magnitude);
  return writeFloat(negative ? -exact : exact, conversion);
}

std::uint64_t integerToInteger(std::uint64_t value, bool negative, const Conversion &conversion) {
  Type to = conversion.to;
  std::uint32_t width = bitsOf(to);
  if (!conversion.saturate)
    return value;
  auto asSigned = static_cast<std::int64_t>(value);
  if (isSigned(to)) {
    std::int64_t most = width == 64 ? INT64_MAX : (std::int64_t{1} << (width - 1)) - 1;
    if (!negative && value > static_cast<std::uint64_t>(most))
      return static_cast<std::uint64_t>(most);
    return negative && asSigned < -most - 1 ? static_cast<std::uint64_t>(-most - 1) : value;
  }
  std::uint64_t most = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
  return negative ? 0 : value > most ? most : value;
}

} // namespace

std::uint64_t convert(const Conversion &conversion, std::uint64_t bits) {
  std::uint64_t result;
  if (isFloat(conversion.from)) {
    double value = readFloat(conversion.from, bits, conversion.flush);
    if (isFloat(conversion.to)) {
      if (conversion.toIntegral)
        value = toIntegral(value, conversion.rounding);
      result = writeFloat(value, conversion);
    } else {
      result = floatToInteger(value, conversion);
    }
  } else {
    std::uint64_t value = extended(bits, conversion.from);
    bool negative = isSigned(conversion.from) && static_cast<std::int64_t>(value) < 0;
    result = isFloat(conversion.to) ? integerToFloat(value, negative, conversion)
                                    : integerToInteger(value, negative, conversion);
  }
  return isFloat(conversion.to) ? result : extended(result, conversion.to);
}

} // namespace tally::emulator
