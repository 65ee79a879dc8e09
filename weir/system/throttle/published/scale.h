// Scale factor: `5:2`, five halves. Multiplies a number of operations in 32 bits, as the
// published software does.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "weir/system/throttle/answer.h"
#include "weir/system/throttle/published/numbers.h"

namespace weir::system::throttle {

struct ScaleFactor {
  std::int32_t numerator = 1;
  std::int32_t denominator = 1;  // at least 1

  friend bool operator==(const ScaleFactor&, const ScaleFactor&) = default;
};

// `n:d` with n from 0 and d from 1, both below 2^31.
std::optional<ScaleFactor> parse_scale(std::string_view text);

// Rounded down once, over the whole product, and never below 1. A product beyond 32 bits
// gives what 2^31-1 divided by the denominator gives. Of a numerator of 0: a fault.
constexpr Answered<std::int32_t> scaled(ScaleFactor by, std::int32_t n) noexcept {
  if (by.numerator == 0) return Fault::kArithmetic;
  if (n > kMax32 / by.numerator) return kMax32 / by.denominator;
  const std::int32_t quotient = wrapping_product32(n, by.numerator) / by.denominator;
  return quotient < 1 ? 1 : quotient;
}

// The factor as a share of capacity: into how many parts it is split, rounded up.
Answered<std::int32_t> split_of(ScaleFactor share) noexcept;

// Whether a is less than b, by cross products in 32 bits.
constexpr bool is_less(ScaleFactor a, ScaleFactor b) noexcept {
  return wrapping_product32(a.numerator, b.denominator) <
         wrapping_product32(b.numerator, a.denominator);
}

}  // namespace weir::system::throttle
