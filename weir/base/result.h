// Result: a value, or the error that stands for its absence.
//
// A refusal is an answer and travels inside the value (decision.h). An Error means
// that the question could not be answered at all: the caller must write something
// else, a bound of this process is reached, or a part of the world failed.
//
//   Result<Duration> hold = parse_duration("hold", text);
//   if (!hold) return hold.error();   // an Error becomes a Result of any type
//   keep_for(*hold);
//
// To drop a Result is a compiler warning. Exceptions do not cross
// public functions.
//
// Thread safety: none needed. A Result is a value.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "weir/base/assert.h"

namespace weir {

enum class ErrorCode : std::uint8_t {
  kBadArgument,  // the caller must write something else
  kNotFound,     // the named limit, key or hold does not exist
  kExhausted,    // a stated bound of this process is reached
  kUnavailable,  // a part of the world did not answer
  kUnmatched,    // the request meets no limit, and the rules want it to meet one
  kForbidden,    // this client may not ask that
};

// A program looks at the code. The message is for people, and one line, or a line
// for each mistake.
struct Error {
  ErrorCode code = ErrorCode::kBadArgument;
  std::string message;  // where, what was found, what was expected, what to write
};

// The error for what the caller must write otherwise.
inline Error bad_argument(std::string message) {
  return Error{ErrorCode::kBadArgument, std::move(message)};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  // Both implicit, so that a function returns what it has: a value, or why there is none.
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : held_(std::in_place_index<1>, std::move(error)) {}

  // Default-constructs the value in place, for results too large to move.
  explicit Result(std::in_place_t) : held_(std::in_place_index<0>) {}
  // The same again, where a result is used for one answer after the other.
  void renew() { held_.template emplace<0>(); }

  bool ok() const noexcept { return held_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  // The value. Requires ok(): a caller that has not asked is a bug, and is stopped.
  T& value() & {
    WEIR_ASSERT(ok());
    return *std::get_if<0>(&held_);
  }
  const T& value() const& {
    WEIR_ASSERT(ok());
    return *std::get_if<0>(&held_);
  }
  T&& value() && {
    WEIR_ASSERT(ok());
    return std::move(*std::get_if<0>(&held_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Why there is no value. Requires !ok().
  const Error& error() const& {
    WEIR_ASSERT(!ok());
    return *std::get_if<1>(&held_);
  }
  Error&& error() && {
    WEIR_ASSERT(!ok());
    return std::move(*std::get_if<1>(&held_));
  }

 private:
  std::variant<T, Error> held_;
};

// A result of which only the error matters: `return Done{};`.
struct Done {};
using Status = Result<Done>;

}  // namespace weir
