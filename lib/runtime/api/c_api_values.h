// How values cross the C interface: errors of a thread, and structures that begin with their size.
#ifndef TALLY_LIB_RUNTIME_API_C_API_VALUES_H
#define TALLY_LIB_RUNTIME_API_C_API_VALUES_H

#include "tally/runtime/runtime.h"
#include "tally/tally.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <utility>

namespace tally::runtime::c_api {

/// Says in tally_last_error() why the call fails, and returns the status. An allocation that fails
/// leaves the text empty.
tally_status fail(tally_status status, const char *message);
/// The error of a call that was given what no caller may give.
tally_status invalid(const char *call, const char *why = "a null pointer or a value out of range");

/// Runs `call`, which gives a Result, and stores its value by `store`.
template <class Call, class Store> tally_status give(const Call &call, const Store &store) {
  try {
    auto result = call();
    if (!result)
      return fail(TALLY_ERROR, result.error().message.c_str());
    store(std::move(*result));
    return TALLY_OK;
  } catch (const std::bad_alloc &) {
    return fail(TALLY_OUT_OF_MEMORY, "out of memory");
  }
}

template <class Call> tally_status perform(const Call &call) {
  try {
    Result<void> result = call();
    return result ? TALLY_OK : fail(TALLY_ERROR, result.error().message.c_str());
  } catch (const std::bad_alloc &) {
    return fail(TALLY_OUT_OF_MEMORY, "out of memory");
  }
}

inline constexpr const char *wrongSize =
    "the structure's size is wrong, or it sets what this library does not know; "
    "make it by its tally_default_ function";

/// What a program's structure says in the terms of this library's header: what the program's lacks
/// is zero. Nothing where its size cannot be, or it sets what this library's lacks.
template <class T> std::optional<T> fromCaller(const T &given) {
  std::size_t size = 0;
  std::memcpy(&size, &given, sizeof size);
  if (size < sizeof size)
    return std::nullopt;
  const auto *bytes = reinterpret_cast<const unsigned char *>(&given);
  for (std::size_t i = sizeof(T); i < size; ++i)
    if (bytes[i] != 0)
      return std::nullopt;
  T known{};
  std::memcpy(&known, &given, std::min(size, sizeof known));
  known.size = sizeof known;
  return known;
}

/// Writes as much of `known` as the program's structure has; what this library's lacks becomes
/// zero. Its size stays. False where that cannot be.
template <class T> bool toCaller(const T &known, T &given) {
  std::size_t size = 0;
  std::memcpy(&size, &given, sizeof size);
  if (size < sizeof size)
    return false;
  auto *bytes = reinterpret_cast<unsigned char *>(&given);
  const auto *from = reinterpret_cast<const unsigned char *>(&known);
  for (std::size_t i = sizeof size; i < size; ++i)
    bytes[i] = i < sizeof known ? from[i] : static_cast<unsigned char>(0);
  return true;
}

/// The options in the terms of runtime.h.
Result<RuntimeOptions> optionsFrom(const tally_options &given);
/// The program's policy as the runtime calls it. `table` and what it points to outlive it.
AnyPolicy policyFrom(const tally_policy &table);

} // namespace tally::runtime::c_api

#endif
