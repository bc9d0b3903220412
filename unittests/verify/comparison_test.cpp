#include "comparison.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace tally::verify;

namespace {

template <class T>
std::optional<ElementDifference> compare(ElementType type, const std::vector<T> &expected,
                                         const std::vector<T> &got, std::string_view mode) {
  auto comparison = parseComparison(mode);
  REQUIRE(comparison);
  return firstDifference(type, std::as_bytes(std::span(expected)), std::as_bytes(std::span(got)),
                         *comparison);
}

} // namespace

TEST_CASE("exact compares bits") {
  CHECK_FALSE(compare<int>(ElementType::I32, {1, 2, 3}, {1, 2, 3}, "exact"));
  auto found = compare<int>(ElementType::I32, {1, 2, 3}, {1, 5, 4}, "exact");
  REQUIRE(found);
  CHECK(found->index == 1);
  CHECK(found->expected == 2);
  CHECK(found->got == 5);
  CHECK(compare<float>(ElementType::F32, {0.0f}, {-0.0f}, "exact"));
  float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(compare<float>(ElementType::F32, {nan}, {nan}, "exact"));
}

TEST_CASE("ulp counts representable values, across zero too") {
  float next = std::nextafter(1.0f, 2.0f);
  CHECK_FALSE(compare<float>(ElementType::F32, {1.0f}, {next}, "ulp:1"));
  CHECK(compare<float>(ElementType::F32, {1.0f}, {std::nextafter(next, 2.0f)}, "ulp:1"));
  CHECK_FALSE(compare<float>(ElementType::F32, {0.0f}, {-0.0f}, "ulp:0"));
  float tiny = std::numeric_limits<float>::denorm_min();
  CHECK_FALSE(compare<float>(ElementType::F32, {tiny}, {-tiny}, "ulp:2"));
  CHECK(compare<float>(ElementType::F32, {tiny}, {-tiny}, "ulp:1"));
  double most = std::numeric_limits<double>::max();
  CHECK(compare<double>(ElementType::F64, {most}, {-most}, "ulp:1000000000000"));
  double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(compare<double>(ElementType::F64, {nan}, {-nan}, "ulp:0"));
  CHECK(compare<double>(ElementType::F64, {nan}, {1.0}, "ulp:18446744073709551615"));
  CHECK(compare<unsigned>(ElementType::U32, {1}, {2}, "ulp:5"));
}

TEST_CASE("sorted compares multisets") {
  CHECK_FALSE(compare<unsigned>(ElementType::U32, {3, 1, 2, 1}, {2, 1, 3, 1}, "sorted"));
  CHECK(compare<unsigned>(ElementType::U32, {3, 1, 2, 1}, {1, 2, 2, 3}, "sorted"));
}

TEST_CASE("comparison modes are read and written back") {
  for (std::string_view mode : {"exact", "ulp:4", "sorted"})
    CHECK(toText(*parseComparison(mode)) == mode);
  for (std::string_view mode : {"", "ulp", "ulp:", "ulp:-1", "ulp:1x", "Exact", "sort"})
    CHECK_FALSE(parseComparison(mode));
}
