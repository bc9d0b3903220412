/**
 * @file
 * Errors as values. Tally never mixes three outcomes: wrong input (an Error of this header, with a
 * position where there is one), a refusal (a verdict with a reason, which tally-ptxopt reports) and
 * a bug of Tally (assert).
 */
#ifndef TALLY_SUPPORT_RESULT_H
#define TALLY_SUPPORT_RESULT_H

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace tally {

/// Why a call failed.
struct Error {
  /// The failure, its place, and the remedy: one sentence without a final newline.
  std::string message;
};

/// Either a value or an Error. The caller tests it before use. Reading the alternative that is not
/// there is a bug of the caller: an assert fails, or with NDEBUG the behaviour is undefined. One
/// thread at a time.
template <class T> class [[nodiscard]] Result {
public:
  /// Success with this value.
  Result(T value) : state(std::in_place_index<0>, std::move(value)) {}
  /// Failure with this error.
  Result(Error error) : state(std::in_place_index<1>, std::move(error)) {}

  /// Whether it holds a value.
  explicit operator bool() const { return state.index() == 0; }
  /// The value, which has to be there.
  T &operator*() {
    assert(*this && "reading the value of a failed Result");
    return *std::get_if<0>(&state);
  }
  /// The value, which has to be there.
  const T &operator*() const {
    assert(*this && "reading the value of a failed Result");
    return *std::get_if<0>(&state);
  }
  T *operator->() { return &**this; }             ///< a member of the value, which has to be there
  const T *operator->() const { return &**this; } ///< a member of the value, which has to be there
  /// The error, which has to be there.
  const Error &error() const {
    assert(!*this && "reading the error of a good Result");
    return *std::get_if<1>(&state);
  }

private:
  std::variant<T, Error> state;
};

/// Result of an action that yields nothing: good unless it holds an Error.
template <> class [[nodiscard]] Result<void> {
public:
  /// Success.
  Result() = default;
  /// Failure with this error.
  Result(Error error) : failure(std::move(error)), failed(true) {}

  /// Whether the action succeeded.
  explicit operator bool() const { return !failed; }
  /// The error, which has to be there.
  const Error &error() const {
    assert(failed && "reading the error of a good Result");
    return failure;
  }

private:
  Error failure;
  bool failed = false;
};

} // namespace tally

#endif
