// Exact integers: wide products, divisions that say how they round, and the
// bound that keeps every product inside 128 bits.
//
// Rates, limits, bursts and costs are at most kTermMax = 2^62, so a product of
// two of them fits in a signed 128-bit integer with room for a sum.
//
//   const Wide lasts = Wide{cost} * shape.den + parts;   // cannot overflow
//   const std::int64_t whole = saturate(floor_div(lasts, shape.num));
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <cstdint>
#include <limits>

namespace weir {

__extension__ typedef __int128 Wide;

// The largest rate, limit, burst or cost, and one more than the last instant.
constexpr std::int64_t kTermMax = std::int64_t{1} << 62;
constexpr std::int64_t kMicro = 1'000'000;  // parts of a fractional unit

// The quotient, rounded down: -7 / 2 is -4. Requires a divisor other than 0.
constexpr Wide floor_div(Wide dividend, Wide divisor) noexcept {
  const Wide quotient = dividend / divisor;
  return (dividend % divisor != 0 && (dividend < 0) != (divisor < 0)) ? quotient - 1 : quotient;
}

// The quotient, rounded up: -7 / 2 is -3. Requires a divisor other than 0.
constexpr Wide ceil_div(Wide dividend, Wide divisor) noexcept {
  const Wide quotient = dividend / divisor;
  return (dividend % divisor != 0 && (dividend < 0) == (divisor < 0)) ? quotient + 1 : quotient;
}

// The nearest 64-bit value.
constexpr std::int64_t saturate(Wide value) noexcept {
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  if (value < Wide{least}) return least;
  if (value > Wide{most}) return most;
  return static_cast<std::int64_t>(value);
}

// a + b and a - b, or the nearest 64-bit value.
constexpr std::int64_t saturating_add(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) [[likely]]
    return sum;
  return b < 0 ? std::numeric_limits<std::int64_t>::min()
               : std::numeric_limits<std::int64_t>::max();
}

constexpr std::int64_t saturating_sub(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) [[likely]]
    return difference;
  return b > 0 ? std::numeric_limits<std::int64_t>::min()
               : std::numeric_limits<std::int64_t>::max();
}

// Quotient and remainder of a non-negative dividend. Hardware divides 64 bits
// several times faster than 128, and almost every dividend met here is small.
struct Division {
  std::int64_t quotient;
  std::int64_t remainder;
};

// Requires dividend >= 0, divisor >= 1, and a quotient below 2^63.
constexpr Division divide(Wide dividend, std::int64_t divisor) noexcept {
  if (divisor == 1) return {static_cast<std::int64_t>(dividend), 0};
  if (dividend <= Wide{std::numeric_limits<std::int64_t>::max()}) {
    const auto narrow = static_cast<std::int64_t>(dividend);
    return {narrow / divisor, narrow % divisor};
  }
  return {static_cast<std::int64_t>(dividend / divisor),
          static_cast<std::int64_t>(dividend % divisor)};
}

}  // namespace weir
