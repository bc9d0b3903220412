#include "comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <charconv>
#include <cmath>
#include <vector>

namespace tally::verify {

namespace {

/// Maps a float's bits to integers in the order of the values; -0 and +0 map to the same integer.
std::int64_t orderedFloat(ElementType type, std::uint64_t bits) {
  std::uint64_t sign = type == ElementType::F32 ? 0x80000000u : 0x8000000000000000u;
  auto magnitude = static_cast<std::int64_t>(bits & (sign - 1));
  return bits & sign ? -magnitude : magnitude;
}

bool isNan(ElementType type, std::uint64_t bits) {
  return type == ElementType::F32
             ? std::isnan(std::bit_cast<float>(static_cast<std::uint32_t>(bits)))
             : std::isnan(std::bit_cast<double>(bits));
}

bool same(ElementType type, std::uint64_t a, std::uint64_t b, const Comparison &comparison) {
  if (a == b)
    return true;
  if (comparison.mode != CompareMode::Ulp || !isFloat(type))
    return false;
  if (isNan(type, a) || isNan(type, b))
    return isNan(type, a) && isNan(type, b);
  std::int64_t x = orderedFloat(type, a), y = orderedFloat(type, b);
  // Unsigned, because the distance of two doubles may exceed the range of a signed 64-bit number.
  std::uint64_t distance = x > y ? static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y)
                                 : static_cast<std::uint64_t>(y) - static_cast<std::uint64_t>(x);
  return distance <= comparison.ulps;
}

std::vector<std::uint64_t> elementsOf(ElementType type, std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> elements(bytes.size() / sizeOf(type));
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i] = bitsAt(type, bytes, i);
  return elements;
}

} // namespace

Result<Comparison> parseComparison(std::string_view text) {
  if (text == "exact")
    return Comparison{CompareMode::Exact};
  if (text == "sorted")
    return Comparison{CompareMode::Sorted};
  if (text.starts_with("ulp:")) {
    Comparison comparison{CompareMode::Ulp};
    std::string_view digits = text.substr(4);
    auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), comparison.ulps);
    if (error == std::errc() && end == digits.data() + digits.size() && !digits.empty())
      return comparison;
  }
  return Error{fmt::format("'{}' is none of exact, ulp:N, sorted", text)};
}

std::string toText(const Comparison &comparison) {
  switch (comparison.mode) {
  case CompareMode::Exact:
    return "exact";
  case CompareMode::Ulp:
    return fmt::format("ulp:{}", comparison.ulps);
  case CompareMode::Sorted:
    return "sorted";
  }
  assert(false && "a comparison mode without a name");
  return {};
}

std::optional<ElementDifference> firstDifference(ElementType type,
                                                 std::span<const std::byte> expected,
                                                 std::span<const std::byte> got,
                                                 const Comparison &comparison) {
  assert(expected.size() == got.size() && expected.size() % sizeOf(type) == 0);
  std::vector<std::uint64_t> left = elementsOf(type, expected), right = elementsOf(type, got);
  if (comparison.mode == CompareMode::Sorted) {
    std::ranges::sort(left);
    std::ranges::sort(right);
  }
  for (std::size_t i = 0; i < left.size(); ++i)
    if (!same(type, left[i], right[i], comparison))
      return ElementDifference{i, left[i], right[i]};
  return std::nullopt;
}

} // namespace tally::verify
