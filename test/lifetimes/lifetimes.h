// Declarations that both halves of the program share.
#ifndef TALLY_TEST_LIFETIMES_LIFETIMES_H
#define TALLY_TEST_LIFETIMES_LIFETIMES_H

#include "tally/runtime/runtime.h"

#include <fmt/format.h>

#include <cstdlib>
#include <functional>
#include <optional>

namespace tally::runtime {

template <class T> T must(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "lifetimes: {}\n", result.error().message);
    std::exit(1);
  }
  return std::move(*result);
}
inline void must(const Result<void> &result) {
  if (!result) {
    fmt::print(stderr, "lifetimes: {}\n", result.error().message);
    std::exit(1);
  }
}
inline void mustBe(bool right, const char *what) {
  must(right ? Result<void>() : Result<void>(Error{fmt::format("wrong: {}", what)}));
}

/// Calls `round` `rounds` times, and fails where the process's or the device's memory grows.
void measure(const char *what, int rounds, const std::function<void()> &round);

// Only where there is a GPU (adoption.cpp).

/// Nothing on a GPU, where the number is not known.
std::optional<std::size_t> freeDeviceMemory();
/// A stream and a function that the program has made by the driver.
void adoptThem(Runtime &runtime, int rounds);

} // namespace tally::runtime

#endif
