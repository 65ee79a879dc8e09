// Numbers as the published software computes them and reads them from text.
//
// Products wrap in two's complement, and what would overflow is found by its own rule, which
// is not ours. Text is a sign and digits. A scale factor, `5:2`, multiplies a number of
// operations in 32 bits. Settings are written as triggers, percentages and what they set off
// in turn: `50,3:2,90,5:1`.
//
// Thread safety: every function is pure.

#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

#include "weir/system/throttle/answer.h"

namespace weir::system::throttle {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int32_t kMax32 = std::numeric_limits<std::int32_t>::max();

// Only meaningful for b > 0: a negative `a` never overflows.
constexpr bool would_overflow(std::int64_t a, std::int64_t b) noexcept {
  return b != 0 && a > kMax / b;
}

constexpr std::int64_t wrapping_product(std::int64_t a, std::int64_t b) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
constexpr std::int32_t wrapping_product32(std::int32_t a, std::int32_t b) noexcept {
  return static_cast<std::int32_t>(std::int64_t{a} * b);
}

// None: not a number, or not one of this type.
template <typename Integer>
std::optional<Integer> parse_whole(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  Integer value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc{} || stopped != end) return std::nullopt;
  return value;
}

// What follows a point is cut off a number.
constexpr std::string_view before_point(std::string_view text) noexcept {
  return text.substr(0, text.find('.'));
}

// --- scale factors

struct ScaleFactor {
  std::int32_t numerator = 1;
  std::int32_t denominator = 1;  // at least 1

  friend bool operator==(const ScaleFactor&, const ScaleFactor&) = default;
};

// `n:d` with n from 0 and d from 1, both below 2^31.
inline std::optional<ScaleFactor> parse_scale(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto numerator = parse_whole<std::int32_t>(text.substr(0, colon));
  const auto denominator = parse_whole<std::int32_t>(text.substr(colon + 1));
  if (!numerator || !denominator || *numerator < 0 || *denominator < 1) return std::nullopt;
  return ScaleFactor{*numerator, *denominator};
}

// Rounded down once, over the whole product, and never below 1. A product beyond 32 bits
// gives what 2^31-1 divided by the denominator gives. Of a numerator of 0: an anomaly.
constexpr Answered<std::int32_t> scaled(ScaleFactor by, std::int32_t n) noexcept {
  if (by.numerator == 0) return Anomaly::kArithmetic;
  if (n > kMax32 / by.numerator) return kMax32 / by.denominator;
  const std::int32_t quotient = wrapping_product32(n, by.numerator) / by.denominator;
  return quotient < 1 ? 1 : quotient;
}

// The factor as a share of capacity: into how many parts it is split, rounded up.
constexpr Answered<std::int32_t> split_of(ScaleFactor share) noexcept {
  if (share.numerator == 0) return Anomaly::kArithmetic;
  const auto sum = static_cast<std::int32_t>(std::int64_t{share.denominator} + share.numerator - 1);
  return sum / share.numerator;
}

// Whether a is less than b, by cross products in 32 bits.
constexpr bool is_less(ScaleFactor a, ScaleFactor b) noexcept {
  return wrapping_product32(a.numerator, b.denominator) <
         wrapping_product32(b.numerator, a.denominator);
}

// --- triggers

// Calls `take(percent, value)` for each pair of triggers, and returns whether all were good:
// percentages that rise, from 0 to 100, each with a value that `take` accepts by true.
template <typename Take>
bool parse_triggers(std::string_view text, Take&& take) {
  std::optional<std::int32_t> last;
  for (;;) {
    const std::size_t comma = text.find(',');
    if (comma == std::string_view::npos) return false;
    const auto percent = parse_whole<std::int32_t>(before_point(text.substr(0, comma)));
    if (!percent || *percent < 0 || *percent > 100 || (last && *percent <= *last)) return false;
    last = percent;
    text.remove_prefix(comma + 1);
    const std::size_t end = text.find(',');
    if (!take(*percent, text.substr(0, end))) return false;
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}

}  // namespace weir::system::throttle
