// Scalar types of PTX instructions, and their properties.
#ifndef TALLY_LIB_EMULATOR_TYPES_H
#define TALLY_LIB_EMULATOR_TYPES_H

#include <cstdint>
#include <string_view>

namespace tally::emulator {

enum class Type : std::uint8_t {
  None,
  Pred,
  B8,
  U8,
  S8,
  B16,
  U16,
  S16,
  F16,
  BF16,
  B32,
  U32,
  S32,
  F32,
  F16x2,
  BF16x2,
  U16x2,
  S16x2,
  B64,
  U64,
  S64,
  F64,
  B128
};

/// Returns the type that a modifier such as "s32" names; None for any other modifier. PTX ISA
/// 5.2.1.
Type typeNamed(std::string_view modifier);

/// Returns the bytes of a value in memory; 1 for a predicate, by convention.
constexpr std::uint32_t sizeOf(Type type) {
  switch (type) {
  case Type::None:
    return 0;
  case Type::Pred:
  case Type::B8:
  case Type::U8:
  case Type::S8:
    return 1;
  case Type::B16:
  case Type::U16:
  case Type::S16:
  case Type::F16:
  case Type::BF16:
    return 2;
  case Type::B32:
  case Type::U32:
  case Type::S32:
  case Type::F32:
  case Type::F16x2:
  case Type::BF16x2:
  case Type::U16x2:
  case Type::S16x2:
    return 4;
  case Type::B64:
  case Type::U64:
  case Type::S64:
  case Type::F64:
    return 8;
  case Type::B128:
    return 16;
  }
  return 0;
}

constexpr bool isSigned(Type type) {
  return type == Type::S8 || type == Type::S16 || type == Type::S32 || type == Type::S64 ||
         type == Type::S16x2;
}

constexpr bool isFloat(Type type) {
  return type == Type::F16 || type == Type::BF16 || type == Type::F32 || type == Type::F64;
}

/// Returns the bytes of a value in a register row: 8-bit values live in 16-bit registers, as in
/// PTX.
constexpr std::uint32_t registerSizeOf(Type type) {
  std::uint32_t size = sizeOf(type);
  return size == 1 ? 2 : size;
}

} // namespace tally::emulator

#endif
