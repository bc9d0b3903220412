// Compares the contents of a buffer after two runs.
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

/// Exact: bit for bit. Ulp: floats may differ by `ulps` representable values (NaN equals NaN, other
/// types are exact). Sorted: the same elements, bit for bit, in any order.
enum class CompareMode : std::uint8_t { Exact, Ulp, Sorted };

struct Comparison {
  CompareMode mode = CompareMode::Exact;
  std::uint64_t ulps = 0;
  friend bool operator==(const Comparison &, const Comparison &) = default;
};

/// Parses `exact`, `ulp:N` or `sorted`.
Result<Comparison> parseComparison(std::string_view text);
std::string toText(const Comparison &comparison);

struct ElementDifference {
  std::size_t index = 0; ///< index of the element; for Sorted, its rank in ascending order of bits
  std::uint64_t expected = 0, got = 0;
};

/// Returns the first element in which `got` differs. Both spans hold the same number of whole
/// elements of `type`.
std::optional<ElementDifference> firstDifference(ElementType type,
                                                 std::span<const std::byte> expected,
                                                 std::span<const std::byte> got,
                                                 const Comparison &comparison);

} // namespace tally::verify

#endif
