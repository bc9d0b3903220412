// Element types of buffers: sizes, names, values as text.
#ifndef TALLY_VERIFY_ELEMENT_H
#define TALLY_VERIFY_ELEMENT_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tally::verify {

enum class ElementType : std::uint8_t { I8, U8, I16, U16, I32, U32, I64, U64, F32, F64 };

/// Bytes of one element: 1, 2, 4 or 8.
std::size_t sizeOf(ElementType type);
bool isFloat(ElementType type);
bool isSigned(ElementType type);
std::string_view name(ElementType type);
std::optional<ElementType> elementTypeFromName(std::string_view text);

/// Returns the element's bits, zero-extended. `bytes` holds at least (index + 1) elements.
std::uint64_t bitsAt(ElementType type, std::span<const std::byte> bytes, std::size_t index);
/// Returns the bits of a signed type sign-extended, and the bits of another type unchanged.
std::int64_t signedValue(ElementType type, std::uint64_t bits);
/// Returns the value as a number; for floats with the bits, since two NaNs print alike.
std::string toText(ElementType type, std::uint64_t bits);

} // namespace tally::verify

#endif
