// Passing values through the C interface: errors of a thread, structures that begin with their
// size.
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

/// Sets the text of tally_last_error() and returns `status`. The text is empty if allocation fails.
tally_status fail(tally_status status, const char *message);
/// Fails a call because of an invalid argument.
tally_status invalid(const char *call, const char *why = "a null pointer or a value out of range");

/// Runs `call`, which returns a Result, and passes its value to `store`.
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

/// Converts a program's structure to this library's version; fields that the program's version
/// lacks are zero. Nothing if its size is invalid, or if it sets fields that this library does not
/// know.
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

/// Copies `known` into the program's structure as far as the structure goes; fields that this
/// library does not know become zero. The structure's size stays. False if the size is invalid.
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

/// Converts the options to those of runtime.h.
Result<RuntimeOptions> optionsFrom(const tally_options &given);
/// Wraps the program's policy for the runtime. The objects to which `table` points must outlive it.
AnyPolicy policyFrom(const tally_policy &table);

} // namespace tally::runtime::c_api

#endif
