// Answer: what a bucket said, or why it could not say anything.
//
// A Result without a text: one is made for every claim. The names of anomalies are those of
// the recorded cases. An anomaly does not undo what was done before it was met, because the
// published software does not either.

#pragma once

#include <cstdint>
#include <string_view>

#include "weir/base/assert.h"

namespace weir::system::throttle {

enum class Anomaly : std::uint8_t {
  kNone,
  kTimeWentBackwards,  // asked about an instant before the last decision
  kIllegalArgument,    // a negative amount, or a level outside the bucket
  kIllegalState,       // a snapshot of another number of buckets
  kArithmetic,         // an elapsed time beyond 64 bits, or a division by zero
  kUnknownOperation,   // given back to an operation that no bucket lists
};

constexpr std::string_view to_string(Anomaly anomaly) noexcept {
  switch (anomaly) {
    case Anomaly::kNone:
      return "none";
    case Anomaly::kTimeWentBackwards:
      return "time-went-backwards";
    case Anomaly::kIllegalArgument:
      return "illegal-argument";
    case Anomaly::kIllegalState:
      return "illegal-state";
    case Anomaly::kArithmetic:
      return "arithmetic";
    case Anomaly::kUnknownOperation:
      return "unknown-op";
  }
  return "unknown";
}

template <typename T>
class [[nodiscard]] Answered {
 public:
  constexpr Answered(T value) noexcept : value_(value) {}
  constexpr Answered(Anomaly anomaly) noexcept : anomaly_(anomaly) {
    WEIR_ASSERT(anomaly != Anomaly::kNone);
  }

  constexpr bool ok() const noexcept { return anomaly_ == Anomaly::kNone; }
  constexpr Anomaly anomaly() const noexcept { return anomaly_; }
  constexpr const T& operator*() const noexcept {
    WEIR_ASSERT(ok());
    return value_;
  }
  constexpr const T* operator->() const noexcept { return &**this; }

 private:
  T value_{};
  Anomaly anomaly_ = Anomaly::kNone;
};

// Whether a claim was granted.
using Answer = Answered<bool>;

}  // namespace weir::system::throttle
