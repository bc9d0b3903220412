#include "types.h"

#include <array>
#include <utility>

namespace tally::emulator {

Type typeNamed(std::string_view modifier) {
  static constexpr std::array<std::pair<std::string_view, Type>, 22> names{{
      {"pred", Type::Pred},   {"b8", Type::B8},       {"u8", Type::U8},
      {"s8", Type::S8},       {"b16", Type::B16},     {"u16", Type::U16},
      {"s16", Type::S16},     {"f16", Type::F16},     {"bf16", Type::BF16},
      {"b32", Type::B32},     {"u32", Type::U32},     {"s32", Type::S32},
      {"f32", Type::F32},     {"f16x2", Type::F16x2}, {"bf16x2", Type::BF16x2},
      {"u16x2", Type::U16x2}, {"s16x2", Type::S16x2}, {"b64", Type::B64},
      {"u64", Type::U64},     {"s64", Type::S64},     {"f64", Type::F64},
      {"b128", Type::B128},
  }};
  for (const auto &[name, type] : names)
    if (name == modifier)
      return type;
  return Type::None;
}

} // namespace tally::emulator
