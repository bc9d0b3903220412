// Errors as values. Three kinds of trouble are never mixed in Tally: wrong input (this header, with
// a place where there is one), a refusal (a verdict, see bundle/verdict.h) and our own bug
// (assert).
#ifndef TALLY_SUPPORT_RESULT_H
#define TALLY_SUPPORT_RESULT_H

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace tally {

/// What went wrong, where, and what to do about it, as one sentence without a final newline.
struct Error {
  std::string message;
};

/// Either a value or an Error. The caller tests it before use; reading the wrong side is a bug of
/// the caller and asserts. Not thread-safe, as any value.
template <class T> class [[nodiscard]] Result {
public:
  Result(T value) : state(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state.index() == 0; }
  T &operator*() {
    assert(*this && "reading the value of a failed Result");
    return *std::get_if<0>(&state);
  }
  const T &operator*() const {
    assert(*this && "reading the value of a failed Result");
    return *std::get_if<0>(&state);
  }
  T *operator->() { return &**this; }
  const T *operator->() const { return &**this; }
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
  Result() = default;
  Result(Error error) : failure(std::move(error)), failed(true) {}

  explicit operator bool() const { return !failed; }
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
