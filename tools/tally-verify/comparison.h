// Comparing what two runs left in a buffer.
#ifndef TALLY_VERIFY_COMPARISON_H
#define TALLY_VERIFY_COMPARISON_H

#include "element.h"

#include "tally/support/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tally::verify {

/// Exact: bit for bit. Ulp: floats may be so many representable values apart (NaN equals NaN, other
/// types are exact). Sorted: the same elements, bit for bit, in any order.
enum class CompareMode : std::uint8_t { Exact, Ulp, Sorted };

struct Comparison {
  CompareMode mode = CompareMode::Exact;
  std::uint64_t ulps = 0;
  friend bool operator==(const Comparison &, const Comparison &) = default;
};

/// `exact`, `ulp:N`, `sorted`.
Result<Comparison> parseComparison(std::string_view text);
std::string toText(const Comparison &comparison);

struct ElementDifference {
  std::size_t index = 0; ///< of the element; of Sorted, its rank in ascending order of bits
  std::uint64_t expected = 0, got = 0;
};

/// The first element in which `got` differs. Both hold whole elements of `type`, equally many.
std::optional<ElementDifference> firstDifference(ElementType type,
                                                 std::span<const std::byte> expected,
                                                 std::span<const std::byte> got,
                                                 const Comparison &comparison);

} // namespace tally::verify

#endif
