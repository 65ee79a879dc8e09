// Numbers as the published software computes them and reads them from text.
//
// Products wrap in two's complement, and what would overflow is found by its own rule, which
// is not ours. Text is a sign and digits. Settings are written as triggers, percentages and
// what they set off in turn: `50,3:2,90,5:1`.
//
// Thread safety: every function is pure.

#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

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

// Calls `take(percent, value)` for each pair of triggers. False: the percentages are not from 0
// to 100 and rising, a value is missing, or `take` said so.
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
