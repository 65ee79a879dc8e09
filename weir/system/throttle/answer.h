// Answer: what a bucket said, or why it could not say anything.
//
// A Result without a text: one is made for every claim. The names of faults are those of
// the recorded cases. A fault does not undo what was done before it was met, because the
// published software does not either.

#pragma once

#include <cstdint>
#include <string_view>

#include "weir/base/assert.h"

namespace weir::system::throttle {

enum class Fault : std::uint8_t {
  kNone,
  kTimeWentBackwards,  // asked about an instant before the last decision
  kIllegalArgument,    // a negative amount, or a level outside the bucket
  kIllegalState,       // a snapshot of another number of buckets
  kArithmetic,         // an elapsed time beyond 64 bits, or a division by zero
  kUnknownOperation,   // given back to an operation that no bucket lists
};

constexpr std::string_view to_string(Fault fault) noexcept {
  switch (fault) {
    case Fault::kNone:
      return "none";
    case Fault::kTimeWentBackwards:
      return "time-went-backwards";
    case Fault::kIllegalArgument:
      return "illegal-argument";
    case Fault::kIllegalState:
      return "illegal-state";
    case Fault::kArithmetic:
      return "arithmetic";
    case Fault::kUnknownOperation:
      return "unknown-op";
  }
  return "unknown";
}

template <typename T>
class [[nodiscard]] Answered {
 public:
  constexpr Answered(T value) noexcept : value_(value) {}
  constexpr Answered(Fault fault) noexcept : fault_(fault) { WEIR_ASSERT(fault != Fault::kNone); }

  constexpr bool ok() const noexcept { return fault_ == Fault::kNone; }
  constexpr Fault fault() const noexcept { return fault_; }
  constexpr const T& operator*() const noexcept {
    WEIR_ASSERT(ok());
    return value_;
  }
  constexpr const T* operator->() const noexcept { return &**this; }

 private:
  T value_{};
  Fault fault_ = Fault::kNone;
};

// Whether a claim was granted.
using Answer = Answered<bool>;

}  // namespace weir::system::throttle
