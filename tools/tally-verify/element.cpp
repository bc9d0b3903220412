#include "element.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cassert>
#include <cstring>

namespace tally::verify {

namespace {

struct ElementFacts {
  std::string_view name;
  std::uint8_t size;
  bool isFloat, isSigned;
};
constexpr std::array<ElementFacts, 10> elementFacts = {{{"i8", 1, false, true},
                                                        {"u8", 1, false, false},
                                                        {"i16", 2, false, true},
                                                        {"u16", 2, false, false},
                                                        {"i32", 4, false, true},
                                                        {"u32", 4, false, false},
                                                        {"i64", 8, false, true},
                                                        {"u64", 8, false, false},
                                                        {"f32", 4, true, true},
                                                        {"f64", 8, true, true}}};

const ElementFacts &factsOf(ElementType type) {
  return elementFacts[static_cast<std::size_t>(type)];
}

} // namespace

std::size_t sizeOf(ElementType type) { return factsOf(type).size; }
bool isFloat(ElementType type) { return factsOf(type).isFloat; }
bool isSigned(ElementType type) { return factsOf(type).isSigned; }
std::string_view name(ElementType type) { return factsOf(type).name; }

std::optional<ElementType> elementTypeFromName(std::string_view text) {
  for (std::size_t i = 0; i < elementFacts.size(); ++i)
    if (elementFacts[i].name == text)
      return static_cast<ElementType>(i);
  return std::nullopt;
}

std::uint64_t bitsAt(ElementType type, std::span<const std::byte> bytes, std::size_t index) {
  std::size_t size = sizeOf(type);
  assert((index + 1) * size <= bytes.size());
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + index * size, size);
  return bits;
}

std::int64_t signedValue(ElementType type, std::uint64_t bits) {
  if (!isSigned(type))
    return static_cast<std::int64_t>(bits);
  unsigned shift = 64 - 8 * static_cast<unsigned>(sizeOf(type));
  return static_cast<std::int64_t>(bits << shift) >> shift;
}

std::string toText(ElementType type, std::uint64_t bits) {
  if (type == ElementType::F32)
    return fmt::format("{} (0x{:08x})", std::bit_cast<float>(static_cast<std::uint32_t>(bits)),
                       bits);
  if (type == ElementType::F64)
    return fmt::format("{} (0x{:016x})", std::bit_cast<double>(bits), bits);
  return isSigned(type) ? fmt::format("{}", signedValue(type, bits)) : fmt::format("{}", bits);
}

} // namespace tally::verify
