// The published software's overflow rules, in one place.

#pragma once

#include <cstdint>
#include <limits>

namespace weir::system::throttle {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int32_t kMax32 = std::numeric_limits<std::int32_t>::max();

// Only meaningful for b > 0: a negative `a` never overflows.
constexpr bool would_overflow(std::int64_t a, std::int64_t b) noexcept {
  return b != 0 && a > kMax / b;
}

// Two's complement, as the published code multiplies.
constexpr std::int64_t wrapping_product(std::int64_t a, std::int64_t b) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
constexpr std::int32_t wrapping_product32(std::int32_t a, std::int32_t b) noexcept {
  return static_cast<std::int32_t>(std::int64_t{a} * b);
}

}  // namespace weir::system::throttle
